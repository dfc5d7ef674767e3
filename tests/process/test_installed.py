"""What is installed, as a build writes it. `make wheel-test` does the same with wheel, source archive and pipx."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.process.of_a_user import run_project, write_project
from tests.unit.source_tree import PACKAGES, PYPROJECT
from tools.one_name import write_installed
from tools.wheel_test import write_tests

pytestmark = pytest.mark.process

TESTED = (
    "tests/unit/process/test_line_limit.py",
    "tests/unit/client/allocate/test_by_config.py",
    "tests/unit/model/test_own_name.py",
    "tests/unit/testbed/simulation/checks/test_leaks.py",
)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    write_installed(folder)
    return folder


def test_only_the_one_name_and_the_names_that_others_look_for_are_installed(installed: Path) -> None:
    assert {path.name for path in installed.iterdir()} == {
        "rlab",
        *(f"{module}.py" for module in PYPROJECT["tool"]["setuptools"]["py-modules"]),
    }
    tops = "|".join(sorted({package.partition(".")[0] for package in PACKAGES}))
    ours = re.compile(rf"^ *(from|import) ({tops})\b", re.MULTILINE)
    assert [str(file) for file in installed.rglob("*.py") if ours.search(file.read_text())] == []


def test_what_is_installed_works_beside_packages_of_the_same_names(installed: Path, tmp_path: Path) -> None:
    write_project(tmp_path)
    # -S: the checkout is not found, and all that is installed beside it is.
    path = os.pathsep.join([str(installed), sysconfig.get_path("purelib")])
    said = run_project(tmp_path, Path(sys.executable), "-S", path=path)
    assert re.fullmatch(r"rlab [\d.]+\nreceived hello", said)


def test_tests_pass_on_what_is_installed(installed: Path, tmp_path: Path) -> None:
    write_tests(tmp_path, ("tests/conftest.py", "tests/temporary_files.py", *TESTED))
    path = os.pathsep.join([str(installed), sysconfig.get_path("purelib")])
    done = subprocess.run(
        [sys.executable, "-S", "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTED],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
