"""The functions that mkdocs calls when it builds the site; `mkdocs.yml` names this file.

They add the pages that are made from the code, the pages of the top folder, and the source files that pages link to.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # mkdocs loads this file by its path

from mkdocs.structure.files import File, Files
from pymdownx.superfences import SuperFencesException

from tools.site.diagrams.draw import draw
from tools.site.diagrams.marks import NotDrawable
from tools.site.links import OUTSIDE, ROOT, home, pages, slug, with_site_links
from tools.site.made import made_pages

_REPOSITORY = {site: path for path, site in OUTSIDE.items()}


def on_config(config: Any) -> Any:
    """Make anchors as GitHub does, where the same pages are read, and draw the diagrams of pages."""
    extensions = config["mdx_configs"]
    extensions.setdefault("toc", {})["slugify"] = lambda heading, _separator: slug(heading)
    mermaid = {"name": "mermaid", "class": "mermaid", "format": _diagram}
    extensions.setdefault("pymdownx.superfences", {})["custom_fences"] = [mermaid]
    return config


def _diagram(source: str, *_: Any, **__: Any) -> str:
    """The picture of a fenced diagram.

    Raises:
        SuperFencesException: it cannot be drawn; without this error the page would show its text instead.
    """
    try:
        return draw(source)
    except NotDrawable as error:
        raise SuperFencesException(f"a diagram cannot be drawn: {error}") from error


def on_files(files: Files, config: Any) -> Files:
    """Add the files that are not in docs/."""
    texts = {path: (ROOT / path).read_text(encoding="utf-8") for path in pages()}
    for path, site in OUTSIDE.items():
        files.append(File.generated(config, site, content=texts[path]))
    for site, text in made_pages().items():
        files.append(File.generated(config, site, content=text))
    for source in sorted({each for path, text in texts.items() for each in with_site_links(path, text)[1]}):
        files.append(File.generated(config, f"source/{source}", abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turn the links of the repository into links of the site."""
    site = page.file.src_uri
    linked = with_site_links(_REPOSITORY.get(site, f"docs/{site}"), markdown)[0]
    return home((ROOT / "README.md").read_text(encoding="utf-8"), linked) if site == "README.md" else linked
