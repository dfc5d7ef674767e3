"""A broker and its peers on a simulated network, for the tests of the broker's handlers.

    @simulated
    async def test_...(world: World) -> None:
        await world.start_broker()
        a = world.peer("a")
        await a.heartbeat(consumer("g"))

The server, the client and the wire are the real ones; only the clock and the network are simulated.
"""

from __future__ import annotations

import asyncio
import errno
import inspect
import os
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any

import anyio
import msgpack

from broker.broker import Broker, run_broker
from broker.config import BrokerConfig
from broker.store.disk.files import Files
from model.events import Event, EventKind
from model.heartbeat import ConsumeFrom, ConsumerData, ConsumeType, GroupView, HeartbeatData, MessageModel
from model.message import Message, encode_payload, tag_hash
from model.record import StoredRecord, iter_records
from model.subscription import SubscriptionData
from namesrv.config import NameServerConfig
from namesrv.server import run_name_server
from remoting.client import RemotingClient
from remoting.command import Command
from remoting.request_code import RequestCode
from testbed.simulation.kernel.run import Simulation, run_simulation

HOST = "10.0.0.1"
ADDRESS = f"{HOST}:10911"
LATENCY_S = 2**-10  # exact in binary, and so are sums of it
ROUND_TRIP_S = 2 * LATENCY_S


def consumer(group: str = "g", *topics: str, session_timeout_s: float = 30.0, **changes: Any) -> ConsumerData:
    """A member's part in a group; it wants everything of topic `t` unless told otherwise."""
    subscriptions = tuple(SubscriptionData(topic) for topic in sorted(topics or ("t",)))
    fields = {
        "consume_type": ConsumeType.PASSIVELY,
        "model": MessageModel.CLUSTERING,
        "consume_from": ConsumeFrom.LAST_OFFSET,
        "strategy": "AVG",
        "subscriptions": subscriptions,
        **changes,
    }
    return ConsumerData(group=group, session_timeout_s=session_timeout_s, **fields)


class FailingDisk(Files):
    """The real file system, except that reads, writes and syncs fail when told to.

    Attributes:
        errno: what every write fails with, or None; with EROFS no file is opened for writing either.
        read_errno: what every read fails with, or None.
        sync_errno: what every sync fails with, or None.
        writes: how many were asked for.
    """

    def __init__(self) -> None:
        self.errno: int | None = None
        self.read_errno: int | None = None
        self.sync_errno: int | None = None
        self.writes = 0

    def open(self, path: Path, *, create: bool = False) -> int:
        if create and self.errno == errno.EROFS:
            raise OSError(self.errno, os.strerror(self.errno))
        return super().open(path, create=create)

    def sync(self, fd: int) -> None:
        if self.sync_errno is not None:
            raise OSError(self.sync_errno, os.strerror(self.sync_errno))
        super().sync(fd)

    def pread(self, fd: int, length: int, position: int) -> bytes:
        if self.read_errno is not None:
            raise OSError(self.read_errno, os.strerror(self.read_errno))
        return super().pread(fd, length, position)

    def pwrite(self, fd: int, data: bytes | memoryview, position: int) -> int:
        self.writes += 1
        if self.errno is not None:
            raise OSError(self.errno, os.strerror(self.errno))
        return super().pwrite(fd, data, position)


