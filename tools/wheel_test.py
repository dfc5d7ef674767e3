"""Tests an installation, as `make test` tests the checkout: `make wheel-test`.

    1. Build wheel and source archive, and let twine check their metadata.
    2. Install the wheel alone, without extras, and measure its size with its dependencies.
    3. Use it, installed from the wheel, from the source archive and by pipx, in a project with packages broker, client,
       model and cli of its own (`tests/process/of_a_user.py`).
    4. Type every command of the README, the tutorial and docs/howto/ into a shell, in a folder outside of this
       checkout, with the wheel, its extras `test` and `grpc` and RocketMQ's client for Python installed, and compare
       each output as a whole.
    5. Run the tests, with their names moved like the packages, where only the wheel is found, not this checkout.

The tests of the repository itself are left out: its style, its pages, its history.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
import venv
from collections.abc import Mapping, Sequence
from importlib.metadata import distributions
from pathlib import Path
from types import MappingProxyType

from tools.one_name import NAME, ROOT, modules_of, rewritten

FOLDER = ROOT / "build" / "wheel-test"
MAX_BASE_BYTES = 40_000_000
OF_THE_REPOSITORY = (
    "tests/compat",  # an earlier commit of the history
    "tests/docs",
    "tests/simulation/test_mutants.py",  # it plants bugs in files of the checkout
    "tests/unit/pictures/test_assets.py",
    "tests/unit/test_names.py",
    "tests/unit/test_one_name.py",
    "tests/unit/test_plurals.py",
    "tests/unit/test_prose.py",
    "tests/unit/test_rooms.py",
    "tests/unit/test_stale_words.py",
    "tests/unit/test_tidy.py",
    "tests/unit/test_walks.py",
    "tests/process/test_installed.py",
    "tests/process/test_make_test.py",  # the Makefile and its scripts
    "tests/process/test_spark_tests_run.py",  # the Makefile, and what continuous integration runs
)
TYPED = ("tests/docs/test_listings.py", "tests/docs/listings.py", "tests/docs/pages.py", "tests/tcp/rlab_process.py")
_TYPED_SETTINGS = """[pytest]
pythonpath = .
addopts = --import-mode=importlib
markers =
    tcp
    process
"""
STOCK_CLIENT = "rocketmq-python-client==5.1.2"
"""RocketMQ's client of docs/howto/test-a-rocketmq-5-application.md."""
BESIDE_THE_TESTS = (
    *("docs", "examples", "tools", "CHANGELOG.md", "Dockerfile", "README.md", "constraints.txt", "docker-compose.yml"),
)
_TOOLS = ("pip", "setuptools")


class Broken(Exception):
    """The wheel is wrong; the error says how."""


