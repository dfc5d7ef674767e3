"""Links between files of the repository, and their targets on the site.

docs/pop.md         [CONTRIBUTING](../CONTRIBUTING.md#tests)    (contributing.md#tests)
docs/howto/x.md     [an example](../../examples/hello.py)       (../source/examples/hello.py)
README.md           [events](docs/events.md)                    (events.md)
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OUTSIDE = {
    "README.md": "project.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "examples/java/README.md": "java.md",
}
"""Pages that are not in docs/, and their paths on the site."""

_LINK = re.compile(r"(?<=\]\()(?![a-z]+://|#)([^)#\s]+)(#[^)\s]*)?(?=\))")


def site_path(path: str) -> str:
    """The path of a file of the repository on the site; source files are copied unchanged."""
    if path in OUTSIDE:
        return OUTSIDE[path]
    inside = path.removeprefix("docs/")
    return inside if inside != path else f"source/{path}"


def with_site_links(path: str, markdown: str) -> tuple[str, set[str]]:
    """A page with the links of the site, and the files of the source that it links to."""
    sources: set[str] = set()

    def moved(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), link[1]))
        if (where := site_path(target)).startswith("source/"):
            sources.add(target)
        relative = posixpath.relpath(where, posixpath.dirname(site_path(path)) or ".")
        return relative + (link[2] or "")

    return _LINK.sub(moved, markdown), sources


def home(readme: str, index: str) -> str:
    """The home of the site: the head of the README with its picture, then the index of all pages."""
    head = readme.partition("\n## ")[0]
    return with_site_links("README.md", head)[0] + "\n\n" + index.replace("# Documentation\n", "## Documentation\n", 1)


def pages() -> list[str]:
    """Every page of the repository that is on the site."""
    return [*OUTSIDE, *sorted(page.relative_to(ROOT).as_posix() for page in (ROOT / "docs").rglob("*.md"))]


def slug(heading: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower().replace("`", "")).replace(" ", "-")
