"""Runs the commands and listings of a page as its reader does: in order, in one folder, on one cluster.

    ```console title="Terminal 3"      commands that stay: they run until the page ends (Terminals 3 and 4: twice)
    $ rlab consume orders --group g
    message 4                          output that has to come, line by line; ... stands for anything
    ```

A block without a title runs to its end: `rlab` in this process, everything else in a shell. What only looks at the
cluster is looked at again until it shows what the page shows. Numbers, times, ids and the widths of tables may differ.
A block `python` runs as a script; with a title it is written to a file of that name instead. The block `text` after it
is its output, to the letter. The cluster's address, and the process ids in client ids, stand for those of the test.
"""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import os
import re
import runpy
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest
from typer.main import get_command

from cli.main import app
from tests.docs.pages import text_of
from tests.tcp.rlab_process import TIMEOUT_S, command, environment, wait_until

SHOWN_ADDRESS = "127.0.0.1:9876"
SETUP = {
    *("make setup", "python3 -m venv .venv", ". .venv/bin/activate"),
    "pip install '../rebalance-lab[test]'",
    "pip install '../rebalance-lab[test,grpc]' rocketmq-python-client",
}
"""What has been done when these tests run."""
TYPED = "TYPE_COMMANDS" in os.environ
"""Whether each command is a process of its own, as `make wheel-test` types it from an installed wheel."""
LOOKS = {"group show", "group list", "group why", "group history", "group dlq", "topic show", "doctor", "check"}
"""Commands that change nothing."""
LOOK_EVERY_S = 0.2
ALONE = {"demo"}
"""Commands of `rlab` that change this process."""
VERDICTS = {"doctor", "check", "sim"}
"""Commands whose exit code is their answer."""

