"""The attack run: measures the latency of a well-behaved client of a real broker while others attack that broker.

    python -m testbed.attack.run --seconds 8        (`make attack`)

A broker with access control runs in its own process, first without TLS, then with it. A client sends a message every 10
ms, and another process runs one kind of attack after the other. The run prints the 99th percentile of the client's
sends, and the memory and descriptors of the broker, for each attack and for the time without an attack before it. It
fails if a send of the client fails, if the broker stores a message that the client did not send, if its memory after
all attacks exceeds its memory after their first round, or if the lower percentile of an attack's two rounds exceeds 3 x
the median of the times without attacks. The last condition depends on the machine; attackers run with the lowest
priority, because on another machine they would not take the broker's cores.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import ssl
import struct
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from random import Random
from statistics import median

import anyio
import anyio.lowlevel

from client.admin.admin import Admin
from model.access_limits import MAX_GREETING_BYTES
from model.counted import plural
from model.errors import RlabError
from process.children import DAEMON, MODULE, Child, children, spawn
from process.runtime import new_loop
from remoting.address import parse_address
from remoting.client import RemotingClient, raise_for_code
from remoting.codec import CODEC
from remoting.command import REQUEST
from remoting.request_code import RequestCode
from remoting.security.key import Key
from testbed.cluster.registered import wait_registered
from testbed.cluster.rotation import Secrets
from testbed.simulation.checks.process_usage import process_usage

TOPIC = "attacked"
PERIOD_S = 0.01
TIMES = 3.0
"""Longest wait of a client for an answer, as a multiple of the wait without an attack."""
MAX_GROWN_MIB = 8.0
BLOCK_BYTES = 256 * 1024
DRIPPING = 500
LARGE_FRAMES = 30
LARGE_BYTES = 2 * 1024 * 1024


class Target:
    """The broker from the attackers' side."""

    def __init__(self, address: str, *, tls: bool) -> None:
        self.host, self.port = parse_address(address)
        self.address = address
        self.tls: ssl.SSLContext | None = None
        if tls:
            self.tls = ssl.create_default_context()
            self.tls.check_hostname, self.tls.verify_mode = False, ssl.CERT_NONE

    @asynccontextmanager
    async def connected(self, *, tls: bool = True) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """A connection that is closed at the end of the block."""
        reader, writer = await asyncio.open_connection(self.host, self.port, ssl=self.tls if tls else None)
        try:
            yield reader, writer
        finally:
            writer.transport.abort()


async def flood(target: Target, _number: int) -> None:
    """Connections that are closed at once."""
    async with target.connected(tls=False):
        pass


async def garbage(target: Target, number: int) -> None:
    """A million random bytes, until the connection is closed."""
    async with target.connected() as (reader, writer):
        writer.write(Random(number).randbytes(1_000_000))
        await reader.read()


async def slow_loris(target: Target, _number: int) -> None:
    """A frame that comes a byte at a time; in TLS, the greeting of it."""
    async with target.connected(tls=False) as (reader, writer):
        for byte in struct.pack(">I", MAX_GREETING_BYTES) + b"\x96" * 1_000:
            writer.write(bytes([byte]))
            with anyio.move_on_after(1.0):
                await reader.read()
                return


async def wrong_keys(target: Target, number: int) -> None:
    """Handshakes with a key that is not known."""
    async with RemotingClient(key=Key("clients", number.to_bytes(32, "big"))) as client:
        await client.request(target.address, RequestCode.GET_SERVER_STATE)


async def refused_requests(target: Target, _number: int) -> None:
    """Sends without a key, in both dialects."""
    send = CODEC.encode(REQUEST, RequestCode.SEND_MESSAGE, 1, {"topic": TOPIC, "queue_id": 0, "tag_hash": 0}, b"x")
    header = b'{"code":10,"opaque":1,"flag":0,"version":0,"language":"JAVA","extFields":{"topic":"attacked"}}'
    stock = struct.pack(">II", 4 + len(header), len(header)) + header
    for request in (send, stock):
        async with target.connected() as (reader, writer):
            writer.write(request * 100)
            await reader.read()


async def half_frames(target: Target, _number: int) -> None:
    """A user's large frames, each of which ends before its last byte."""
    async with RemotingClient() as client:
        connection = await client.connect(target.address)
        frame = CODEC.encode(REQUEST, RequestCode.SEND_MESSAGE, 1, {"topic": TOPIC}, bytes(LARGE_BYTES))
        for start in range(0, LARGE_BYTES, BLOCK_BYTES):
            connection.send_frame(frame[start : start + BLOCK_BYTES])
            await connection.wait_writable()
            await anyio.lowlevel.checkpoint()


ATTACKS: dict[str, tuple[Callable[[Target, int], Awaitable[None]], int]] = {
    "flood": (flood, 4),
    "garbage": (garbage, 4),
    "slow-loris": (slow_loris, DRIPPING),
    "wrong-keys": (wrong_keys, 8),
    "refused-requests": (refused_requests, 8),
    "half-frames": (half_frames, LARGE_FRAMES),
}
"""The attacks by name: the coroutine that is repeated, and how many run at the same time."""


async def attack(target: Target, name: str) -> None:
    """Attack until cancelled, or until the other end of our input is closed."""
    act, at_a_time = ATTACKS[name]

    async def over_and_over(first: int) -> None:
        number = first
        while True:
            with suppress(OSError, RlabError):  # after every end the next one begins
                await act(target, number)
            number += at_a_time
            await anyio.sleep(0.001)

    async with anyio.create_task_group() as tasks:
        for first in range(at_a_time):
            tasks.start_soon(over_and_over, first)
        await anyio.to_thread.run_sync(sys.stdin.read)
        tasks.cancel_scope.cancel()


