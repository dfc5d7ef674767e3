"""A broker: the list of its features in the order in which their hooks are called, and how it starts and stops.

Everything here runs on one event loop, and no hook and hardly any handler awaits, so each of them sees the tables in a
consistent state. `run_broker` opens the files, listens and registers, and takes it all down in the opposite order.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import msgpack

from broker.assignment.handlers import Assignment
from broker.config import BrokerConfig, Mastership, Part
from broker.durability.background_sync import sync_regularly
from broker.durability.barrier import WriteBarrier
from broker.durability.lock_watch import watch_lock
from broker.durability.metadata import MetadataStore, StoredNumber
from broker.durability.metadata_file import metadata_exists
from broker.durability.serving import guard_handlers
from broker.feature import Core, Feature, Features, shares_of_broker
from broker.groups.handlers import GroupHandlers
from broker.groups.members import Groups
from broker.groups.relay import MemberRequestRelay
from broker.groups.settings import StoredGroupSettings
from broker.leases.handlers import LeaseHandlers
from broker.leases.leaseless.locks import Locks
from broker.leases.leaseless.pull_access import PullAccess
from broker.leases.reset import ResetHandlers
from broker.leases.service import Leases
from broker.leases.stats import GroupStatsHandlers
from broker.messages.pull import Pulls
from broker.messages.query import Queries
from broker.messages.send import Sends
from broker.pop.service import Pop
from broker.retention.service import Retention
from broker.retry.dead_letters import DeadLetters
from broker.retry.delays import Delays
from broker.retry.recalls import Recalls
from broker.retry.send_back import SendBack
from broker.sink.handlers import SinkHandlers
from broker.sink.service import Sink
from broker.store.disk.directory import METADATA_NAME, check_alone
from broker.store.disk.options import MIB
from broker.store.message_store import MessageStore
from broker.topics.damage import DamageReports
from broker.topics.facts import BrokerFacts
from broker.topics.lost import lost_topics, metadata_missing
from broker.topics.registration import Announcement
from broker.topics.service import Topics
from broker.topics.table import queue_count
from broker.transactions.checks import TransactionChecks
from broker.transactions.service import Transactions
from model.event_log import EventLog, encode_events
from model.events import EventKind
from model.limits import RESERVE_CHECK_S, TRACE_FLUSH_INTERVAL_S
from model.message import Message, encode_payload, tag_hash
from model.names import TRACE_TOPIC
from model.record import FlushMode
from model.replica_limits import REPLICATION_TIMEOUT_S, VERSIONS_OF_EPOCH
from model.topic_route import TopicConfig
from remoting.command import Command, Reply
from remoting.connection import Connection
from remoting.deadline_driver import DeadlineDriver
from remoting.request_code import RequestCode
from remoting.server import Handler, RemotingServer, serve
from remoting.tasks import background_tasks
from rocketmq.dialects import broker_dialects

logger = logging.getLogger(__name__)

_DATA_ID_BITS = 62  # both SQLite and msgpack store it as it is
_TRACE_EVENTS_PER_MESSAGE = 1_000
"""A message of the trace has to fit a record and a frame, however long the names in it are."""


class Broker(Feature):
    """One broker: its features, and what an operator asks of it as a whole.

    Attributes:
        features: calls the hooks of all features.
        topics, groups, leases: with their pure tables, for tests and embedded use, as the rooms below.
        barrier: writes at the end of each event-loop iteration.
        driver: acts on the deadlines of all features.
        events: what happened here.
        shares: what one user may have of each table.
    """

    def __init__(
        self, config: BrokerConfig, store: MessageStore, metadata: MetadataStore, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.config, self.loop = config, loop
        self.store, self.metadata = store, metadata
        self._started_at = self._check_at = loop.time()
        run = self._begin_run()
        self.events = EventLog(config.name, config.clock_ms, sink=config.event_sink, buffered=config.trace, run=run)
        self.features = features = Features()
        self.driver = DeadlineDriver(features.next_deadline, features.expire, reads_first=True)
        self.barrier = WriteBarrier(loop, store, metadata, features.queue_changed, config.flush)
        self.shares = shares_of_broker(config.name, loop)
        core = Core(
            *(loop, config.name, config.quirks, config.clock_ms, store, metadata),
            *(self.barrier, self.events, self.driver, features, config.access is not None, self.shares),
        )
        add = features.add
        add(self)
        announcement = self._announcement(is_first_run=run == 0)
        topics = self.topics = add(
            Topics(core, announcement, auto_create=config.auto_create_topics, recover_topics=config.recover_topics)
        )
        self.damage = add(DamageReports(core, topics, config.data_dir))
        ahead = 0 if config.replicator is None else VERSIONS_OF_EPOCH
        groups = self.groups = add(Groups(core, config.restore_grace_s, versions_ahead=ahead))
        settings = add(StoredGroupSettings(core, topics, groups))
        add(GroupHandlers(core, topics, groups, settings))
        add(MemberRequestRelay(core, topics, groups))
        leases = self.leases = add(Leases(core, topics, groups, tokens_ahead=ahead))
        access = self.pull_access = add(PullAccess(core, groups, leases, settings))
        add(Locks(core, topics, groups, leases, add(LeaseHandlers(core, topics, groups, leases)).lock))
        add(ResetHandlers(core, topics, groups, leases))
        add(GroupStatsHandlers(core, topics, groups, leases, settings))
        if Part.ASSIGNMENT in config.parts:
            self.assignment = add(Assignment(core, topics, groups))
        self.delays = add(Delays(core, topics))
        add(SendBack(core, topics, self.delays, settings))
        add(Recalls(core, topics, self.delays))
        add(DeadLetters(core, topics))
        transactions = None
        if Part.TRANSACTIONS in config.parts:
            transactions = self.transactions = add(Transactions(core, topics, groups, config.transactions))
            add(TransactionChecks(core, topics, groups, transactions))
        add(Sends(core, topics, self.delays))
        self.pulls = add(Pulls(core, topics, leases.moves, access))
        add(Queries(core, topics, self.delays, transactions, config.files, config.data_dir))
        if Part.POP in config.parts:
            self.pop = add(Pop(core, topics, groups, leases, settings, config.rng))
        if Part.SINK in config.parts:
            self.sink = add(Sink(core, topics))
            add(SinkHandlers(core, topics, self.sink))
        # Groups whose offsets are lost may need any message, and the broker cannot know which.
        self.retention = None
        if Part.RETENTION in config.parts and not topics.recreated:
            self.retention = add(Retention(core, topics, groups, leases, config.retention, config.files))
        metadata.commit()
        if config.replicator is not None:
            self.barrier.replicate(add(config.replicator(core)))

    def _begin_run(self) -> int:
        """Count this run, and return how many there were before; committed with what the features store at the start.

        All replicas have the same data id, because commits name a topic by its topic id and the data id.
        """
        runs, data_id = (StoredNumber(self.metadata, name, replicated=True) for name in ("runs", "data_id"))
        self._data_id = data_id.read() or self.config.rng.getrandbits(_DATA_ID_BITS)
        data_id.save(self._data_id)
        runs.save((run := runs.read()) + 1)
        return run

    def _announcement(self, *, is_first_run: bool) -> Announcement:
        replica = self.config.replica or Mastership(0, 0, 0, 0)
        return Announcement(
            name=self.config.name,
            key=self.config.key,
            cluster=self.config.cluster,
            broker_id=self.config.broker_id,
            name_servers=self.config.name_servers,
            advertise=self.config.advertise,
            register_interval_s=self.config.register_interval_s,
            expiry_s=self.config.expiry_s,
            version=int(self.config.clock_ms()),
            is_first_run=is_first_run,
            data_id=self._data_id,
            set_id=replica.set_id,
            epoch=replica.epoch,
            replica_id=replica.replica_id,
            role="master" if replica.set_id else "",
        )

    def handlers(self) -> dict[RequestCode, Handler]:
        """Request code -> handler."""
        return {
            RequestCode.GET_BROKER_RUNTIME_INFO: self.runtime_info,
            RequestCode.GET_SERVER_STATE: self.server_state,
        }

    def restore_reserve(self) -> None:
        """Allocate the reserve of the disk again, now that everything is open."""
        self.store.reserve.on_missing = self._disk_full
        self.store.reserve.allocate()

    def _disk_full(self) -> None:
        logger.warning(
            "broker %s: the disk is full: it serves reads and commits, and refuses sends until %g MiB are free",
            *(self.config.name, self.config.store.reserve_bytes / MIB),
        )
        self._check_at = self.loop.time() + RESERVE_CHECK_S
        self.driver.wake_by(self._check_at)

    def next_deadline(self) -> float | None:
        """When to look whether there is room for the reserve again."""
        return self._check_at if self.store.reserve.is_missing else None

    def expire(self, now: float) -> None:
        """Allocate the reserve of the disk, if it is missing and there is room."""
        if now < self._check_at or not self.store.reserve.is_missing:
            return
        self._check_at = now + RESERVE_CHECK_S
        if self.store.reserve.allocate():
            logger.warning("broker %s: there is room on the disk again, sends are accepted", self.config.name)

    def access_refused(self, peer: str, user: str, text: str) -> None:
        """Record a refusal of the gate as an event."""
        detail = f"{user} {text}"[:300]
        self.events.emit(EventKind.ACCESS_REFUSED, broker=self.config.name, client=peer, detail=detail)

    @property
    def uptime_s(self) -> float:
        """Seconds since the start."""
        return self.loop.time() - self._started_at

    def runtime_info(self, connection: Connection, request: Command) -> Reply:
        """Counters of this broker."""
        only = request.header.get("topic")
        configs = [config for config in self.topics.table.configs() if only in (None, config.topic)]
        with_times = bool(request.header.get("times"))
        info: dict[str, Any] = {
            "name": self.config.name,
            "cluster": self.config.cluster,
            "uptime_s": self.uptime_s,
            "topics": [[*config.to_wire(), self._ranges(config, with_times=with_times)] for config in configs],
            "message_types": {config.topic: int(config.message_type) for config in configs if config.message_type},
            "damaged": {config.topic: ranges for config in configs if (ranges := self.damage.of_topic(config))},
            **dict.fromkeys(("groups", "held_pulls", "held_pops", "pop_messages", "producers"), 0),
            **self.features.stats(),
            "events_dropped": self.events.dropped,
            "now_ms": self.config.clock_ms(),
            **self._disk(),
            "quirks": sorted(quirk.value for quirk in self.config.quirks),
        }
        return Reply({}, msgpack.packb(info))

    def _disk(self) -> dict[str, Any]:
        """The file system that holds the data directory, if it has figures, and the reasons that keep old segments."""
        figures: dict[str, Any] = {"disk_full": self.store.reserve.is_missing, **self.barrier.disk.figures()}
        if self.retention is not None and (held_log := self.retention.held).segments:
            figures |= {"log_held_bytes": held_log.size_bytes, "log_held_by": f"{held_log.text}; {held_log.remedy}"}
        try:
            usage = shutil.disk_usage(self.config.data_dir)
        except OSError:
            return figures
        return {**figures, "disk_free_bytes": usage.free, "disk_total_bytes": usage.total}

    def _ranges(self, config: TopicConfig, *, with_times: bool) -> list[list[int]]:
        """[min offset, max offset] of every queue of a topic, and when its last message was stored, 0 without one."""
        store, topic_id = self.store, self.topics.table.existing(config.topic).topic_id
        limits = [[store.min_offset(topic_id, n), store.max_offset(topic_id, n)] for n in range(queue_count(config))]
        for queue_id, row in enumerate(limits if with_times else ()):
            last = store.read_one(topic_id, queue_id, row[1] - 1)
            row.append(0 if last is None else last.stored_ms)
        return limits

    def server_state(self, connection: Connection, request: Command) -> Reply:
        """Health: which server this is, and how long it runs."""
        return Reply({"kind": "broker", "name": self.config.name, "uptime_s": self.uptime_s})

    # --- trace -------------------------------------------------------------------------------------------------------

    def store_trace(self) -> None:
        """Append the events since the last call to the topic SYS_TRACE of this broker."""
        events = self.events.remove_all()
        if not events:
            return
        topic_id, now_ms = self.topics.table.existing(TRACE_TOPIC).topic_id, int(self.config.clock_ms())
        for start in range(0, len(events), _TRACE_EVENTS_PER_MESSAGE):
            part = events[start : start + _TRACE_EVENTS_PER_MESSAGE]
            message = Message(TRACE_TOPIC, encode_events(part), tags="broker")
            self.store.append(topic_id, 0, encode_payload(message, now_ms, part[0].id), tag_hash(message.tags))
        self.barrier.after_append(
            lambda failure: self.events.requeue(events) if failure is not None else None, TRACE_TOPIC, 0
        )


@dataclass(frozen=True, slots=True)
class RunningBroker:
    """A broker that listens."""

    name: str
    address: str  # `host:port` that it listens on, with the real port
    broker: Broker  # its tables, for tests and embedded use
    server: RemotingServer
    recovery_s: float  # how long it took to open its files, in seconds; `broker.store.recovery` has what that had to do


@asynccontextmanager
async def run_broker(config: BrokerConfig) -> AsyncIterator[RunningBroker]:
    """Run a broker while the block runs.

    Yields:
        The broker, already listening; it registers with its name servers in the background.

    Raises:
        ConfigError: the data directory or the address cannot be used; the text says what to do.
        StoreLockLost: the file that locks the data directory was removed or replaced while the block ran.

    Cancellation: the broker stops as at the end of the block: unregistered, written, closed.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    with _open_store(config) as store, _open_metadata(config, store) as metadata:
        if config.flush is FlushMode.SYNC:
            store.show_only_synced()
        with metadata.loading():
            broker = Broker(config, store, metadata, loop)
        broker.restore_reserve()
        recovery_s = loop.time() - began
        stopping = False

        def closed(connection: Connection) -> None:
            # The members of a stopping broker have not left: they return to it, or to its next run.
            if not stopping:
                broker.features.connection_closed(connection)

        try:
            async with _serve(broker, closed) as server, background_tasks() as tasks:
                broker.events.emit(EventKind.BROKER_UP, broker=config.name, detail=server.address)
                broker.damage.report_start()
                tasks.start_soon(broker.driver.run)
                tasks.start_soon(watch_lock, store, metadata)
                if config.flush is FlushMode.ASYNC:
                    tasks.start_soon(sync_regularly, store, broker.barrier, config.name)
                if config.trace:
                    tasks.start_soon(_store_trace, broker)
                broker.topics.registration.start(tasks, server.address)
                logger.info("broker %s listens on %s", config.name, server.address)
                try:
                    yield RunningBroker(config.name, server.address, broker, server, recovery_s)
                finally:
                    stopping = True
                    with anyio.CancelScope(shield=True):
                        await broker.topics.registration.stop()
                        if broker.barrier.replication is not None and broker.barrier.replication.ended is None:
                            broker.features.close()  # stores what the replicas should have as well
                            await broker.barrier.wait_committed(REPLICATION_TIMEOUT_S)
                    broker.barrier.close()  # while there are connections to answer over
        finally:
            broker.events.emit(EventKind.BROKER_DOWN, broker=config.name, detail="stop")
            if config.trace:
                broker.store_trace()
            if broker.barrier.replication is None or broker.barrier.replication.ended is None:
                broker.features.close()  # of a deposed master nothing is stored, and events must not record that it was
            broker.barrier.close()
            logger.info("broker %s stopped", config.name)


