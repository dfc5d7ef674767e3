"""Builds the wheel: the packages of pyproject.toml, moved below the name `rlab`, with their imports rewritten.

setuptools loads this file by its path, in an environment that has only setuptools. An editable installation is the
checkout itself, whose folder `rlab/` has the name.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from setuptools.command.build_py import build_py
from setuptools.command.egg_info import egg_info

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tools.one_name import NAME, ROOT, shown_files, write_installed


class BuildPy(build_py):  # type: ignore[misc] # mypy does not follow it: not every environment has its types
    """Copies the packages into the wheel, below the name."""

    def run(self) -> None:
        """Write the packages, unless the checkout itself is installed."""
        if not self.editable_mode:
            shutil.rmtree(self.build_lib, ignore_errors=True)  # files of an earlier build would be installed too
            write_installed(Path(self.build_lib))

    def get_source_files(self) -> list[str]:
        """The files of the source archive: these tools too, and the files that are installed beside the packages."""
        own_files = [*(ROOT / NAME).rglob("*.py"), *(ROOT / NAME).rglob("*.pyi"), *(ROOT / "tools").glob("*.py")]
        own_files += shown_files()
        files = [path.relative_to(ROOT).as_posix() for path in own_files]
        return [*super().get_source_files(), *sorted(files)]


class EggInfo(egg_info):  # type: ignore[misc] # as above
    """Lists the installed top-level names, by which `importlib.metadata` finds the distribution of a module."""

    def run(self) -> None:
        """Write the metadata."""
        super().run()
        names = [NAME, *self.distribution.py_modules]
        Path(self.egg_info, "top_level.txt").write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
