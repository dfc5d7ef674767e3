"""A master and its replicas on a simulated network, without a broker around them: `ReplicaSender` and `follow`.

    @simulated
    async def test_...(world: World) -> None:
        master = await world.start_master()
        replica = world.start_replica(2)
        master.write(b"message")
        await world.until(lambda: master.sender.row.in_sync == (1, 2))

Connections, the wire, the log and the tables are the real ones.
"""

from __future__ import annotations

import inspect
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any, NoReturn, cast

import anyio

from broker.durability.metadata import MetadataStore, Table
from broker.durability.metadata_file import MetadataFile
from broker.feature import Core, Features
from broker.store.disk.errors import StoreError, StoreFull
from broker.store.disk.files import Files
from broker.store.disk.options import StoreOptions
from broker.store.follower.follower_log import FollowerLog
from broker.store.message_store import MessageStore
from model.errors import IllegalOperation, NoPermission, NotAuthenticated, NotMaster, RlabError
from model.event_log import EventLog
from model.record import FlushMode
from model.replica_set import Acks, ReplicaSet
from remoting.client import RemotingClient
from remoting.deadline_driver import DeadlineDriver
from remoting.security.key import Key
from remoting.security.policy import Policy
from remoting.server import RemotingServer, serve
from remoting.tasks import background_tasks
from replica.directory import ReplicaIdentity
from replica.registers.memory import MemoryRegister, RegisterFaults
from replica.sets import create, elected, joined, started
from replica.stream.follower import FollowEnd, FollowProgress, follow
from replica.stream.sender import ReplicaSender
from testbed.simulation.kernel.run import Simulation, run_simulation

LATENCY_S = 2**-10
SEGMENT_BYTES = 64 * 1024
_TABLE = "create table if not exists t (k integer primary key, v blob not null)"


def host_of(replica_id: int) -> str:
    return f"10.0.0.{replica_id}"


def address_of(replica_id: int) -> str:
    return f"{host_of(replica_id)}:10911"


@dataclass
class Master:
    """A master; `write` and `put` change something, and `flush` as the write barrier does after an iteration."""

    store: MessageStore
    metadata: MetadataStore
    table: Table
    sender: ReplicaSender
    deposed: list[ReplicaSet | None]
    committed: int = 0
    ended: list[NotMaster] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.sender.begin(self._committed, self.ended.append)
        self.flush()

    def _committed(self, n: int) -> None:
        assert n >= self.committed
        self.committed = n

    def write(self, *payloads: bytes, topic_id: int = 1) -> int:
        for payload in payloads:
            self.store.append(topic_id, 0, payload, 0)
        return self.flush()

    def put(self, key: int, value: bytes) -> int:
        self.table.put(key, value)
        return self.flush()

    def flush(self) -> int:
        self.metadata.commit()
        self.store.flush()
        return self.sender.offer(self.metadata.collect_changes())


class ReplicaOf:
    """A replica that follows, and follows again when a stream ends."""

    def __init__(self, world: World, replica_id: int, incarnation: int, files: Files) -> None:
        self.replica_id = replica_id
        self.identity = ReplicaIdentity(
            name="b",
            set_id=world.set_id,
            register_id=world.register_id,
            replica_id=replica_id,
            incarnation=incarnation,
        )
        self.directory = world.directory(replica_id)
        self.ends: list[FollowEnd | RlabError] = []
        self.progress: list[FollowProgress] = []
        self.log: FollowerLog | None = None
        self.committed_position: int | None = None
        self.stopped = anyio.Event()
        self._world = world
        self._files = files
        self._scope = anyio.CancelScope()

    async def run(self) -> None:
        try:
            with self._world.simulation.on_host(host_of(self.replica_id)), self._scope:
                while True:
                    try:
                        await self._follow()
                    except StoreError as error:  # the log has to be opened again, which finishes a cut
                        self.ends.append(error)
                        await anyio.sleep(0.2)
        finally:
            self.stopped.set()

    async def _follow(self) -> NoReturn:
        world = self._world
        with (
            FollowerLog.open(self.directory, world.options, self._files) as self.log,
            MetadataFile(self.directory, files=self._files) as metadata,
        ):
            async with RemotingClient(rng=Random(self.replica_id), key=world.keys.get(self.replica_id)) as client:
                while True:
                    try:
                        end = await follow(
                            *(self.log, metadata, self.identity, world.believed or await world.row(), client),
                            self.progress.append,
                            committed_position=self.committed_position,
                        )
                        self.ends.append(end)
                    except (StoreFull, IllegalOperation, NoPermission, NotAuthenticated) as error:
                        self.ends.append(error)
                    await anyio.sleep(0.05)

    def again(self) -> ReplicaOf:
        """Let it run once more, as the same process."""
        self._scope, self.stopped = anyio.CancelScope(), anyio.Event()
        return self

    async def stop(self) -> None:
        self._scope.cancel()
        await self.stopped.wait()


