"""`copy_job` as a process that is killed, and what it has written held against what there was to copy."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from tests.spark.drivers.copy_job import DONE_S, CopyJob, Row
from tests.tcp.rlab_process import ROOT, environment, wait_until

BODY = b"x" * 100


class RunningJob:
    """A `CopyJob` in a process group of its own: the driver, its JVM, and the executors' JVMs. It waits for `go`."""

    def __init__(self, job: CopyJob, errors: Path) -> None:
        self.job, self._errors = job, errors
        with errors.open("w") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.drivers.copy_job", json.dumps(asdict(job))],
                stdin=subprocess.PIPE,
                stderr=stderr,
                cwd=ROOT,
                env=environment(TMPDIR=str(errors.parent)),
                start_new_session=True,
            )

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def wait_begun_again(self, query: str) -> None:
        """Wait until a query has done another batch and has begun the one after it."""
        done = self.job.batches(query)[1] + 1
        wait_until(lambda: self._has_ended() or self.job.is_within_batch(query, done), DONE_S)
        assert not self._has_ended(), f"it was to be killed, and has ended: {self._errors.read_text()}"

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def kill_executor(self, rng: random.Random) -> None:
        os.kill(rng.choice(executors(self.process.pid)), signal.SIGKILL)

    def _has_ended(self) -> bool:
        return self.process.poll() is not None


@contextmanager
def in_turn(jobs: Sequence[CopyJob], tmp_path: Path) -> Iterator[Iterator[RunningJob]]:
    """Let jobs run one after the other, each from when it is asked for; those that still run at the end are killed."""
    started: list[RunningJob] = []

    def start(number: int) -> None:
        if number < len(jobs):
            started.append(RunningJob(jobs[number], tmp_path / f"stderr-{number}"))

    def turns() -> Iterator[RunningJob]:
        start(0)
        for number in range(len(jobs)):
            started[number].go()
            start(number + 1)
            yield started[number]

    try:
        yield turns()
    finally:
        for one in started:
            if one.process.poll() is None:
                one.kill()


def executors(group: int) -> list[int]:
    """Process ids of the executors' JVMs in a process group."""
    listed = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=,pgid=,args="], check=True, capture_output=True, text=True
    ).stdout
    rows = [line.split(maxsplit=2) for line in listed.splitlines()]
    return [int(pid) for pid, pgid, args in rows if int(pgid) == group and "CoarseGrainedExecutorBackend --" in args]


def assert_each_once(found: list[Row], rows: int) -> None:
    ends: dict[tuple[str, str, int], int] = {}
    for topic, broker, queue_id, offset in found:
        queue = (topic, broker, queue_id)
        ends[queue] = max(ends.get(queue, 0), offset + 1)
    assert (len(found), len(set(found)), sum(ends.values())) == (rows, rows, rows)
