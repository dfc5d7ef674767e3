"""Writes the stubs by which editors and mypy know `rlab.client` in a checkout: `python -m tools.name_stubs`.

There is one for each module that an example or a page imports below `rlab`, and for the packages above it. It imports
all names of the real module, so it cannot become wrong later.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "rlab"
_IMPORT = re.compile(r"^ *from rlab\.([\w.]+) import ", re.MULTILINE)


def stubs(root: Path = ROOT) -> dict[str, str]:
    """The text of each stub by its path below `rlab/`."""
    files = [root / "README.md", *(root / "docs").rglob("*.md"), *(root / "examples").rglob("*.py")]
    imported = {name for file in files for name in _IMPORT.findall(file.read_text(encoding="utf-8"))}
    packages = {name[: dot.start()] for name in imported for dot in re.finditer(r"\.", name)}
    stub_files = {}
    for name in sorted(imported | packages):
        path = name.replace(".", "/")
        path += "/__init__.pyi" if (root / path).is_dir() else ".pyi"
        stub_files[path] = f"from {name} import *\n"
    return stub_files


def main() -> None:
    """Replace all stubs."""
    for each in FOLDER.iterdir():
        if each.is_dir():
            shutil.rmtree(each)
    for path, text in stubs().items():
        (FOLDER / path).parent.mkdir(parents=True, exist_ok=True)
        (FOLDER / path).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
