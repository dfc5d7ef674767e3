"""Starts and kills the broker processes of a crash run, and restarts them on the same files and the same port."""

from __future__ import annotations

import re
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

import anyio

from model.errors import ServiceNotAvailable
from process.children import DAEMON, MODULE, START_TIMEOUT_S, STOP_TIMEOUT_S, Child, module_process, spawn
from process.runtime import wait_until
from testbed.cluster.ports import free_port
from testbed.crash.schedule import Kill, Moment

POLL_S = 0.001
ROLL_TIMEOUT_S = 3.0
"""Time that a kill waits for a new segment; brokers begin one only under load."""
FIRST_START_S = 0.8
"""Assumed duration of a start until the first one is measured."""
_BROKER = (*MODULE, "rlab", "broker")
_SEGMENT = re.compile(r"\d{20}\.log(\.tmp)?")


class BrokerRun(NamedTuple):
    """One start of a broker, until it was killed."""

    broker: str
    start_s: float | None  # from the start of the process to its announcement; None if it was killed before
    recovery_s: float | None  # the part of `start_s` in which it opened its files
    scanned_bytes: int  # bytes of the log that recovery read
    cut_bytes: int  # length of the torn tail that recovery cut off
    killed: Moment | None  # None if it was not killed


class BrokerProcess:
    """A broker that is killed and restarted; an async context manager that stops its last process.

    `log` is the file for the standard error of all its processes. `arguments` are further options of `rlab broker`,
    beside its data and address; others may be set before its next start. A test may run another `program`.
    """

    def __init__(
        self, name: str, data: Path, log: Path, arguments: Sequence[str], *, program: Sequence[str] = _BROKER
    ) -> None:
        self.name = name
        self.lives: list[BrokerRun] = []  # finished lives, and the current one once it listens
        self.failures: list[str] = []  # ends without a kill, and failed starts
        self.address = f"127.0.0.1:{free_port()}"
        self.arguments = arguments
        self.data = data
        self._log = log
        self._program = program
        self._child: Child | None = None
        self._stderr: BinaryIO | None = None
        self._started_at = 0.0

    async def __aenter__(self) -> BrokerProcess:
        self._stderr = appending(self._log)
        return self

    async def __aexit__(self, *_error: object) -> None:
        with anyio.CancelScope(shield=True):
            if self._child is not None:
                with suppress(ProcessLookupError):
                    self.go_on()
                await self._child.stop()
        if self._stderr is not None:
            self._stderr.close()

    async def start(self) -> None:
        """Start the broker and wait until it listens. Does nothing if it listens already.

        Raises:
            ServiceNotAvailable: it did not start.

        Cancellation: the process keeps running; `kill` or the end of the block ends it.
        """
        if self._child is None:
            await self._spawn()
        await self._wait_ready()

    async def live(self, kill: Kill) -> bool:
        """Start the broker if it is not running, and return when it listens and may be killed at `kill.moment`.

        Returns False if this call has killed it while it was starting.

        Raises:
            ServiceNotAvailable: it did not start, although it was not killed.
        """
        if kill.moment is not Moment.STARTING:
            await self.start()
            return True
        if self._child is None:
            await self._spawn()
        with anyio.move_on_after(kill.delay * self._typical_start_s()):
            await self._wait_ready()
        await self.kill(Moment.STARTING)
        return False

    async def wait_segment(self) -> None:
        """Wait until the broker begins a segment, at most `ROLL_TIMEOUT_S`. Cancellation: harmless."""
        n_before = _segments(self.data)
        await wait_until(lambda: _segments(self.data) > n_before, ROLL_TIMEOUT_S, POLL_S)

    async def kill(self, moment: Moment) -> None:
        """Send SIGKILL and wait for the end.

        Raises:
            ServiceNotAvailable: it had already ended.
        """
        listened = bool(self._running.address)
        await self._end(signal.SIGKILL, -signal.SIGKILL)
        broker_run = self.lives.pop() if listened else BrokerRun(self.name, None, None, 0, 0, None)
        self.lives.append(broker_run._replace(killed=moment))

    async def stop(self) -> None:
        """Send SIGTERM and wait for the end.

        Raises:
            ServiceNotAvailable: it had already ended, or it does not end properly.
        """
        await self._end(signal.SIGTERM, 0)

    def pause(self) -> None:
        """Stop its execution with SIGSTOP: it hangs, and its connections stay open, until `go_on`."""
        self._running.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Continue its execution. Does nothing if it was not paused."""
        self._running.process.send_signal(signal.SIGCONT)

    @property
    def _running(self) -> Child:
        assert self._child is not None, f"{self.name} is not running"
        return self._child

    async def _end(self, number: signal.Signals, expected_code: int) -> None:
        process = self._running.process
        with suppress(ProcessLookupError):
            process.send_signal(number)
        with anyio.move_on_after(STOP_TIMEOUT_S):
            await process.wait()
        if process.returncode is None:
            process.kill()
        code = await process.wait()
        await process.aclose()
        self._child = None
        if code != expected_code:
            raise self._failed(f"{self.name} ended by itself, with exit code {code}")

    async def _spawn(self) -> None:
        self._started_at = anyio.current_time()
        where = ["--data", str(self.data), "--listen", self.address]
        command = [*self._program, *where, *self.arguments, *DAEMON]
        self._child = Child(self.name, await spawn(command, stderr=self._stderr))

    async def _wait_ready(self) -> None:
        child = self._running
        if child.address:
            return
        try:
            with anyio.fail_after(START_TIMEOUT_S):
                await child.wait_ready()
        except (ServiceNotAvailable, TimeoutError) as error:
            raise self._failed(str(error) or f"{self.name} does not listen after {START_TIMEOUT_S:g} s") from error
        recovery = child.announced.get("recovery", {})
        self.lives.append(
            BrokerRun(
                broker=self.name,
                start_s=anyio.current_time() - self._started_at,
                recovery_s=recovery.get("seconds"),
                scanned_bytes=recovery.get("scanned_bytes", 0),
                cut_bytes=recovery.get("cut_bytes", 0),
                killed=None,
            )
        )

    def _typical_start_s(self) -> float:
        starts = [broker_run.start_s for broker_run in self.lives if broker_run.start_s is not None][-5:]
        return sorted(starts)[len(starts) // 2] if starts else FIRST_START_S

    def _failed(self, text: str) -> ServiceNotAvailable:
        self.failures.append(text)
        lines = self._log.read_text(errors="replace").splitlines() or ["nothing"]
        return ServiceNotAvailable(f"{text}; the last line of {self._log}: {lines[-1]}")


@asynccontextmanager
async def name_server_process(directory: Path, *options: str) -> AsyncIterator[str]:
    """Run a name server with these options while the block runs, and a log in the directory; yields its address.

    Raises:
        ServiceNotAvailable: it did not start.

    Cancellation: it is stopped.
    """
    arguments = ("--listen", "127.0.0.1:0", *options, *DAEMON)
    with appending(directory / "namesrv.log") as stderr:
        async with module_process("namesrv", "rlab", "namesrv", *arguments, stderr=stderr) as child:
            yield child.address


def appending(path: Path) -> BinaryIO:
    """Open a log file for a process."""
    return path.open("ab")


def _segments(directory: Path) -> int:
    try:
        return sum(_SEGMENT.fullmatch(path.name) is not None for path in directory.iterdir())
    except FileNotFoundError:
        return 0