def _serve(broker: Broker, closed: Callable[[Connection], None]) -> AbstractAsyncContextManager[RemotingServer]:
    config, replication, handlers = broker.config, broker.barrier.replication, broker.features.handlers()
    facts = BrokerFacts(config.name, config.clock_ms, broker.topics.table)
    return serve(
        handlers if replication is None else guard_handlers(handlers, replication),
        config.listen,
        on_closed=closed,
        max_connections=config.max_connections,
        max_connections_of_address=config.max_connections_of_address,
        dialects=broker_dialects(facts) if config.rocketmq else (),
        connection_class=config.connection_class,
        access=config.access,
        tls=config.tls,
        grpc_tls=config.grpc_tls,
        guarded=broker.features,
    )


def _open_store(config: BrokerConfig) -> MessageStore:
    mastership, clock_ms = config.replica, config.clock_ms
    if mastership is None:
        check_alone(config.data_dir)
    epoch = None if mastership is None else (mastership.epoch, mastership.replica_id)
    return MessageStore.open(config.data_dir, config.store, lambda: int(clock_ms()), config.files, epoch=epoch)


def _open_metadata(config: BrokerConfig, store: MessageStore) -> MetadataStore:
    if not config.recover_topics and not metadata_exists(config.data_dir):
        # Before an empty file is made in the place of the one that may be put back.
        unknown_topics = lost_topics(store.queues(), (), 0)
        if unknown_topics:
            raise metadata_missing(config.data_dir / METADATA_NAME, unknown_topics)
    return MetadataStore(config.data_dir, flush=config.flush, files=config.files)


async def _store_trace(broker: Broker) -> None:
    while True:
        await anyio.sleep(TRACE_FLUSH_INTERVAL_S)
        broker.store_trace()
