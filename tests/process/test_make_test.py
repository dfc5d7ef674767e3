"""`make test` runs the checks beside the tests, prints each in one piece, and fails if either fails."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from xdist.remote import Producer

from tests import temporary_files
from tests.docs.pages import ROOT
from tests.temporary_files import folder_in_memory

pytestmark = pytest.mark.process

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
SLOW_TESTS = "for n in 1 2 3; do echo test $n; sleep 0.05; done"


def run(*command: str, env: Mapping[str, str] | None = None) -> tuple[int, list[str]]:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=env, timeout=60, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()


@pytest.mark.parametrize(
    ("checks", "tests", "code", "end"),
    [
        (0, 0, 0, "Tests: passed. Checks: passed."),
        (2, 0, 1, "Tests: passed. Checks: failed with exit code 2."),
        (0, 1, 1, "Tests: failed with exit code 1. Checks: passed."),
    ],
)
def test_either_failure_fails_and_the_checks_are_printed_after_the_tests(
    checks: int, tests: int, code: int, end: str
) -> None:
    with_checks = f"sh -c 'echo check; exit {checks}'"
    failed, lines = run("tools/beside.sh", with_checks, "sh", "-c", f"{SLOW_TESTS}; exit {tests}")
    assert failed == code
    assert lines == ["test 1", "test 2", "test 3", "", f"---- {with_checks}", "check", "", end]


def test_both_run_at_the_same_time(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)  # opened only when both are there
    code, lines = run("tools/beside.sh", f"cat {pipe}", "sh", "-c", f"echo met >{pipe}")
    assert (code, lines[-3]) == (0, "met")


def test_some_tests_alone_run_without_the_checks_and_it_is_said() -> None:
    assert run("tools/beside.sh", "", "sh", "-c", "exit 3") == (
        3,
        ["Some tests were chosen, so the checks are left out: make check runs them."],
    )


PRESSED = (
    "tests/unit/testbed/simulation/kernel/test_run.py::test_a_signal_stops_a_simulation_whose_rest_cannot_be_cancelled"
)


def test_tests_that_send_sigint_pass_in_a_run_that_was_started_to_ignore_it() -> None:
    ignoring = "import signal, sys, pytest; signal.signal(2, signal.SIG_IGN); sys.exit(pytest.main(sys.argv[1:]))"
    code, lines = run(sys.executable, "-c", ignoring, "-q", "-p", "no:cacheprovider", PRESSED)
    assert code == 0
    assert re.fullmatch(r"[1-9]\d* passed in .*", lines[-1])


def test_without_node_the_lint_of_scripts_prints_why_it_is_left_out() -> None:
    assert run("tools/lint_web.sh", env={**os.environ, "PATH": "/nowhere"}) == (
        0,
        ["JavaScript and CSS were not linted: there is no npx, which comes with Node.js."],
    )


def test_what_make_check_runs_is_beside_or_among_the_tests() -> None:
    (test,) = re.findall(r"^test:.*\n\t(.*)$", MAKEFILE, re.MULTILINE)
    assert "$(MAKE) --no-print-directory lint" in test
    (check,) = re.findall(r"^check: lint .*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    words = check.replace("\\\n", " ").split()
    assert words[:4] == ["$(BIN)/python", "-m", "pytest", "-q"]
    assert all((ROOT / path).is_file() for path in words[4:])
    assert {"tests/unit/test_tidy.py", "tests/unit/test_rooms.py"} <= set(words[4:]), "they run lint-imports"


@pytest.mark.parametrize(("arguments", "is_whole"), [("", True), ("tests/unit/client -x", False)])
def test_some_tests_alone_are_not_compared_with_the_floor_of_the_coverage(arguments: str, is_whole: bool) -> None:
    _, lines = run("make", "--dry-run", "coverage", f"COVERAGE_ARGS={arguments}", env={**os.environ, "MAKEFLAGS": ""})
    (tests,) = [line for line in lines if "coverage run" in line]
    assert tests.endswith("tests/unit tests/property" if is_whole else arguments)
    (report,) = [line for line in lines if "coverage report" in line]
    assert ("--fail-under=0" not in report) is is_whole


class OneProcess:
    """A process of xdist that runs what it is sent, in order."""

    shutting_down = False

    def __init__(self) -> None:
        self.gateway = SimpleNamespace(id="gw")
        self.sent: list[int] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        self.sent += indices

    def shutdown(self) -> None:
        self.shutting_down = True


def test_each_test_is_sent_once_and_forgotten_when_it_has_ended(
    pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pytestconfig.option, "tx", ["2*popen"])
    tests = [f"tests/spark/test_a.py::test_{n}" for n in range(3)] + [
        f"tests/unit/test_b.py::test_{n}" for n in range(9)
    ]
    scheduler = pytestconfig.hook.pytest_xdist_make_scheduler(config=pytestconfig, log=Producer("test", enabled=False))
    processes: Any = [OneProcess(), OneProcess()]
    for process in processes:
        scheduler.add_node(process)
        scheduler.add_node_collection(process, tests)
    scheduler.schedule()
    ran: list[int] = []
    while waiting := [process for process in processes if process.sent]:
        for process in waiting:
            ran.append(process.sent.pop(0))
            scheduler.mark_test_complete(process, ran[-1])
            assert all(False in each.values() for each in scheduler.assigned_work[process].values())
    assert sorted(ran) == [*range(len(tests))]
    assert all(process.shutting_down for process in processes)


def test_the_tests_that_look_at_every_source_share_one_process(
    pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pytestconfig.option, "tx", ["popen"])
    scheduler = pytestconfig.hook.pytest_xdist_make_scheduler(config=pytestconfig, log=Producer("test", enabled=False))
    reads_all = re.compile(r"(?<!def )\b(?:sources|shipped|python_files|prose)\(\)")
    readers = [
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tests").rglob("test_*.py")
        if "source_tree" in (text := path.read_text(encoding="utf-8")) and reads_all.search(text)
    ]
    assert {scheduler._split_scope(f"{path}::test") for path in readers} == {"style"}, readers


def test_a_report_of_a_bug_asks_for_what_the_tools_say() -> None:
    form = yaml.safe_load((ROOT / ".github" / "ISSUE_TEMPLATE" / "bug.yml").read_text(encoding="utf-8"))
    asked = {each["id"]: each["attributes"] for each in form["body"] if "id" in each}
    assert {"check", "doctor", "version", "repeat"} <= asked.keys()
    for tool in ("check", "doctor"):
        assert f"`rlab {tool} " in asked[tool]["description"]


def test_temporary_files_are_in_memory_unless_someone_names_a_folder_or_there_is_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert folder_in_memory({"TMPDIR": "/var/tmp"}, tmp_path) is None
    assert folder_in_memory({}, tmp_path / "nothing") is None
    monkeypatch.setattr(temporary_files, "MIN_FREE_BYTES", 0)
    can_run_programs = not os.statvfs(tmp_path).f_flag & os.ST_NOEXEC
    assert (folder_in_memory({}, tmp_path) is not None) == can_run_programs
    monkeypatch.setattr(temporary_files, "MIN_FREE_BYTES", 2**60)
    assert folder_in_memory({}, tmp_path) is None