class Peer:
    """A client on a host of its own, as a broker sees it.

    Attributes:
        pushes: (virtual time, request code, header) of everything that the broker pushed.
        warnings: those of the answer to the last heartbeat.
    """

    def __init__(self, simulation: Simulation, host: str) -> None:
        self.client_id = f"{host}@1"
        self.pushes: list[tuple[float, int, dict[str, Any]]] = []
        self.commands: list[Command] = []
        self.warnings: list[str] = []
        self._simulation = simulation
        self._host = host
        handlers = {code: self._pushed for code in RequestCode}
        self.remoting = RemotingClient(handlers, rng=Random(0))

    def _pushed(self, address: str, command: Command) -> None:
        self.pushes.append((self._simulation.loop.time(), command.code, command.header))
        self.commands.append(command)

    def pushed(self, code: RequestCode) -> list[dict[str, Any]]:
        """Headers of the pushes with this code."""
        return [header for _, pushed, header in self.pushes if pushed == code]

    def notifications(self) -> list[Command]:
        """The notifications of changed groups."""
        return [command for command in self.commands if command.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED]

    def versions(self) -> list[int]:
        """The group versions that it was notified of."""
        return [header["version"] for header in self.pushed(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED)]

    async def begin(self, code: int, header: dict[str, Any] | None = None, body: Any = None) -> asyncio.Future[Command]:
        """Send a request; the future is its answer, whatever its code. A body that is no bytes is packed."""
        with self._simulation.on_host(self._host):
            connection = await self.remoting.connect(ADDRESS)
        answer = connection.request(code, header or {}, _packed(body), 60.0)
        # Not every test waits for its answer, and an exception that nobody looks at would fail the simulation.
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())
        return answer

    async def call(self, code: int, header: dict[str, Any] | None = None, body: Any = None) -> Command:
        """Send a request and return its answer; raises what a refusal stands for."""
        with self._simulation.on_host(self._host):
            return await self.remoting.request(ADDRESS, code, header, _packed(body), 60.0)

    async def close(self) -> None:
        """Close the connection."""
        await self.remoting.aclose()

    # --- requests by name --------------------------------------------------------------------------------------------

    async def put_topic(
        self, topic: str = "t", read: int = 4, write: int | None = None, perm: int = 6, **fields: Any
    ) -> None:
        header = {"topic": topic, "read_queue_nums": read, "write_queue_nums": read if write is None else write}
        await self.call(RequestCode.UPDATE_AND_CREATE_TOPIC, {**header, "perm": perm, **fields})

    async def send(self, topic: str = "t", queue_id: int = 0, body: bytes = b"m", tag: str = "") -> int:
        header = {"topic": topic, "queue_id": queue_id, "tag_hash": tag_hash(tag)}
        answer = await self.call(RequestCode.SEND_MESSAGE, header, payload_of(body, topic, tag))
        return int(answer.header["offset"])

    async def begin_pull(
        self, topic: str = "t", queue_id: int = 0, offset: int = 0, suspend_ms: int = 0, **fields: Any
    ) -> asyncio.Future[Command]:
        header = {"group": "g", "topic": topic, "queue_id": queue_id, "offset": offset, "max_n": 32}
        return await self.begin(RequestCode.PULL_MESSAGE, {**header, "suspend_ms": suspend_ms, **fields})

    async def pull(self, topic: str = "t", queue_id: int = 0, offset: int = 0, **fields: Any) -> Command:
        return await (await self.begin_pull(topic, queue_id, offset, **fields))

    async def heartbeat(self, *consumers: ConsumerData, **fields: Any) -> dict[str, list[Any]]:
        """Returns group -> [version, created_ms, joined]."""
        heartbeat = HeartbeatData(client_id=self.client_id, consumers=consumers, **fields)
        answer = await self.call(RequestCode.HEART_BEAT, {}, heartbeat.to_wire())
        self.warnings = answer.header.get("warnings", [])
        groups: dict[str, list[Any]] = answer.header["groups"]
        return groups

    async def unregister(self, *groups: str, **fields: Any) -> None:
        header = {"client_id": self.client_id, "groups": list(groups), **fields}
        await self.call(RequestCode.UNREGISTER_CLIENT, header)

    async def members(self, group: str = "g") -> list[str]:
        answer = await self.call(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"group": group, "known_version": -1})
        return list(GroupView.from_wire(group, unpacked(answer)).members)

    async def lock(self, *queue_ids: int, topic: str = "t", group: str = "g") -> tuple[list[Any], list[Any]]:
        """Returns ([topic, queue id, token, start offset] granted, [topic, queue id, owner] refused)."""
        header = {"group": group, "client_id": self.client_id}
        answer = await self.call(RequestCode.LOCK_BATCH_MQ, header, [[topic, queue_id] for queue_id in queue_ids])
        granted, refused = unpacked(answer)
        return granted, refused

    async def token_of(self, queue_id: int, topic: str = "t", group: str = "g") -> int:
        """Lock one queue, which must be granted, and return the token."""
        [[_, _, token, _]], _ = await self.lock(queue_id, topic=topic, group=group)
        return int(token)

    async def unlock(self, *rows: tuple[str, int, int, int], group: str = "g", **fields: Any) -> list[Any]:
        header = {"group": group, "client_id": self.client_id, **fields}
        answer = await self.call(RequestCode.UNLOCK_BATCH_MQ, header, rows)
        refused: list[Any] = unpacked(answer)
        return refused

    async def commit(
        self, offset: int, token: int = -1, queue_id: int = 0, topic: str = "t", group: str = "g", **fields: Any
    ) -> list[Any]:
        """Commit one offset; returns the refusals as [topic, queue id, code, remark]."""
        header = {"group": group, "client_id": self.client_id, **fields}
        answer = await self.call(RequestCode.UPDATE_CONSUMER_OFFSET, header, [[topic, queue_id, offset, token]])
        refused: list[Any] = unpacked(answer)
        return refused

    async def committed(self, queue_id: int = 0, topic: str = "t", group: str = "g") -> int:
        header = {"group": group, "topic": topic, "queue_id": queue_id}
        answer = await self.call(RequestCode.QUERY_CONSUMER_OFFSET, header)
        return int(answer.header["offset"])