class AttackRun:
    """All attacks, in two rounds, on one broker; `wrong` lists the damage."""

    def __init__(self, client: RemotingClient, broker: Child, seconds: float, *, tls: bool) -> None:
        self.wrong: list[str] = []
        self._client = client
        self._broker = broker
        self._seconds = seconds
        self._tls = tls
        self._sent = 0
        self._quiet_ms: list[float] = []
        self._attacked_ms: dict[str, float] = {}

    async def run(self, names: list[str]) -> None:
        """Attack in each of these ways. Cancellation: harmless."""
        levels = []
        for _ in range(2):
            for name in names:
                await self._one(name)
            levels.append(self._mib())
        if levels[1] > levels[0] + MAX_GROWN_MIB:
            self.wrong.append(f"memory grows: {levels[0]:.1f}, then {levels[1]:.1f} MiB after the same attacks")
        quiet = median(self._quiet_ms)
        for name, attacked in self._attacked_ms.items():
            if attacked > TIMES * quiet:
                self.wrong.append(f"{name}: {attacked:.1f} ms is {attacked / quiet:.1f} x the quiet {quiet:.1f} ms")
        connection = await self._client.connect(self._broker.address)
        answer = await connection.request(RequestCode.GET_MAX_OFFSET, {"topic": TOPIC, "queue_id": 0})
        if answer.header["offset"] != self._sent:
            self.wrong.append(
                f"{plural(self._sent, 'message', 'was', 'were')} sent, and the broker has {answer.header['offset']}"
            )

    def _mib(self) -> float:
        return process_usage(self._broker.process.pid).rss_bytes / 2**20

    async def _one(self, name: str) -> None:
        quiet = await self._p99_ms(self._seconds / 2)
        command = [*MODULE, "testbed.attack.run", "--attacker", name, "--server", self._broker.address]
        attacker = await spawn([*command, *(["--tls"] if self._tls else [])])
        try:
            await anyio.sleep(1.0)  # it is at work
            attacked = await self._p99_ms(self._seconds)
        finally:
            attacker.kill()
            await attacker.aclose()
        fds = process_usage(self._broker.process.pid).fds
        sys.stdout.write(
            f"{name:17} p99 {attacked:6.1f} ms, quiet before it {quiet:5.1f} ms; "
            f"{self._mib():5.1f} MiB, {fds} descriptors\n"
        )
        self._quiet_ms.append(quiet)
        self._attacked_ms[name] = min(attacked, self._attacked_ms.get(name, attacked))  # a machine may hiccup once

    async def _p99_ms(self, seconds: float) -> float:
        """Send regularly; returns the 99th percentile of the time until a send is answered."""
        loop, elapsed, header = asyncio.get_running_loop(), [], {"topic": TOPIC, "queue_id": 0, "tag_hash": 0}
        connection = await self._client.connect(self._broker.address)
        end = loop.time() + seconds
        while loop.time() < end:
            began = time.perf_counter()  # the loop's clock has whole milliseconds
            raise_for_code(await connection.request(RequestCode.SEND_MESSAGE, header, b"x" * 64))
            self._sent += 1
            elapsed.append(time.perf_counter() - began)
            await anyio.sleep(max(0.0, PERIOD_S - elapsed[-1]))
        return sorted(elapsed)[int(len(elapsed) * 0.99)] * 1_000


async def run(seconds: float, names: list[str], folder: Path, *, tls: bool) -> list[str]:
    """Start a broker and attack it; returns a line for each failed check."""
    secrets = Secrets(folder)
    secrets.act_as("servers", tls=tls)
    shared = ["--listen", "127.0.0.1:0", "--access", str(secrets.access), *DAEMON]
    if tls:
        shared += ["--tls-cert", str(secrets.cert), "--tls-key", str(secrets.key)]
    async with AsyncExitStack() as stack:
        (namesrv,) = await stack.enter_async_context(children([("namesrv", [*MODULE, "cli.main", "namesrv", *shared])]))
        broker_options = [
            "--name",
            "broker-a",
            "--data",
            str(folder / "data"),
            "--namesrv",
            namesrv.address,
            "--no-trace-topic",
        ]
        started = children([("broker-a", [*MODULE, "cli.main", "broker", *broker_options, *shared])])
        (broker,) = await stack.enter_async_context(started)
        admin = await stack.enter_async_context(Admin(namesrv.address))
        await wait_registered(admin, [broker.address])
        await admin.create_topic(TOPIC, 1)
        secrets.act_as("clients", tls=tls)
        made_run = AttackRun(await stack.enter_async_context(RemotingClient()), broker, seconds, tls=tls)
        await made_run.run(names)
    return made_run.wrong


def main() -> int:
    """Run it as asked; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each attack")
    parser.add_argument("--only", nargs="*", choices=list(ATTACKS), default=list(ATTACKS))
    parser.add_argument("--tls", action="store_true", help="over TLS only")
    parser.add_argument("--plain", action="store_true", help="without TLS only")
    parser.add_argument("--attacker", help=argparse.SUPPRESS)
    parser.add_argument("--server", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.attacker:
        os.nice(19)
        target = Target(arguments.server, tls=arguments.tls)
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(attack(target, arguments.attacker))
        return 0
    wrong = []
    for tls in [each for each in (False, True) if not (arguments.plain and each) and not (arguments.tls and not each)]:
        sys.stdout.write(f"{'with' if tls else 'without'} TLS\n")
        folders = tempfile.TemporaryDirectory(prefix="rlab-attack-")
        with folders as folder, asyncio.Runner(loop_factory=new_loop) as runner:
            wrong += runner.run(run(arguments.seconds, arguments.only, Path(folder), tls=tls))
    sys.stdout.write("".join(f"{each}\n" for each in wrong) + ("FAILED\n" if wrong else "PASSED\n"))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
