"""The broker processes of a crash run: started, killed, started again on the same files and the same port."""

from __future__ import annotations

import re
import signal
import socket
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, NamedTuple

import anyio

from cli.crash.schedule import Kill, Moment
from cli.servers.children import DAEMON, MODULE, START_TIMEOUT_S, Child, spawn
from model.errors import ServiceNotAvailable

POLL_S = 0.001
ROLL_TIMEOUT_S = 3.0
"""How long a kill waits for a new segment, which comes only under load."""
FIRST_START_S = 0.8
"""How long a start takes, before one was measured."""
_PORTS = range(20_000, 32_000)
_BROKER = (*MODULE, "cli.main", "broker")
_SEGMENT = re.compile(r"\d{20}\.log(\.tmp)?")


class Life(NamedTuple):
    """One start of a broker, until it was killed.

    Attributes:
        broker: its name.
        start_s: seconds from the start of the process to the line that says that it listens; None if it was killed
            before.
        recovery_s: seconds of them in which it opened its files.
        scanned_bytes: how much of them it had to read again.
        cut_bytes: torn tail that it cut off.
        killed: the moment of its end; None if it was never killed.
    """

    broker: str
    start_s: float | None
    recovery_s: float | None
    scanned_bytes: int
    cut_bytes: int
    killed: Moment | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFiles:
    """Where a broker has its things.

    Attributes:
        data: its data directory.
        log: file that takes what all its processes write on standard error.
    """

    data: Path
    log: Path


def free_port() -> int:
    """A port that is free now, and below those that systems give to whoever asks for any.

    A broker that is killed comes back to its port. Meanwhile its clients try to connect to it, and such a try may be
    given that very port for its own end: then it is connected to itself, and the broker finds its port taken.

    Raises:
        ServiceNotAvailable: there is none.
    """
    for port in _PORTS:
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            if port not in _given:
                _given.add(port)
                return port
    raise ServiceNotAvailable(f"no port from {_PORTS.start} to {_PORTS.stop - 1} is free")


_given: set[int] = set()


class BrokerProcess:
    """A broker that lives many times; an async context manager that ends the last of its lives.

    Args:
        name: broker name.
        files: where it has its things.
        arguments: of `rlab broker`, beyond its name, its data and its address.
        program: what to run in its place, in a test.

    Attributes:
        lives: those that have ended, and the present one once it listens.
        failures: what no kill explains: it ended by itself, or did not start.
    """

    def __init__(
        self, name: str, files: BrokerFiles, arguments: Sequence[str], *, program: Sequence[str] = _BROKER
    ) -> None:
        self.name = name
        self.lives: list[Life] = []
        self.failures: list[str] = []
        self._files = files
        self._address = f"127.0.0.1:{free_port()}"
        where = ["--name", name, "--data", str(files.data), "--listen", self._address]
        self._command = [*program, *where, *arguments, *DAEMON]
        self._child: Child | None = None
        self._stderr: BinaryIO | None = None
        self._started_at = 0.0

    @property
    def address(self) -> str:
        """Where it listens whenever it is alive."""
        return self._address

    async def __aenter__(self) -> BrokerProcess:
        self._stderr = appending(self._files.log)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):
            if self._child is not None:
                await self._child.stop()
        if self._stderr is not None:
            self._stderr.close()

    async def start(self) -> None:
        """Start it and wait until it listens; does nothing if it does.

        Raises:
            ServiceNotAvailable: it did not start.

        Cancellation: it goes on; `kill` or the end of the block ends it.
        """
        if self._child is None:
            await self._spawn()
        await self._wait_ready()

    async def live(self, kill: Kill) -> bool:
        """Start it if it is not there, and come back when it listens and `kill.moment` may come.

        Returns:
            Whether it listens; False if it was killed while it was starting.

        Raises:
            ServiceNotAvailable: it did not start, though nobody killed it.
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
        """Wait until a segment is begun, or for `ROLL_TIMEOUT_S`. Cancellation: harmless."""
        before = _segments(self._files.data)
        with anyio.move_on_after(ROLL_TIMEOUT_S):
            # A file that another process makes: there is no event to wait for.
            while _segments(self._files.data) <= before:  # noqa: ASYNC110
                await anyio.sleep(POLL_S)

    async def kill(self, moment: Moment) -> None:
        """Send SIGKILL and wait for the end.

        Raises:
            ServiceNotAvailable: it had ended before, by itself.
        """
        child = self._child
        assert child is not None, f"{self.name} is not running"
        with suppress(ProcessLookupError):
            child.process.kill()
        code = await child.process.wait()
        await child.process.aclose()
        self._child = None
        if code != -signal.SIGKILL:
            raise self._failed(f"{self.name} ended by itself, with exit code {code}")
        life = self.lives.pop() if child.address else Life(self.name, None, None, 0, 0, None)
        self.lives.append(life._replace(killed=moment))

    async def _spawn(self) -> None:
        self._started_at = anyio.current_time()
        self._child = Child(self.name, await spawn(self._command, stderr=self._stderr))

    async def _wait_ready(self) -> None:
        child = self._child
        assert child is not None, f"{self.name} is not running"
        if child.address:
            return
        try:
            with anyio.fail_after(START_TIMEOUT_S):
                await child.wait_ready()
        except (ServiceNotAvailable, TimeoutError) as error:
            raise self._failed(str(error) or f"{self.name} does not listen after {START_TIMEOUT_S:g} s") from error
        recovery = child.announced.get("recovery", {})
        self.lives.append(
            Life(
                broker=self.name,
                start_s=anyio.current_time() - self._started_at,
                recovery_s=recovery.get("seconds"),
                scanned_bytes=recovery.get("scanned_bytes", 0),
                cut_bytes=recovery.get("cut_bytes", 0),
                killed=None,
            )
        )

    def _typical_start_s(self) -> float:
        starts = [life.start_s for life in self.lives if life.start_s is not None][-5:]
        return sorted(starts)[len(starts) // 2] if starts else FIRST_START_S

    def _failed(self, text: str) -> ServiceNotAvailable:
        self.failures.append(text)
        said = self._files.log.read_text(errors="replace").splitlines() or ["nothing"]
        return ServiceNotAvailable(f"{text}; the last it said, in {self._files.log}: {said[-1]}")


def appending(path: Path) -> BinaryIO:
    """Open a log file for a process."""
    return path.open("ab")


def _segments(directory: Path) -> int:
    try:
        return sum(_SEGMENT.fullmatch(path.name) is not None for path in directory.iterdir())
    except FileNotFoundError:
        return 0
