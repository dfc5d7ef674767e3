"""The scripts and styles of the pictures, as files for a server and bundled into one text for a page that is a file.

The scripts are plain modules, so that a browser loads them as they are. Bundled, they are one module: their imports of
each other are dropped, and so is the word `export`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable

from model.own_name import PREFIX

_IMPORT = re.compile(r"^import\b[^;]*;\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(async |class|const|function|let))", re.MULTILINE)


def static_folder(package: str = "pictures") -> Traversable:
    """The folder of the files of a package of ours."""
    return files(f"{PREFIX}{package}") / "static"


def text_of(name: str) -> str:
    """One file of the pictures."""
    return (static_folder() / name).read_text(encoding="utf-8")


def bundled(names: Sequence[str]) -> str:
    """Scripts as one, in this order: each after those that it imports."""
    return "\n".join(_EXPORT.sub("", _IMPORT.sub("", text_of(name))) for name in names)
