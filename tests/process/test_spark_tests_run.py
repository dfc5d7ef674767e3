"""A run that has not tested the pipeline is no success: the tests of Spark are part of every run, and never skipped."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]
SPARK_TESTS = sorted((ROOT / "tests" / "spark").rglob("*.py"))
SKIPS = {"skip", "skipif", "importorskip", "xfail"}
WITHOUT_PYSPARK = "import sys, pytest; sys.modules['pyspark'] = None; sys.exit(pytest.main(sys.argv[1:]))"


def test_without_pyspark_the_run_fails_and_says_what_is_missing() -> None:
    arguments = ["-q", "--collect-only", "-p", "no:cacheprovider", "tests/spark"]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PYSPARK, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    assert "ModuleNotFoundError: No module named 'pyspark" in done.stdout + done.stderr


@pytest.mark.parametrize("path", SPARK_TESTS, ids=lambda path: path.name)
def test_no_test_of_spark_can_be_skipped(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    used = {node.attr for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Attribute)}
    assert not used & SKIPS
    assert "collect_ignore" not in text


def test_make_installs_spark_and_runs_all_tests_and_continuous_integration_runs_make() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "'.[dev,spark,spark-connect,spark-jdk]'" in makefile
    (command,) = re.findall(r"^test:.*\n\t@?(.*)$", makefile, re.MULTILINE)
    assert "-m pytest" in command
    assert not re.search(r" -[mk] |--ignore|--deselect", command.partition("-m pytest")[2]), "it leaves nothing out"
    assert (ROOT / ".ci" / "run").read_text(encoding="utf-8").rstrip().endswith("make test")
