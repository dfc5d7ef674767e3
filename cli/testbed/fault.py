"""`rlab fault`: faults, barriers and processes of a test cluster from a shell, over the HTTP of its control plane."""

from __future__ import annotations

import json as json_module
from typing import Annotated, Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

import typer

from cli.complete import fault_words
from cli.options import Config
from model.errors import ConnectFailed, InvalidParameter
from process.output import print_json
from process.runtime import FAILED, exit_with_error

_ENDLESS_S = 3_700.0
_NUMBERS = ("share", "one_in", "n", "for_s", "by_s", "jitter_s", "rate")
_WHOLE = ("one_in", "n")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("fault")(fault)


def fault(
    verb: Annotated[str, typer.Argument(help="drop, cut, ...; kill, pause, ...; list, heal, group, wait, report.")],
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[WORD]...", help="Names, and COLUMN=VALUE.", autocompletion=fault_words),
    ] = None,
    control: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where the control plane is.")] = "",
    token: Annotated[str, typer.Option(help="Its token.")] = "",
    config: Config = None,
) -> None:
    """Do a fault to a cluster that was started with rlab cluster --control, or ask it something.

    Prints the answer as JSON. Exit code 1 if a barrier was not reached in time. The columns of a fault are those of
    docs/testing.md.

    Example: rlab fault drop code=NOTIFY_CONSUMER_IDS_CHANGED client=c2 n=1

    Example: rlab fault kill broker-a

    Example: rlab fault wait billing stable members=3 timeout_s=20

    Example: rlab fault heal
    """
    with exit_with_error():
        if not control or not token:
            raise InvalidParameter(
                "say where the control plane is: --control and --token, or RLAB_FAULT_CONTROL and RLAB_FAULT_TOKEN, "
                "as rlab cluster --control 0 prints them"
            )
        document, is_good = ask(control, token, *fault_request(verb, words or []))
        print_json(document)
    if not is_good:
        raise typer.Exit(FAILED)


def fault_request(verb: str, words: list[str]) -> tuple[str, str, dict[str, Any] | None]:
    """The method, the path and the body of the request that a command line describes.

    Raises:
        InvalidParameter: words are missing.
    """
    from remoting.faults.fault import VERBS

    names = [quote(word, safe="") for word in words if "=" not in word]
    columns = dict(word.split("=", 1) for word in words if "=" in word)
    match verb, names:
        case "list", []:
            return "GET", "/v1/faults", None
        case "report", []:
            return "GET", f"/v1/report?{urlencode(columns)}", None
        case "heal", []:
            return "POST", "/v1/heal", None
        case "heal", [number]:
            return "DELETE", f"/v1/faults/{number}", None
        case "group", [group]:
            return "GET", f"/v1/groups/{group}", None
        case "wait", [group, barrier]:
            return "GET", f"/v1/groups/{group}/wait/{barrier}?{urlencode(columns)}", None
        case (("group" | "wait"), _):
            raise InvalidParameter(f"rlab fault {verb} needs a group" + (" and a barrier" if verb == "wait" else ""))
        case _, [process] if not columns and (verb not in VERBS or verb == "pause"):
            return "POST", f"/v1/processes/{process}/{quote(verb, safe='')}", None
    if names:
        raise InvalidParameter(f"write {names[0]!r} as COLUMN=VALUE, for instance client={names[0]}")
    return "POST", "/v1/faults", {"do": verb, **{name: _value(name, text) for name, text in columns.items()}}


def _value(name: str, text: str) -> str | float | int:
    if name not in _NUMBERS:
        return text
    try:
        return int(text) if name in _WHOLE else float(text)
    except ValueError:
        raise InvalidParameter(f"{name} is a number, got {text[:40]!r}") from None


def ask(control: str, token: str, method: str, path: str, body: dict[str, Any] | None) -> tuple[dict[str, Any], bool]:
    """Send one request; returns its answer, and whether it reports success.

    Raises:
        ConnectFailed: nothing answers there.
        InvalidParameter: the request was refused.
    """
    data = None if body is None else json_module.dumps(body).encode()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = Request(f"http://{control}{path}", data, headers, method=method)
    try:
        with urlopen(request, timeout=_ENDLESS_S) as answer:
            return json_module.load(answer), True
    except HTTPError as error:
        document = json_module.load(error)
        if "error" in document:
            raise InvalidParameter(document["error"]) from None
        return document, False
    except (URLError, OSError) as error:
        raise ConnectFailed(f"no control plane answers at {control}: {error}") from None
