"""overload: four times the requests that a server can serve, and their effect on the work and on a group.

One broker and one name server, each in a process of its own, and a group of four consumers in four processes. First a
fixed number of requests in flight shows the highest rate that the server completes. Then requests are sent at four
times that rate, whether they are answered or not, each with a timeout of a second: sends, then requests for member
lists (of the passes of a large group), then route polls of the name server. Nothing is sent again, so every request is
new work.

- `overload-sends` and so forth: completed per second under that load, and the ratio to the highest rate.
- `-left`: members that the broker lost under that load. Their session is short: a heartbeat that waits for a second is
  late.
- `-balanced`: a fifth consumer joins during the last second; time from the end of the load until all five have queues.

The flood is a client without checks, futures and timers, or it could not send at that rate.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import cast

import anyio
import msgpack

from client.admin.admin import Admin
from model.message import Message, encode_payload
from remoting.address import parse_address
from remoting.codec import CODEC, LENGTH_BYTES
from remoting.command import REQUEST
from remoting.request_code import RequestCode
from testbed.bench.kit.echo import BODY, TOPIC, split
from testbed.bench.kit.processes import ClusterProcesses, cluster_processes, member_process
from testbed.bench.kit.report import Result
from testbed.bench.kit.rounds import Progress, Sizes

GROUP = "bench-overload"
MEMBERS = 4
SESSION_S = 3.0
TIMES = 4
QUEUES = 8
CONNECTIONS = 64
IN_FLIGHT = 16
"""Outstanding requests of each connection while the peak rate is measured."""
MAX_OUTSTANDING = 1_024
"""Outstanding requests of each connection under load, the limit of a client.

