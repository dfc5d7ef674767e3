"""Broker: the tables of one broker and what ties them together. Its requests are handled in `broker/*_handlers.py`.

Everything here runs on one event loop and never awaits, so every handler sees the tables in a consistent state.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from broker.assignment.group_assignments import GroupAssignments
from broker.assignment.modes import RequestModeStore
from broker.config import BrokerConfig
from broker.durability.barrier import WriteBarrier
from broker.durability.metadata import MetadataStore
from broker.feature import Core, Features
from broker.groups.table import GroupTable, Leave
from broker.groups.watch import GroupWatch
from broker.leases.offset_moves import OffsetMoves
from broker.leases.offsets import OffsetTable
from broker.leases.reconcile import drop_unknown_topics, lower_offsets
from broker.leases.table import Freed, QueueLocks
from broker.messages.pull import Pulls
from broker.pop.service import PopService
from broker.retry.dead_letters import DeadLetters
from broker.retry.delays import Delays
from broker.sink.broker_sets import SinkBrokerSets
from broker.sink.service import SinkService
from broker.sink.store import SinkStore
from broker.store.message_store import MessageStore
from broker.topics.registration import Registration
from broker.topics.table import TopicEntry, TopicTable, queue_count
from model.assignment import BROKER_STRATEGY, RequestMode
from model.event_log import EventLog, encode_events
from model.events import EventKind
from model.heartbeat import ConsumeType
from model.message import Message, encode_payload, tag_hash
from model.names import TRACE_TOPIC
from model.quirks import Quirk
from remoting.connection import Connection
from remoting.deadline_driver import DeadlineDriver
from remoting.wire.request_code import RequestCode

LOCK_MAX_LIVE_S = 60.0
"""How long a dead member's leases live on under `Quirk.LOCKS_SURVIVE_CLOSE`. RocketMQ: lockMaxLiveTime."""

_TRACE_EVENTS_PER_MESSAGE = 1_000
"""A message of the trace has to fit a record and a frame, however long the names in it are."""


class Client(NamedTuple):
    """Whoever sent a heartbeat over an open connection."""

    connection: Connection
    producer_groups: tuple[str, ...]