class World:
    """One broker at `ADDRESS`, which may be stopped and started again, and its peers.

    Attributes:
        simulation: what it all runs in.
        data_dir: the broker's data directory.
        events: every event of the broker.
        at_end: called before the broker stops, to close what a test has opened.
    """

    def __init__(self, simulation: Simulation, data_dir: Path) -> None:
        self.simulation = simulation
        self.data_dir = data_dir
        self.events: list[Event] = []
        self._broker: Broker | None = None
        self._running = AsyncExitStack()
        self._peers: list[Peer] = []
        self.at_end: list[Callable[[], object]] = []

    @property
    def broker(self) -> Broker:
        assert self._broker is not None, "no broker was started"
        return self._broker

    @property
    def now(self) -> float:
        return self.simulation.loop.time()

    async def sleep(self, seconds: float) -> None:
        """Let virtual time pass."""
        await anyio.sleep(seconds)

    async def sleep_until(self, moment: float) -> None:
        """Let virtual time pass until the loop's clock shows this."""
        await anyio.sleep_until(moment)

    async def start_broker(self, **options: Any) -> Broker:
        """Start it; `options` are those of `BrokerConfig`."""
        defaults = {"name": "broker-a", "data_dir": self.data_dir, "listen": ADDRESS, "trace": False}
        more = {"clock_ms": self.simulation.clock_ms, "event_sink": self.events.append}
        with self.simulation.on_host(HOST):
            running = await self._running.enter_async_context(
                run_broker(BrokerConfig(**{**defaults, **more, **options}))
            )
        self._broker = running.broker
        return running.broker

    async def start_name_server(self) -> str:
        """Start one before the broker, which stops after it; returns its address, for the option `name_servers`."""
        config = NameServerConfig(listen="10.0.0.2:9876")
        with self.simulation.on_host("10.0.0.2"):
            return (await self._running.enter_async_context(run_name_server(config))).address

    async def stop_broker(self) -> None:
        """Stop it as SIGTERM does. Idempotent."""
        await self._running.aclose()

    def peer(self, host: str) -> Peer:
        """A client on this host; it connects with its first request."""
        self._peers.append(Peer(self.simulation, host))
        return self._peers[-1]

    def of_kind(self, *kinds: EventKind) -> list[Event]:
        """The events of these kinds."""
        return [event for event in self.events if event.kind in kinds]

    async def end(self) -> None:
        self.simulation.network.heal()
        for close in self.at_end:
            close()
        for peer in self._peers:
            await peer.close()
        await self.stop_broker()


async def a_life(world: World, **options: object) -> tuple[Peer, Peer, int]:
    """A broker with two members of `g`, the first of which has queue 0 and has committed 2 of 3 messages.

    Returns them and the token.
    """
    await world.start_broker(**options)
    a, b = world.peer("a"), world.peer("b")
    await a.put_topic("t", read=3, write=2)
    for n in range(3):
        await a.send(body=b"%d" % n)
    await a.heartbeat(consumer())
    await b.heartbeat(consumer())
    token = await a.token_of(0)
    await a.commit(2, token)
    await world.sleep(1)
    return a, b, token


async def operator(world: World, **options: object) -> Peer:
    """Start a broker with topic `t`; returns a peer of it."""
    await world.start_broker(**options)
    peer = world.peer("operator")
    await peer.put_topic()
    world.events.clear()
    return peer


async def ask(peer: Peer, code: RequestCode, **header: object) -> Any:
    return unpacked(await peer.call(code, header))


def simulated(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Turn a coroutine of a `World` into a test that runs it in virtual time; other parameters are pytest's."""

    def run(tmp_path: Path, **arguments: Any) -> None:
        async def main(simulation: Simulation) -> None:
            world = World(simulation, tmp_path)
            try:
                await test(world, **arguments)
            finally:
                await world.end()

        run_simulation(main, latency_s=LATENCY_S)

    _, *others = inspect.signature(test).parameters.values()
    tmp_path = inspect.Parameter("tmp_path", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    run.__signature__ = inspect.Signature([tmp_path, *others])  # type: ignore[attr-defined]  # what pytest reads
    run.__name__ = run.__qualname__ = test.__name__
    return run


def payload_of(body: bytes, topic: str = "t", tag: str = "") -> bytes:
    """What a producer sends for this body."""
    return encode_payload(Message(topic, body, tags=tag), 0, "id")


def records(answer: Command) -> list[StoredRecord]:
    """The messages of a pull's answer."""
    return list(iter_records(answer.body or b""))


def unpacked(answer: Command) -> Any:
    """The body of an answer that is msgpack."""
    return msgpack.unpackb(answer.body or b"")


def _packed(body: Any) -> bytes | None:
    if body is None or isinstance(body, bytes):
        return body
    packed: bytes = msgpack.packb(body)
    return packed