Requests that have waited for a second no longer count.
"""
BLOCK = 64
"""Frames that are encoded once and sent again and again: a client that encoded each could not send that much."""
BALANCE_TIMEOUT_S = 60.0
_WAIT_MS = 1_000
_TICK_S = 0.002
_POLL_S = 0.05
_CODE = 2
"""Index of the request code in a frame."""
_unpack = msgpack.unpackb


@dataclass(frozen=True, slots=True)
class FloodKind:
    """A kind of request, and the server that gets it."""

    name: str
    code: RequestCode
    header: Mapping[str, object]
    body: bytes | None = None
    to_name_server: bool = False


KINDS = (
    FloodKind(
        "sends",
        RequestCode.SEND_MESSAGE,
        {"topic": TOPIC, "queue_id": 0, "tag_hash": 0},
        encode_payload(Message(TOPIC, BODY), 0, "0" * 24),
    ),
    FloodKind("lists", RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"group": GROUP, "known_version": -1}),
    FloodKind("routes", RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": TOPIC}, to_name_server=True),
)


class Flood(asyncio.Protocol):
    """One connection that sends requests of one kind, and counts the answers by their code.

    With `again` it sends one for each answer. `unsent` counts those that found too many outstanding.
    """

    def __init__(self, kind: FloodKind, *, repeats: bool = False) -> None:
        self.answers: Counter[int] = Counter()
        self.unsent = 0
        self._again = repeats
        self._sent: deque[list[float]] = deque()  # when, and how many that are not answered
        self._outstanding = 0
        self._frames = [CODEC.encode(REQUEST, kind.code, opaque, kind.header, kind.body) for opaque in range(BLOCK)]
        self._block = b"".join(self._frames)
        self._unread = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        frames, self._unread = split(self._unread + data)
        codes = [cast("list[int]", _unpack(memoryview(frame)[LENGTH_BYTES:]))[_CODE] for frame in frames]
        self.answers.update(codes)
        self._settle(len(codes))
        if self._again:
            self.send(len(codes))

    def send(self, n: int) -> None:
        """Send requests, as many as may be outstanding."""
        assert self._transport is not None, "it is connected"
        now = anyio.current_time()
        while self._sent and self._sent[0][0] < now - _WAIT_MS / 1000:
            self._outstanding -= int(self._sent.popleft()[1])
        allowed = min(n, MAX_OUTSTANDING - self._outstanding)
        self.unsent += n - allowed
        if not allowed:
            return
        self._sent.append([now, allowed])
        self._outstanding += allowed
        blocks, n_single = divmod(allowed, BLOCK)
        self._transport.write(self._block * blocks + b"".join(self._frames[:n_single]))

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.abort()

    def _settle(self, n: int) -> None:
        while n and self._sent:
            settled = min(n, int(self._sent[0][1]))
            self._sent[0][1] -= settled
            self._outstanding -= settled
            n -= settled
            if not self._sent[0][1]:
                self._sent.popleft()


async def bench_overload(sizes: Sizes, progress: Progress) -> list[Result]:
    """Flood the servers with each kind of request, one after the other."""
    results: list[Result] = []
    async with cluster_processes({TOPIC: QUEUES}, "--no-trace-topic") as cluster, AsyncExitStack() as stack:
        for number in range(MEMBERS):
            await stack.enter_async_context(member_process(cluster.name_server, GROUP, f"m{number}", SESSION_S))
        await _time_to_balance(cluster.name_server, MEMBERS)
        for kind in KINDS:
            results += await _measure(cluster, kind, sizes.load_s, progress)
    return results


async def _measure(cluster: ClusterProcesses, kind: FloodKind, load_s: float, progress: Progress) -> list[Result]:
    address = cluster.name_server if kind.to_name_server else cluster.broker.address
    with_wait = FloodKind(kind.name, kind.code, {**kind.header, "wait_ms": _WAIT_MS}, kind.body)
    progress(f"{kind.name}: the most")
    peak_rate = await peak(with_wait, address, load_s / 2)
    version_before = await group_version(cluster)
    progress(f"{kind.name}: {TIMES} times as many")
    async with floods(with_wait, address) as connections, anyio.create_task_group() as tasks:
        joined = anyio.Event()
        over = anyio.Event()

        async def join() -> None:
            await anyio.sleep(load_s - 1.0)
            async with member_process(cluster.name_server, GROUP, f"late-{kind.name}", SESSION_S):
                joined.set()
                await over.wait()

        tasks.start_soon(join)
        completed = await flood(connections, TIMES * peak_rate, load_s)
        ended_at = anyio.current_time()
        balanced_s = await _time_to_balance(cluster.name_server, MEMBERS + 1, ended_at)
        left = await group_version(cluster) - version_before - 1
        over.set()
        answers = sum((connection.answers for connection in connections), Counter[int]())
        unsent = sum(connection.unsent for connection in connections)
    await _time_to_balance(cluster.name_server, MEMBERS)
    refused = sum(answers.values()) - answers[0]
    name = f"overload-{kind.name}"
    note = (
        f"{TIMES * peak_rate:,.0f}/s came: {refused:,} refused, {unsent:,} not sent, because too many were outstanding"
    )
    return [
        Result(
            name=name,
            value=completed,
            unit="requests/s",
            baseline_value=peak_rate,
            ratio=completed / peak_rate,
            note=note,
        ),
        Result(name=f"{name}-left", value=left, unit="members"),
        Result(name=f"{name}-balanced", value=balanced_s, unit="s"),
    ]


@asynccontextmanager
async def floods(kind: FloodKind, address: str, *, repeats: bool = False) -> AsyncIterator[Sequence[Flood]]:
    """Open the connections of a flood for the time of the block."""
    loop, connections = asyncio.get_running_loop(), list[Flood]()
    try:
        for _ in range(CONNECTIONS):
            _, connection = await loop.create_connection(lambda: Flood(kind, repeats=repeats), *parse_address(address))
            connections.append(connection)
        yield connections
    finally:
        for connection in connections:
            connection.close()


async def peak(kind: FloodKind, address: str, seconds: float) -> float:
    """Requests per second that a server completes with a fixed number in flight. Cancellation: it stops."""
    async with floods(kind, address, repeats=True) as connections:
        for connection in connections:
            connection.send(IN_FLIGHT)
        await anyio.sleep(seconds / 4)  # while the first ones fill caches
        completed_before, started = _completed(connections), anyio.current_time()
        await anyio.sleep(seconds)
        return (_completed(connections) - completed_before) / (anyio.current_time() - started)


async def flood(connections: Sequence[Flood], rate: float, seconds: float) -> float:
    """Send requests at a rate for some seconds; returns those completed per second. Cancellation: it stops."""
    started = anyio.current_time()
    sent = 0
    while (elapsed := anyio.current_time() - started) < seconds:
        due = int(rate * elapsed)
        for number, connection in enumerate(connections):
            connection.send((due + number) // len(connections) - (sent + number) // len(connections))
        sent = due
        await anyio.sleep(_TICK_S)
    return _completed(connections) / (anyio.current_time() - started)


def _completed(connections: Sequence[Flood]) -> int:
    return sum(connection.answers[0] for connection in connections)


async def group_version(cluster: ClusterProcesses) -> int:
    """The version of the group at the broker, which grows by one with each member that joins or leaves."""
    async with Admin(cluster.name_server) as admin:
        return (await admin.group(GROUP)).version


async def _time_to_balance(name_server: str, members: int, since: float | None = None) -> float:
    """Wait until `members` members share the queues of the topic; returns the seconds since `since`, by default now."""
    started = anyio.current_time() if since is None else since
    async with Admin(name_server) as admin:
        with anyio.fail_after(BALANCE_TIMEOUT_S):
            while True:
                group = await admin.group(GROUP)
                owners = [each.owner for each in group.queues if each.queue.topic == TOPIC]
                if len(owners) == QUEUES and all(owners) and len(set(owners)) == members:
                    return anyio.current_time() - started
                await anyio.sleep(_POLL_S)
