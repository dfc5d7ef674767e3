"""Runs the tests of Spark with the oldest pyspark that pyproject.toml allows: `make compat-spark`.

An environment in `build/` has that pyspark and takes every other package from the environment that runs this program,
so the two differ in nothing else. Arguments are for pytest; without any, all of `tests/spark` is run.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import venv
from collections.abc import Sequence
from pathlib import Path

from process.output import print_line
from tests.compat.checkout import ROOT


def oldest_pyspark() -> str:
    """The lower bound of pyspark in pyproject.toml, as a version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (bounds,) = [each for each in project["optional-dependencies"]["spark"] if each.startswith("pyspark")]
    lowest = re.search(r">=([0-9.]+)", bounds)
    assert lowest is not None, f"pyproject.toml gives pyspark no lower bound: {bounds}"
    return lowest[1]


def environment_with(version: str) -> Path:
    """Make the environment, unless an earlier run has made it; returns its Python."""
    folder = ROOT / "build" / f"pyspark-{version}"
    python, is_whole = folder / "bin" / "python", folder / "is-whole"
    if is_whole.exists():
        return python
    venv.create(folder, clear=True, symlinks=True)
    packages = Path(folder, "lib", f"python{sys.version_info.major}.{sys.version_info.minor}", "site-packages")
    # Behind its own packages on the import path. A `.pth` file cannot name the folder alone, because then the `.pth`
    # files in it, by which Python finds this tree, are not read.
    ours = [entry for entry in sys.path if entry.endswith("site-packages")]
    packages.joinpath("ours.pth").write_text(f"import site; list(map(site.addsitedir, {ours!r}))\n", encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--python", str(python)]
    if subprocess.run([*pip, "install", f"pyspark=={version}"], check=False).returncode:
        raise SystemExit(f"pyspark {version} could not be installed: see the message of pip")
    is_whole.touch()
    return python


def main(arguments: Sequence[str]) -> int:
    version = oldest_pyspark()
    print_line(f"pyspark {version}, the oldest that pyproject.toml allows")
    python = str(environment_with(version))
    archive = [python, "-m", "rlab.pipeline.spark.make_archive"]
    subprocess.run(archive, cwd=ROOT, check=True)
    return subprocess.run([python, "-m", "pytest", *(arguments or ["tests/spark"])], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
