"""`rlab fuzz`: sends a server what no client would, and reports internal errors, silence and lost listeners."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Annotated, Any, cast

import anyio
import typer

from cli.options import Config, Json
from cli.output import print_note, print_outcome
from cli.runtime import run
from cli.security.fuzz_frames import Frames, FuzzAnswer, FuzzFrame
from model.errors import ConnectFailed, RlabError
from model.response_code import ResponseCode
from remoting.address import parse_address

_AT_ONCE = 64
"""Frames that are sent before their answers are waited for."""
_SILENCE_S = 20.0
"""A request that a server has not answered in this time is lost: it answers late ones, or refuses them, sooner."""
_MAX_FOUND = 20
_INTERNAL = "see the server's log"


class FuzzFailed(RlabError):
    """A server did what it must not; the text lists it."""


@dataclass(slots=True)
class FuzzReport:
    """Counts of a run, and what it found."""

    seed: int
    commands: int = 0
    connections: int = 0
    codes: Counter[str] = field(default_factory=Counter)
    found: list[str] = field(default_factory=list)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("fuzz")(fuzz)


def fuzz(
    server: Annotated[str, typer.Argument(metavar="HOST:PORT", help="A broker or name server.", show_default=False)],
    seconds: Annotated[float, typer.Option(metavar="SECONDS", min=0.1, help="How long.")] = 60.0,
    seed: Annotated[int, typer.Option(metavar="N", help="Decides every frame.")] = 1,
    rocketmq: Annotated[bool, typer.Option("--rocketmq", help="Speak RocketMQ's protocol.")] = False,
    json: Json = False,
    config: Config = None,
) -> None:
    """Send a server malformed and hostile requests: of this project, or with --rocketmq those of RocketMQ's clients.

    It creates and deletes topics and groups: use a server of a test. The exit code is 1 if a request ends in an
    internal error, if one is answered by silence or by a lost connection, or if the server takes no new connection.

    Example: rlab fuzz 127.0.0.1:10911 --seconds 60
    """

    async def main() -> None:
        report = await fuzz_server(server, seconds, seed, rocketmq=rocketmq)
        line = {"seed": report.seed, "commands": report.commands, "connections": report.connections}
        text = f"{report.commands} commands over {report.connections} connections, {len(report.found)} found"
        print_outcome({**line, "codes": report.codes, "found": report.found}, text, as_json=json)
        for found in report.found:
            print_note(found)
        if report.found:
            raise FuzzFailed(f"{len(report.found)} findings; --seed {seed} sends the same again")

    run(main)


async def fuzz_server(
    address: str, seconds: float, seed: int, most: float = float("inf"), *, rocketmq: bool = False
) -> FuzzReport:
    """Fuzz one server for a time, or until so many commands are sent.

    Raises:
        ConnectFailed: it does not listen, or not any more.

    Cancellation: harmless.
    """
    # Imported here: it has the whole dialect with it, and every command of `rlab` would wait for that.
    from cli.security.fuzz_rocketmq import RocketmqFrames

    report, frames = FuzzReport(seed), (RocketmqFrames if rocketmq else Frames)(Random(seed))
    with anyio.move_on_after(seconds):
        while len(report.found) < _MAX_FOUND and report.commands < most:
            await _one_connection(address, frames, report)
    return report


class _Attacker(asyncio.Protocol):
    """One connection of the fuzzer."""

    def __init__(self, report: FuzzReport, read: Callable[[bytes], list[FuzzAnswer]]) -> None:
        self._report = report
        self._read = read
        self.waiting: dict[int, FuzzFrame] = {}
        self.transport: asyncio.Transport
        self.closed = False
        self.progress = anyio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        for opaque, code, remark, reply in self._read(data):
            if reply is not None:
                self.send(reply)
                continue
            sent = self.waiting.pop(opaque, None)
            self._report.codes[str(code)] += 1
            if code == ResponseCode.SYSTEM_ERROR and _INTERNAL in remark:
                self._report.found.append(f"internal error ({remark}): {sent.told if sent else 'a broken frame'}")
        self._tell()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self._tell()

    def send(self, data: bytes) -> None:
        """Send, if the server has not closed the connection by now."""
        if not self.transport.is_closing():
            self.transport.write(data)

    def _tell(self) -> None:
        self.progress.set()
        self.progress = anyio.Event()

    async def wait_answered(self) -> None:
        """Wait until every request is answered, or the server has closed the connection."""
        with anyio.move_on_after(_SILENCE_S) as scope:
            while self.waiting and not self.closed:
                await self.progress.wait()
        if scope.cancelled_caught:
            silent = next(iter(self.waiting.values()))
            self._report.found.append(f"{len(self.waiting)} requests are not answered, the first: {silent.told}")
        elif self.waiting:
            refused = next(iter(self.waiting.values()))
            self._report.found.append(f"the connection was closed instead of an answer to: {refused.told}")


async def _one_connection(address: str, frames: Frames, report: FuzzReport) -> None:
    loop, attacker = asyncio.get_running_loop(), _Attacker(report, frames.reader())
    host, port = parse_address(address)
    try:
        await loop.create_connection(lambda: attacker, host, port)
    except OSError as error:
        text: Any = error.strerror or error
        raise ConnectFailed(f"cannot connect to {address} ({text}) after {report.commands} commands") from error
    report.connections += 1
    try:
        while not attacker.closed and len(report.found) < _MAX_FOUND:
            batch = [frames.next() for _ in range(_AT_ONCE)]
            # What breaks the stream comes last: the server takes nothing behind it.
            whole = [frame for frame in batch if frame.opaque is not None]
            broken = [frame for frame in batch if frame.opaque is None][:1]
            attacker.waiting = {frame.opaque: frame for frame in whole if frame.opaque is not None}
            report.commands += len(whole) + len(broken)
            attacker.send(b"".join(frame.data for frame in whole))
            await attacker.wait_answered()
            if broken:
                attacker.send(broken[0].data)
                await anyio.sleep(0.001)
                return
    finally:
        attacker.transport.abort()