_BLOCK = re.compile(r"^```(console|python|text)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PROCESS = re.compile(r"@(\d+)#")
_ID = re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{12,}\b")
_ANY_QUEUE = re.compile(r"@broker-[ab]:\d")
_TRIGGERS = re.compile(r" (?:START|NOTIFY|LOCK|ROUTE|RECONNECT|TIMER)\b")
"""Reasons for a pass, of which the first ones to come are shown."""
_NUMBER = re.compile(r"(?<!broker-[ab]:)\d[\d,]*(?:\.\d+)?(?: (?:ms|s|min)\b)?")


class Block(NamedTuple):
    """A fenced block of a page."""

    language: str
    title: str
    text: str


class Step(NamedTuple):
    """A command, and the lines that a page shows as its output."""

    line: str
    shown: list[str]


def blocks_of(page: str) -> list[Block]:
    return [Block(*found) for found in _BLOCK.findall(text_of(page))]


def steps_of(text: str) -> Iterator[Step]:
    """The commands of a console block."""
    first, *parts = re.split(r"^\$ ", text.replace("\\\n", ""), flags=re.MULTILINE)
    assert not first.strip(), f"output before a command: {first}"
    for part in parts:
        line, _, output = part.partition("\n")
        yield Step(line.partition("   # ")[0].strip(), [each for each in output.splitlines() if each.strip()])


def _alike(line: str) -> str:
    """A line without what differs from run to run."""
    line = _TRIGGERS.sub("", re.sub("[█─│]+", "", _ID.sub("ID", line)))
    return " ".join(_NUMBER.sub("0", line).split())


def missing(shown: list[str], output: str, processes: dict[str, str] | None = None, *, goes_on: bool = False) -> str:
    """The first difference between the shown lines and the output as a whole; "" if all agree. Records process ids.

    Every line of the output has to be shown, except where `...` stands for lines, and after the end if it `goes_on`.
    """
    lines = [line for line in output.splitlines() if _alike(line)]
    gap = False
    for expected in shown:
        if expected.strip() == "...":
            gap = True
        elif _alike(expected):
            pattern = ".*".join(re.escape(_alike(part)) for part in expected.split("...")).replace(".*", r"\s*.*\s*")
            looked = lines if gap else lines[:1]
            place = next((n for n, line in enumerate(looked) if re.fullmatch(pattern, _alike(line))), None)
            if place is None:
                return expected
            if processes is not None:
                for shown_id, real_id in zip(_PROCESS.findall(expected), _PROCESS.findall(lines[place]), strict=False):
                    processes.setdefault(shown_id, real_id)
            del lines[: place + 1]
            gap = False
    return "" if gap or goes_on or not lines or not shown else f"nothing more, but it prints {lines[0]}"


class Cluster(NamedTuple):
    """A cluster that runs, and what it printed until it was ready."""

    address: str
    printed: str


@contextlib.contextmanager
def running_cluster(folder: Path) -> Iterator[Cluster]:
    """Run `rlab cluster --brokers 2` on free ports, and hold it to a clean stop."""
    line = command(["cluster", "--brokers", "2", "--port", "0"])
    env = environment(TMPDIR=str(folder))
    with subprocess.Popen(line, stdout=subprocess.PIPE, cwd=folder, env=env, text=True) as process:
        assert process.stdout is not None
        printed = "".join(process.stdout.readline() for _ in range(3))
        try:
            yield Cluster(printed.split()[-1], printed)
        finally:
            process.terminate()
            assert process.wait(TIMEOUT_S) == 0


@functools.cache
def _rlab_command() -> Any:
    return get_command(app)


class Reader:
    """Somebody who follows pages, with a cluster."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._cluster, self._address, self._folder = cluster, cluster.address, folder
        self._processes: dict[str, str] = {}
        self._stay: list[subprocess.Popen[bytes]] = []

    def follow(self, page: str) -> None:
        """Do what a page says, and compare what it shows."""
        blocks = blocks_of(page)
        for block, after in zip(blocks, [*blocks[1:], Block("", "", "")], strict=True):
            if block.language == "console":
                for step in steps_of(block.text):
                    for _ in range(1 + block.title.count(" and ")):
                        (self._begin if block.title else self._run)(step)
            elif block.language == "python" and block.title:
                (self._folder / block.title).write_text(self._real(block.text), encoding="utf-8")
            elif block.language == "python":
                (self._folder / "listing.py").write_text(self._real(block.text), encoding="utf-8")
                shown = after.text if after.language == "text" else ""
                output = self._script(["listing.py"])
                # A producer begins with any queue.
                assert _ANY_QUEUE.sub("", output) == _ANY_QUEUE.sub("", shown)

    def close(self) -> None:
        """End what stays."""
        for process in self._stay:
            process.kill()
            process.wait(TIMEOUT_S)

    def _real(self, text: str) -> str:
        for shown, real in self._processes.items():
            text = re.sub(rf"\b{shown}\b", real, text)
        return text.replace(SHOWN_ADDRESS, self._address)

    def _begin(self, step: Step) -> None:
        if step.line.startswith("rlab cluster"):  # it runs already
            return self._compare(step.line, step.shown, self._cluster.printed)
        output = self._folder / f"output-{len(self._stay)}"
        with output.open("wb") as file:
            line = command(shlex.split(step.line)[1:])
            env = environment(RLAB_NAMESRV=self._address, PYTHONUNBUFFERED="1")
            self._stay.append(subprocess.Popen(line, stdout=file, stderr=file, cwd=self._folder, env=env))
        wait_until(lambda: not missing(step.shown, output.read_text(), goes_on=True))

    def _run(self, step: Step) -> None:
        if step.line in SETUP:
            return
        line = self._real(step.line)
        words = shlex.split(line)
        looks = step.shown and any(step.line.startswith(f"rlab {each}") for each in LOOKS)
        deadline = time.perf_counter() + (TIMEOUT_S if looks else 0.0)
        output = self._look(words) if looks else self._output_of(words, line)
        while missing(step.shown, output) and time.perf_counter() < deadline:
            Event().wait(LOOK_EVERY_S)
            output = self._look(words)
        self._compare(step.line, step.shown, output)

    def _look(self, words: list[str]) -> str:
        """What a command prints that may fail until the cluster has come so far."""
        return self._shell(shlex.join(words))[1] if TYPED else self._invoke(words[1:])[1]

    def _output_of(self, words: list[str], line: str) -> str:
        if TYPED or words[0] not in ("rlab", "python") or words[1] in ALONE or set("|>&;$") & set(line):
            code, output = self._shell(line)
            verdict = words[0] == "rlab" and words[1] in VERDICTS
            assert code == 0 or (verdict and code == 1), f"{line}\n{output}"
            return output
        return self._rlab(words[1:]) if words[0] == "rlab" else self._script(words[1:])

    def _shell(self, line: str) -> tuple[int, str]:
        """Type a line into a shell in which the command is installed; returns its exit code and what it printed."""
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-ec", line],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            cwd=self._folder,
            timeout=TIMEOUT_S,
            env=environment(RLAB_NAMESRV=self._address, RLAB_DEMO_PACE="0", PATH=path),
        )
        return done.returncode, done.stdout

    def _invoke(self, words: list[str]) -> tuple[int, str]:
        """Run `rlab` in this process, which takes a tenth of the time; returns its exit code and what it printed."""
        printed = self._folder / "printed"
        with contextlib.ExitStack() as stack:
            stack.enter_context(contextlib.chdir(self._folder))
            stack.enter_context(patch.dict(os.environ, environment(RLAB_NAMESRV=self._address), clear=True))
            file = stack.enter_context(printed.open("w"))
            stack.enter_context(contextlib.redirect_stdout(file))
            stack.enter_context(contextlib.redirect_stderr(file))
            # Some commands disable the log, because they end their process; here other tests come after them.
            stack.callback(logging.disable, logging.NOTSET)
            with pytest.raises(SystemExit) as ended:
                _rlab_command()(words, prog_name="rlab")
        return int(ended.value.code or 0), printed.read_text()

    def _rlab(self, words: list[str]) -> str:
        code, output = self._invoke(words)
        assert code == 0 or (words[0] in VERDICTS and code == 1), (words, output)
        return output

    def _script(self, words: list[str]) -> str:
        if TYPED:
            # Only its output: a client logs on stderr, and a failure shows that.
            return self._output_of(
                ["python", *words], f"{shlex.join(['python', *words])} 2>errors || (cat errors; exit 1)"
            )
        output = io.StringIO()
        with contextlib.chdir(self._folder), contextlib.redirect_stdout(output):
            runpy.run_path(words[0], run_name="__main__")
        return output.getvalue()

    def _compare(self, what: str, shown: list[str], output: str) -> None:
        line = missing(shown, output, self._processes)
        assert not line, f"{what} does not print\n{line}\nbut\n{output}"
