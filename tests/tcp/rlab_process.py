"""`rlab` commands as processes, for tests: started, spoken to, stopped, and never left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 60.0
"""For one command, on a machine that is busy with other things."""


def environment(**more: str) -> dict[str, str]:
    """Ours, without what somebody set for their own cluster, and with this tree's packages."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RLAB_")}
    return {**kept, "PYTHONPATH": str(ROOT), **more}


def command(arguments: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "rlab", *arguments]


class Daemon:
    """A running `rlab` that prints JSON: its first line tells where it is."""

    def __init__(self, arguments: Sequence[str], cwd: Path) -> None:
        self._errors = (cwd / f"stderr-{os.urandom(4).hex()}").open("w+")
        self.process = subprocess.Popen(
            command([*arguments, "--json"]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=cwd,
            # What a killed daemon cannot remove lies where the test's own files are.
            env=environment(TMPDIR=str(cwd)),
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"rlab {' '.join(arguments)} ended without a word on stdout: {self.stderr}"
        self.said: dict[str, Any] = json.loads(line)

    @property
    def address(self) -> str:
        return str(self.said["address"])

    @property
    def stderr(self) -> str:
        """What it has said on stderr so far."""
        self._errors.flush()
        return Path(self._errors.name).read_text()

    def signal(self, number: int) -> int:
        """Send a signal and wait for the end; returns the exit code."""
        self.process.send_signal(number)
        return self.process.wait(TIMEOUT_S)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(TIMEOUT_S)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._errors.close()


@contextmanager
def daemon(*arguments: str, cwd: Path) -> Iterator[Daemon]:
    """Run a daemon; it is killed at the end if it still runs."""
    started = Daemon(arguments, cwd)
    try:
        yield started
    finally:
        started.close()


@contextmanager
def stopped_cleanly(*arguments: str, cwd: Path, number: int = signal.SIGTERM) -> Iterator[Daemon]:
    """Run a daemon, and hold it to a clean stop at the end: exit code 0 and no traceback."""
    with daemon(*arguments, cwd=cwd) as started:
        yield started
        assert started.signal(number) == 0, started.stderr
        assert "Traceback" not in started.stderr


def rlab(*arguments: str, cwd: Path, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        command(arguments),
        check=False,
        input=text,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        cwd=cwd,
        env=environment(TMPDIR=str(cwd)),
    )


def rlab_json(*arguments: str, cwd: Path, text: str = "") -> Any:
    """Run a command that has to succeed; returns its document."""
    done = rlab(*arguments, "--json", cwd=cwd, text=text)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def wait_until(condition: Callable[[], bool], timeout_s: float = TIMEOUT_S) -> None:
    """Look until something that only the outside shows is true."""
    deadline = time.perf_counter() + timeout_s
    while not condition():
        assert time.perf_counter() < deadline, "it did not come true"
        Event().wait(0.02)


def children(pid: int) -> list[tuple[int, str]]:
    """Process id and arguments of the children of a process."""
    listing = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True
    ).stdout
    rows = [line.split(maxsplit=2) for line in listing.splitlines()]
    return [(int(row[0]), row[2]) for row in rows if len(row) == 3 and int(row[1]) == pid]