def write_tests(folder: Path, tests: Sequence[str] = ("tests",)) -> None:
    """Write tests (files or folders of the repository), moved below the name, into a folder, with their data."""
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["packages"]
    modules = modules_of(frozenset(packages))
    folder.mkdir(parents=True, exist_ok=True)
    for name in (*tests, *BESIDE_THE_TESTS, "pyproject.toml"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(ROOT / name, folder / name)
    for file in (folder / "tests").rglob("*.py"):
        file.write_text(rewritten(file.read_text(encoding="utf-8"), modules), encoding="utf-8")


def _run(*command: str | Path, cwd: Path = ROOT, more: Mapping[str, str] = MappingProxyType({})) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | dict(more)
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Broken(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _environment(name: str, *, pip: bool = True) -> Path:
    """Create an environment; returns its Python."""
    folder = FOLDER / name
    venv.create(folder, with_pip=pip, symlinks=True)
    return folder / "bin" / "python"


def _install(python: Path, *packages: str | Path) -> None:
    _run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages)


def _packages_of(python: Path) -> Path:
    return Path(_run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())


def installed_bytes(packages: Path) -> int:
    """The size of all files installed in a folder, with bytecode, except the packages of every environment."""
    files = [
        file.locate()
        for each in distributions(path=[str(packages)])
        if each.name not in _TOOLS
        for file in each.files or ()
    ]
    return sum(Path(str(file)).stat().st_size for file in files)


FOR_THE_PLUGIN = ("aiohttp", "pytest")
"""Packages that a test with a cluster needs beyond a base installation."""


def _check_project(python: Path) -> None:
    """Use it in a project that has packages of the same names."""
    _say(_run(sys.executable, "-m", "tests.process.of_a_user", FOLDER / f"project-{python.parents[1].name}", python))


def _check_installs() -> Path:
    """Build, and use the result after each way of installing it; returns the wheel."""
    _run(sys.executable, "-m", "build", "--outdir", FOLDER / "dist")
    [wheel], [archive] = (FOLDER / "dist").glob("*.whl"), (FOLDER / "dist").glob("*.tar.gz")
    _run(sys.executable, "-m", "twine", "check", "--strict", wheel, archive)
    pins = ("-c", ROOT / "constraints.txt")
    base = _environment("base")
    _install(base, *pins, wheel)
    size = installed_bytes(_packages_of(base))
    _say(f"the wheel and its dependencies have {size / 1e6:.1f} MB")
    if size > MAX_BASE_BYTES:
        raise Broken(f"a base installation has {size / 1e6:.1f} MB, over {MAX_BASE_BYTES / 1e6:.0f} MB")
    from_archive = _environment("from-archive")
    _install(from_archive, *pins, archive)
    pipx = _environment("pipx")
    _install(pipx, "pipx")
    os.environ.update(PIPX_HOME=str(FOLDER / "pipx-home"), PIPX_BIN_DIR=str(FOLDER / "pipx-bin"))
    _run(pipx, "-m", "pipx", "install", "--python", sys.executable, f"--pip-args=-c {ROOT / 'constraints.txt'}", wheel)
    by_pipx = FOLDER / "pipx-home" / "venvs" / "rebalance-lab" / "bin" / "python"
    _run(pipx, "-m", "pipx", "inject", f"--pip-args={' '.join(map(str, pins))}", "rebalance-lab", *FOR_THE_PLUGIN)
    for python in (base, from_archive):
        _install(python, *pins, *FOR_THE_PLUGIN)
    for python in (base, from_archive, by_pipx):
        _check_project(python)
    return wheel


def _type_pages(wheel: Path) -> None:
    """Follow the pages as their readers do."""
    python = _environment("typed")
    _install(python, "-c", ROOT / "constraints.txt", f"{wheel}[test,grpc]", STOCK_CLIENT)
    with tempfile.TemporaryDirectory(prefix="rlab-typed-") as name:
        folder = Path(name)
        write_tests(folder, TYPED)
        (folder / "pyproject.toml").unlink()  # its settings need plugins that a reader does not have
        (folder / "pytest.ini").write_text(_TYPED_SETTINGS, encoding="utf-8")
        options = {"TYPE_COMMANDS": "1"}
        _say(_run(python, "-m", "pytest", "-q", "-rs", TYPED[0], cwd=folder, more=options))


def _environment_of_tests(wheel: Path) -> Path:
    """An environment with the wheel, and with all packages of this one except the checkout."""
    python = _environment("tests-python", pip=False)
    packages = _packages_of(python)
    _run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", packages, wheel)
    # A path in a .pth file is added as it is: the .pth files in that path, by which the checkout is found, are not
    # read.
    (packages / "others.pth").write_text(f"{sysconfig.get_path('purelib')}\n", encoding="utf-8")
    return python


def main(arguments: Sequence[str]) -> int:
    """Test the wheel; returns the exit code."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    try:
        wheel = _check_installs()
        _type_pages(wheel)
        python = _environment_of_tests(wheel)
    except Broken as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    folder = FOLDER / "suite"
    write_tests(folder)
    ignored = [f"--ignore={path}" for path in OF_THE_REPOSITORY]
    command = [str(python), "-m", "pytest", "-n", "auto", "--maxprocesses", "8", *ignored, *arguments]
    where = _run(python, "-c", f"import {NAME}; print({NAME}.__file__)", cwd=folder).strip()
    _say(f"tests of {where}")
    return subprocess.run(command, cwd=folder, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