class World:
    """One set, the register in memory, and the hosts of its replicas."""

    set_id = 7
    register_id = 9
    server: RemotingServer  # of the newest master

    def __init__(self, simulation: Simulation, data_dir: Path) -> None:
        self.simulation = simulation
        self.register = MemoryRegister(register_id=self.register_id)
        self.options = StoreOptions(segment_bytes=SEGMENT_BYTES)
        self._data_dir = data_dir
        self._stack = AsyncExitStack()
        self._masters: dict[int, AsyncExitStack] = {}
        self.tasks: Any = None
        self.access: Policy | None = None  # of masters
        self.keys: dict[int, Key] = {}  # of replicas
        self.believed: ReplicaSet | None = None  # the row that replicas know, instead of the one of the register

    def directory(self, replica_id: int) -> Path:
        return self._data_dir / str(replica_id)

    async def begin(self) -> None:
        self.tasks = await self._stack.enter_async_context(background_tasks())
        row = create("b", address_of(1), set_id=self.set_id, copies=3)
        for replica_id in (2, 3):
            row, _ = joined(row, address_of(replica_id))
        await self.register.write(row, 0)

    async def end(self) -> None:
        self.simulation.network.heal()
        await self._stack.aclose()

    async def row(self) -> ReplicaSet:
        row = await self.register.read("b")
        assert row is not None
        return row

    async def change(self, decide: Callable[[ReplicaSet], ReplicaSet]) -> ReplicaSet:
        """What an operator, or the start of a replica, writes to the register."""
        row = await self.row()
        return await self.register.write(decide(row), row.version)

    async def start_master(
        self,
        replica_id: int = 1,
        *,
        flush: FlushMode = FlushMode.ASYNC,
        files: Files | None = None,
        faults: RegisterFaults | None = None,
        acks: Acks = Acks.ALL,
    ) -> Master:
        """Start the master of the row, in a new epoch."""
        row = await self.change(lambda row: replace(started(row, replica_id, address_of(replica_id)), acks=acks))
        assert row.master == replica_id
        loop, stack = self.simulation.loop, await self._stack.enter_async_context(AsyncExitStack())
        directory = self.directory(replica_id)
        store = stack.enter_context(
            MessageStore.open(
                *(directory, self.options, self.simulation.clock_ms, files or Files()), epoch=(row.epoch, replica_id)
            )
        )
        metadata = stack.enter_context(MetadataStore(directory, flush=flush, files=files))
        metadata.add_tables(_TABLE)
        table = Table(metadata, "t", replicated=True)
        metadata.record_changes()
        events = EventLog("b", self.simulation.clock_ms)
        deposed: list[ReplicaSet | None] = []
        features = Features()
        driver = DeadlineDriver(features.next_deadline, features.expire, reads_first=True)
        nothing = cast(Any, None)
        core = Core(
            *(loop, "b", frozenset(), self.simulation.clock_ms, store, metadata, nothing, events, driver, features)
        )
        register = self.register if faults is None else self.register.seen_with(faults)
        sender = ReplicaSender(core, row, replica_id, register, deposed.append, flush)
        features.add(sender)
        with self.simulation.on_host(host_of(replica_id)):
            self.server = await stack.enter_async_context(
                serve(
                    *(sender.handlers(), address_of(replica_id)),
                    on_closed=sender.connection_closed,
                    grace_s=0.0,
                    access=self.access,
                    guarded=features,
                )
            )
            tasks = await stack.enter_async_context(background_tasks())
        tasks.start_soon(driver.run)
        tasks.start_soon(sender.run)
        master = Master(store, metadata, table, sender, deposed)
        self._masters[replica_id] = stack
        return master

    async def stop_master(self, replica_id: int = 1) -> None:
        """Stop the process of this replica, which is the master, or was; its connections close."""
        await self._masters.pop(replica_id).aclose()

    async def start_replica(self, replica_id: int, files: Files | None = None) -> ReplicaOf:
        """Start the process of a replica that is not the master."""
        row = await self.change(lambda row: started(row, replica_id, address_of(replica_id)))
        member = row.member(replica_id)
        assert member is not None
        replica = ReplicaOf(self, replica_id, member.incarnation, files or Files())
        self.tasks.start_soon(replica.run)
        return replica

    def second_process(self, replica_id: int, incarnation: int) -> ReplicaOf:
        """A process with a copy of a replica's directory, which was empty."""
        process = ReplicaOf(self, replica_id, incarnation, Files())
        process.directory = self._data_dir / f"copy of {replica_id}"
        return process

    def later(self, row: ReplicaSet) -> ReplicaSet:
        """A row of a later epoch, which this register does not have."""
        return replace(row, version=row.version + 5, epoch=row.epoch + 3)

    async def elect(self, replica_id: int) -> ReplicaSet:
        """Make a replica the master although the old one may answer."""
        return await self.change(lambda row: elected(row, replica_id, accept_loss=True, master_answers=True))

    async def sleep(self, seconds: float) -> None:
        """Let virtual time pass."""
        await anyio.sleep(seconds)

    async def until(self, condition: Callable[[], object], timeout_s: float = 10.0) -> float:
        """Wait until something holds; returns how long that took, in virtual seconds."""
        began = self.simulation.loop.time()
        with anyio.fail_after(timeout_s):
            while not condition():  # noqa: ASYNC110  # the conditions are of many kinds, and time is virtual
                await anyio.sleep(0.01)
        return self.simulation.loop.time() - began


