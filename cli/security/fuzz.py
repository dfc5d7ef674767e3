"""`rlab fuzz`: sends a server what no client would, and reports internal errors, silence and lost listeners."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Annotated, Any, cast

import anyio
import typer

from cli.options import Config, Json
from cli.output import print_note, print_outcome
from cli.runtime import run
from cli.security.fuzz_frames import Frames, FuzzFrame
from model.errors import ConnectFailed, RlabError
from model.response_code import ResponseCode
from remoting.address import parse_address
from remoting.codec import CODEC

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
    json: Json = False,
    config: Config = None,
) -> None:
    """Send a server malformed and hostile requests, made from the schemas of all of them.

    It creates and deletes topics and groups: use a server of a test. The exit code is 1 if a request ends in an
    internal error, if one is not answered, or if the server does not take a new connection.

    Example: rlab fuzz 127.0.0.1:10911 --seconds 60
    """

    async def main() -> None:
        report = await fuzz_server(server, seconds, seed)
        line = {"seed": report.seed, "commands": report.commands, "connections": report.connections}
        text = f"{report.commands} commands over {report.connections} connections, {len(report.found)} found"
        print_outcome({**line, "codes": report.codes, "found": report.found}, text, as_json=json)
        for found in report.found:
            print_note(found)
        if report.found:
            raise FuzzFailed(f"{len(report.found)} findings; --seed {seed} sends the same again")

    run(main)


async def fuzz_server(address: str, seconds: float, seed: int, most: float = float("inf")) -> FuzzReport:
    """Fuzz one server for a time, or until so many commands are sent.

    Raises:
        ConnectFailed: it does not listen, or not any more.

    Cancellation: harmless.
    """
    report, frames = FuzzReport(seed), Frames(Random(seed))
    with anyio.move_on_after(seconds):
        while len(report.found) < _MAX_FOUND and report.commands < most:
            await _one_connection(address, frames, report)
    return report


class _Attacker(asyncio.Protocol):
    """One connection of the fuzzer."""

    def __init__(self, report: FuzzReport) -> None:
        self._report = report
        self._decoder = CODEC.decoder()
        self.waiting: dict[int, FuzzFrame] = {}
        self.transport: asyncio.Transport
        self.closed = False
        self.progress = anyio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        for answer in self._decoder.feed(data):
            sent = self.waiting.pop(answer.opaque, None)
            self._report.codes[str(answer.code)] += 1
            remark = str(answer.header.get("remark", ""))
            if answer.code == ResponseCode.SYSTEM_ERROR and _INTERNAL in remark:
                self._report.found.append(f"internal error ({remark}): {sent.told if sent else 'a broken frame'}")
        self._tell()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self._tell()

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


async def _one_connection(address: str, frames: Frames, report: FuzzReport) -> None:
    loop, attacker = asyncio.get_running_loop(), _Attacker(report)
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
            attacker.transport.write(b"".join(frame.data for frame in whole))
            await attacker.wait_answered()
            if broken:
                attacker.transport.write(broken[0].data)
                await anyio.sleep(0.001)
                return
    finally:
        attacker.transport.abort()
