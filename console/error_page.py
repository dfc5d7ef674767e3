"""The page that a person gets where a program gets an error as JSON. Pure.

wants_page("text/html,*/*")     -> True, from a browser that opens an address
wants_page("application/json")  -> False, from a script
error_page(404, "...")          -> a page with the error, and the views that there are
"""

from __future__ import annotations

from html import escape

NOT_FOUND = "the console has no page of this address"
_TITLES = {403: "Refused", 404: "Not found", 502: "The cluster does not answer", 503: "Too busy"}
_VIEWS = {"/": "Cluster", "/topics": "Topics", "/groups": "Groups"}


def wants_page(accept: str) -> bool:
    """Return whether this Accept header is one of a browser that opens an address; scripts ask for JSON or for all."""
    return any(part.partition(";")[0].strip().lower() == "text/html" for part in accept.split(","))


def error_page(status: int, message: str) -> str:
    """Return a page that works without scripts; the message is text, whatever characters it has."""
    title = _TITLES.get(status, "Not possible")
    links = "".join(f'<li><a href="{path}">{name}</a></li>' for path, name in _VIEWS.items())
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title} · rlab console</title>\n"
        '<link rel="icon" href="/static/console/icon.svg">\n'
        '<link rel="stylesheet" href="/static/pictures/pictures.css">\n'
        '<link rel="stylesheet" href="/static/console/console.css">\n'
        f'</head>\n<body>\n<main>\n<h1>{title}</h1>\n<p class="problem">{escape(message)}</p>\n'
        f"<p>Go on with one of these:</p>\n<ul>{links}</ul>\n</main>\n</body>\n</html>\n"
    )