class Broker:
    """The state of one broker.

    Args:
        config: its options.
        store: open message store.
        metadata: open metadata store.
        loop: the running loop.

    Attributes:
        topics, groups, locks, offsets, assignments: the pure tables.
        moves: tells of pulls behind what was deleted.
        pulls: runs pulls, and holds those that find nothing.
        pops: the same for pops, and keeps what is in flight.
        barrier: writes at the end of each loop turn.
        driver: acts on the deadlines of the tables.
        registration: keeps the name servers up to date.
        request_modes: keeps how groups get messages.
        delays: delivers messages when their time has come.
        sinks: publishes what sinks have staged.
        spreads: among which brokers each batch of theirs is spread.
        events: what happened here.
        group_watch: tells what is wrong with groups.
        clients: connection number -> client, of those that have sent a heartbeat.
        features: the features whose hooks are called, in their order.
        core: what features are made from.
    """

    def __init__(
        self, config: BrokerConfig, store: MessageStore, metadata: MetadataStore, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.config = config
        self.store = store
        self.metadata = metadata
        self.loop = loop
        self.topics = TopicTable(auto_create=config.auto_create_topics)
        self.groups = GroupTable(quirks=config.quirks)
        # Tokens have to grow over restarts even where no lease was stored: the clock in milliseconds leaves room for
        # a thousand grants a millisecond.
        self.locks = QueueLocks(first_token=int(config.clock_ms()) * 1000, quirks=config.quirks)
        self.offsets = OffsetTable(quirks=config.quirks)
        self.assignments = GroupAssignments()
        self.request_modes = RequestModeStore(metadata)
        run = metadata.number("runs")
        metadata.save_number("runs", run + 1)  # stored with what else `_load` finds
        self.events = EventLog(config.name, config.clock_ms, sink=config.event_sink, buffered=config.trace, run=run)
        self.group_watch = GroupWatch(config.name, self.events)
        self.clients: dict[int, Client] = {}
        self.driver = DeadlineDriver(self._next_deadline, self._act)
        self.moves = OffsetMoves(config.name, self.events)
        self.features = Features()
        self.barrier = WriteBarrier(loop, store, metadata, self.new_messages, config.flush)
        self.core = Core(
            *(loop, config.name, config.quirks, config.clock_ms, store, metadata),
            *(self.barrier, self.events, self.driver, self.features),
        )
        self.pulls = self.features.add(Pulls(self.core, self.topics, self.groups, self.locks, self.moves))
        self.registration = Registration(config, self.topics)
        self._lock_grace_s = LOCK_MAX_LIVE_S if Quirk.LOCKS_SURVIVE_CLOSE in config.quirks else 0.0
        self._started_at = loop.time()
        self.pops = PopService(self, config.rng)
        self._load()
        self.delays = self.features.add(Delays(self.core, self.topics))
        self.features.add(DeadLetters(self.core, self.topics))
        self.spreads = SinkBrokerSets(metadata, config.clock_ms)
        self.sinks = SinkService(loop, store, SinkStore(metadata), self.topics, self.barrier, config.clock_ms)

    def _load(self) -> None:
        """Take over what earlier runs stored."""
        now = self.loop.time()
        self.metadata.load(
            self.topics,
            self.groups,
            self.locks,
            self.offsets,
            now_ms=int(self.config.clock_ms()),
            expires_at=now + self.config.restore_grace_s,
        )
        self.request_modes.load(self.assignments)
        lower_offsets(self.store, self.metadata, self.topics, self.offsets)
        drop_unknown_topics(self.store, self.metadata, self.topics)
        self.pops.restore()
        for group, client_id in self.locks.owners():
            info = self.groups.get(group)
            if info is None or client_id not in info.members:
                # It left before the restart, and its leases were to live on for a grace: nothing else would free them.
                self._orphan(group, client_id, self.events.next_id(), "restart")
        for entry in self.topics.add_system_topics():
            self.metadata.save_topic(entry)
        self.metadata.commit()

    @property
    def uptime_s(self) -> float:
        """Seconds since the start."""
        return self.loop.time() - self._started_at

    def new_messages(self, topic: str, queue_id: int) -> None:
        """Look for whoever waits for messages of a queue that has new ones."""
        self.features.queue_changed(topic, queue_id)
        self.pops.wake(topic, queue_id)

    # --- topics ------------------------------------------------------------------------------------------------------

    def topic_changed(self, entry: TopicEntry, cause: str = "") -> None:
        """Store a new or changed topic and tell the name servers."""
        config = entry.config
        self.metadata.save_topic(entry)
        self.route_changed(
            config.topic,
            config.read_queue_nums,
            f"read={config.read_queue_nums} write={config.write_queue_nums} perm={int(config.perm)}",
            cause,
        )

    def delete_topic(self, topic: str, cause: str) -> None:
        """Forget a topic with its messages, offsets and leases, and tell the name servers.

        Raises:
            TopicNotExist: it is not there.
            IllegalOperation: it is a system topic.
        """
        entry = self.topics.delete(topic)
        self.metadata.delete_topic(topic)
        self.offsets.delete_topic(topic)
        self.locks.forget_topic(topic)
        self.pops.forget_topic(topic)
        self.features.topic_deleted(topic, cause)
        self.store.drop_topic(entry.topic_id)
        self.route_changed(topic, 0, "deleted", cause)
        for queue_id in range(queue_count(entry.config)):
            self.features.queue_changed(topic, queue_id)

    def route_changed(self, topic: str, read_queue_nums: int, detail: str, cause: str) -> None:
        """Write what changed about a topic, and tell the name servers."""
        self.barrier.metadata_changed()
        cause = self.events.emit(
            EventKind.ROUTE_CHANGED,
            cause=cause,
            topic=topic,
            broker=self.config.name,
            n=read_queue_nums,
            detail=detail,
        )
        self.registration.changed(cause)

    # --- members -----------------------------------------------------------------------------------------------------

    def member_left(self, leave: Leave, cause: str) -> None:
        """Note that a member left: its event, its leases, its place in the stored state."""
        group, client_id = leave.group.group, leave.member.client_id
        self.events.emit(
            EventKind.MEMBER_LEAVE,
            cause=cause,
            group=group,
            broker=self.config.name,
            client=client_id,
            version=leave.group.version,
            n=len(leave.group.members),
            detail=leave.reason.value,
        )
        self.metadata.delete_member(group, client_id)
        self.metadata.save_group(group, leave.group.version, leave.group.created_ms)
        self.barrier.metadata_changed()
        self._orphan(group, client_id, cause, leave.reason.value)
        self.pops.look_again(group)
        if not leave.group.members:
            self.assignments.forget(group)
        self.features.member_left(group, client_id, cause, leave.reason.value)
        self.group_watch.look(leave.group, cause)

    def _orphan(self, group: str, client_id: str, cause: str, detail: str) -> None:
        now = self.loop.time()
        freed = self.locks.orphan(group, client_id, now=now, grace_s=self._lock_grace_s)
        self.queues_freed(freed, cause, detail)
        self.driver.wake_by(now + self._lock_grace_s)

    def connection_closed(self, connection: Connection) -> None:
        """Note that a connection is gone, however it went; its members leave when they are not back after a grace."""
        self.clients.pop(connection.number, None)
        self.features.connection_closed(connection)
        self.pops.connection_closed(connection)
        if self.groups.connection_closed(connection.number, self.loop.time()):
            self.driver.wake_by(self.groups.next_deadline() or self.loop.time())

    def notify_members(self, now: float) -> None:
        """Tell the members of every group that changed, as far as their window allows. RocketMQ: ConsumerIdsChange."""
        for info in self.groups.take_notifications(now):
            without_version = Quirk.NOTIFY_WITHOUT_VERSION in self.config.quirks
            header = {"group": info.group, "version": -1 if without_version else info.version, "cause": info.cause}
            sent = 0
            for member in info.members.values():
                client = self.clients.get(member.connection)
                if client is not None:
                    sent += client.connection.notify(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, header)
            self.events.emit(
                EventKind.NOTIFY_SENT,
                cause=info.cause,
                group=info.group,
                broker=self.config.name,
                version=info.version,
                n=sent,
            )
        deadline = self.groups.next_deadline()
        if deadline is not None:
            self.driver.wake_by(deadline)

    def queues_freed(self, freed: list[Freed], cause: str, detail: str) -> None:
        """Announce queues that became free to whoever was refused."""
        waiting: dict[tuple[str, str], int] = {}
        for group, queue, owner, token, waiters in freed:
            self.metadata.delete_lease(group, queue)
            self.barrier.metadata_changed()
            kind = EventKind.QUEUE_RELEASED if detail == "unlock" else EventKind.LOCK_EXPIRED
            self.events.emit(
                kind,
                cause=cause,
                group=group,
                topic=queue.topic,
                broker=self.config.name,
                queue_id=queue.queue_id,
                client=owner,
                version=token,
                detail=detail,
            )
            for client_id in waiters:
                waiting[(group, client_id)] = waiting.get((group, client_id), 0) + 1
            if not any(self._pulls(group, client_id, queue.topic) for client_id in waiters):
                self.pops.wake(*queue)
        self.tell_released(waiting, cause)

    def _pulls(self, group: str, client_id: str, topic: str) -> bool:
        """Whether a member that was refused a queue still wants it: the group may have gone over to POP since.

        If so pops are not woken: what they took would have to be ended before the member gets the queue.
        """
        info = self.groups.get(group)
        member = info.members.get(client_id) if info is not None else None
        if member is None or member.data.consume_type is ConsumeType.POP or topic not in member.subscriptions:
            return False
        by_broker = member.data.strategy == BROKER_STRATEGY
        return not by_broker or self.assignments.mode_of(group, topic).mode is RequestMode.PULL

    def tell_released(self, waiting: dict[tuple[str, str], int], cause: str) -> None:
        """Tell members that were refused queues how many of them are free now; (group, client id) -> how many."""
        for (group, client_id), n in waiting.items():
            info = self.groups.get(group)
            member = info.members.get(client_id) if info is not None else None
            client = self.clients.get(member.connection) if member is not None else None
            if client is not None:
                header = {"group": group, "n": n, "cause": cause}
                client.connection.notify(RequestCode.NOTIFY_QUEUES_RELEASED, header)

    # --- deadlines ---------------------------------------------------------------------------------------------------

    def _next_deadline(self) -> float | None:
        tables = (self.groups, self.locks, self.pops, self.features)
        deadlines = (table.next_deadline() for table in tables)
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def _act(self, now: float) -> None:
        cause = self.events.next_id()
        for leave in self.groups.expire(now, cause=cause):
            self.member_left(leave, cause)
        self.queues_freed(self.locks.expire(now), cause, "expiry")
        self.notify_members(now)
        self.features.expire(now)
        self.pops.expire(now)

    # --- trace -------------------------------------------------------------------------------------------------------

    def store_trace(self) -> None:
        """Append the events since the last call to the topic SYS_TRACE of this broker."""
        events = self.events.take()
        if not events:
            return
        topic_id, now_ms = self.topics.existing(TRACE_TOPIC).topic_id, int(self.config.clock_ms())
        for start in range(0, len(events), _TRACE_EVENTS_PER_MESSAGE):
            part = events[start : start + _TRACE_EVENTS_PER_MESSAGE]
            message = Message(TRACE_TOPIC, encode_events(part), tags="broker")
            self.store.append(topic_id, 0, encode_payload(message, now_ms, part[0].id), tag_hash(message.tags))
        self.barrier.after_append(
            lambda failure: self.events.put_back(events) if failure is not None else None, TRACE_TOPIC, 0
        )