def log_of(directory: Path) -> dict[str, bytes]:
    """The log files of a data directory."""
    return {path.name: path.read_bytes() for path in sorted(directory.glob("*.log"))}


def indexes_of(directory: Path) -> dict[str, bytes]:
    """The index files of a data directory."""
    return {path.name: path.read_bytes() for path in sorted(directory.glob("*.index"))}


def rows_of_table(directory: Path) -> list[tuple[Any, ...]]:
    """The rows of table t in a data directory, as they are committed."""
    db = sqlite3.connect(f"file:{directory / 'metadata.sqlite'}?mode=ro", uri=True)
    try:
        return db.execute("select k, v from t order by k").fetchall()
    finally:
        db.close()


def simulated(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Turn a coroutine of a `World` into a test that runs it in virtual time; other parameters are pytest's."""

    def run(tmp_path: Path, **arguments: Any) -> None:
        async def main(simulation: Simulation) -> None:
            world = World(simulation, tmp_path)
            await world.begin()
            try:
                await test(world, **arguments)
            finally:
                await world.end()

        run_simulation(main, latency_s=LATENCY_S, limit_s=6_000)

    _, *others = inspect.signature(test).parameters.values()
    tmp_path = inspect.Parameter("tmp_path", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    run.__signature__ = inspect.Signature([tmp_path, *others])  # type: ignore[attr-defined]  # what pytest reads
    run.__name__ = run.__qualname__ = test.__name__
    return run
