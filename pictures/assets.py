"""The scripts and styles of the pictures, as files for a server, and bundled into one text for a page in a file.

The scripts are plain modules, which a browser loads directly. Bundled, they are one module without their imports of
each other and without the word `export`.
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
    """Return the folder of the static files of one of our packages."""
    return files(f"{PREFIX}{package}") / "static"


def read_asset(name: str) -> str:
    """Return the text of one file of the pictures."""
    return (static_folder() / name).read_text(encoding="utf-8")


def bundle_scripts(names: Sequence[str]) -> str:
    """Join scripts in this order: each after the scripts that it imports."""
    return "\n".join(_EXPORT.sub("", _IMPORT.sub("", read_asset(name))) for name in names)
