"""Broker: the tables of one broker and what ties them together. Its requests are handled in `broker/*_handlers.py`.

Everything here runs on one event loop and never awaits, so every handler sees the tables in a consistent state.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from broker.config import BrokerConfig
from broker.group_table import GroupTable, Leave
from broker.long_poll_table import LongPollTable
from broker.metadata_store import MetadataStore
from broker.offset_table import OffsetTable
from broker.queue_locks import Freed, QueueLocks
from broker.store.message_store import MessageStore
from broker.topic_table import TopicEntry, TopicTable
from broker.write_barrier import WriteBarrier
from model.event_log import EventLog, encode_events
from model.events import EventKind
from model.message import Message, encode_payload
from model.names import TRACE_TOPIC
from model.quirks import Quirk
from remoting.command import Command
from remoting.connection import Connection
from remoting.deadline_driver import DeadlineDriver
from remoting.request_code import RequestCode

LOCK_MAX_LIVE_S = 60.0
"""How long a dead member's leases live on under `Quirk.LOCKS_SURVIVE_CLOSE`. RocketMQ: lockMaxLiveTime."""


class Broker:
    """The state of one broker.

    Args:
        config: its options.
        store: open message store.
        metadata: open metadata store.
        loop: the running loop.

    Attributes:
        topics, groups, locks, offsets, held: the pure tables.
        barrier: writes at the end of each loop turn.
        driver: acts on the deadlines of the tables.
        events: what happened here.
        producers: connection number -> producer groups that it announced.
        find_connection: connection number -> open connection; set by the server.
        rerun_held: runs the held pulls of a queue again; set by the pull handlers.
        expire_held: answers a held pull whose time is over; set by the pull handlers.
        topics_changed: called when the name servers have to be told; set by the registration.
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
        self.locks = QueueLocks(first_token=int(config.clock_ms()) * 1000)
        self.offsets = OffsetTable(quirks=config.quirks)
        self.held = LongPollTable()
        self.events = EventLog(config.name, config.clock_ms, sink=config.event_sink, buffered=config.trace)
        self.producers: dict[int, tuple[str, ...]] = {}
        self.find_connection: Callable[[int], Connection | None] = lambda number: None
        self.rerun_held: Callable[[str, int], None] = lambda topic, queue_id: None
        self.expire_held: Callable[[int, Command], None] = lambda number, request: None
        self.topics_changed: Callable[[str], None] = lambda cause: None
        self.barrier = WriteBarrier(loop, store, metadata, self._new_messages)
        self.driver = DeadlineDriver(self._next_deadline, self._act)
        self._started_at = loop.time()
        self._load()

    def _load(self) -> None:
        expires_at = self.loop.time() + self.config.restore_grace_s
        self.metadata.load(self.topics, self.groups, self.locks, self.offsets, expires_at=expires_at)
        for entry in self.topics.add_system_topics():
            self.metadata.save_topic(entry)
        for info in self.groups.groups():
            self.metadata.save_group(info.group, info.version, info.created_ms)
        self.metadata.commit()

    @property
    def uptime_s(self) -> float:
        """Seconds since the start."""
        return self.loop.time() - self._started_at

    # --- topics ------------------------------------------------------------------------------------------------------

    def topic_changed(self, entry: TopicEntry, cause: str = "") -> str:
        """Store a new or changed topic and tell the name servers; returns the cause to hand on."""
        config = entry.config
        self.metadata.save_topic(entry)
        self.barrier.metadata_changed()
        cause = self.events.emit(
            EventKind.ROUTE_CHANGED,
            cause=cause,
            topic=config.topic,
            broker=self.config.name,
            n=config.read_queue_nums,
            detail=f"read={config.read_queue_nums} write={config.write_queue_nums} perm={int(config.perm)}",
        )
        self.topics_changed(cause)
        return cause

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
        now = self.loop.time()
        grace_s = LOCK_MAX_LIVE_S if Quirk.LOCKS_SURVIVE_CLOSE in self.config.quirks else 0.0
        self.queues_freed(self.locks.orphan(group, client_id, now=now, grace_s=grace_s), cause, leave.reason.value)
        self.driver.wake_by(now + grace_s)

    def connection_closed(self, connection: Connection) -> None:
        """Note that a connection is gone, however it went."""
        self.producers.pop(connection.number, None)
        self.held.take_connection(connection.number)
        now = self.loop.time()
        cause = self.events.next_id()
        for leave in self.groups.connection_closed(connection.number, cause_of=cause, now=now):
            self.member_left(leave, cause)
        self.notify_members(now)

    def notify_members(self, now: float) -> None:
        """Tell the members of every group that changed, as far as their window allows. RocketMQ: ConsumerIdsChange."""
        for info in self.groups.take_notifications(now):
            without_version = Quirk.NOTIFY_WITHOUT_VERSION in self.config.quirks
            header = {"group": info.group, "version": -1 if without_version else info.version, "cause": info.cause}
            sent = 0
            for member in info.members.values():
                connection = self.find_connection(member.connection)
                if connection is not None:
                    sent += connection.notify(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, header)
            self.events.emit(
                EventKind.NOTIFY_SENT,
                cause=info.cause,
                group=info.group,
                broker=self.config.name,
                version=info.version,
                n=sent,
            )
        self._wake(self.groups.next_deadline())

    def queues_freed(self, freed: list[Freed], cause: str, detail: str) -> None:
        """Announce queues that became free to whoever was refused, and answer pulls held under the old lease."""
        waiting: dict[tuple[str, str], int] = {}
        for group, queue, owner, token, waiters in freed:
            self.metadata.delete_lease(group, queue)
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
            self.rerun_held(queue.topic, queue.queue_id)
        for (group, client_id), n in waiting.items():
            info = self.groups.get(group)
            member = info.members.get(client_id) if info is not None else None
            connection = self.find_connection(member.connection) if member is not None else None
            if connection is not None:
                connection.notify(RequestCode.NOTIFY_QUEUES_RELEASED, {"group": group, "n": n, "cause": cause})
        if freed:
            self.barrier.metadata_changed()

    # --- deadlines ---------------------------------------------------------------------------------------------------

    def _next_deadline(self) -> float | None:
        deadlines = (self.groups.next_deadline(), self.locks.next_deadline(), self.held.next_deadline())
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def _wake(self, deadline: float | None) -> None:
        if deadline is not None:
            self.driver.wake_by(deadline)

    def _act(self, now: float) -> None:
        # A timer may fire a clock resolution early.
        now += 1e-6
        cause = self.events.next_id()
        for leave in self.groups.expire(now, cause_of=cause):
            self.member_left(leave, cause)
        self.queues_freed(self.locks.expire(now), cause, "expiry")
        self.notify_members(now)
        for pull in self.held.expire(now):
            self.expire_held(pull.connection, pull.request)

    def _new_messages(self, topic: str, queue_id: int) -> None:
        self.rerun_held(topic, queue_id)

    # --- trace -------------------------------------------------------------------------------------------------------

    def store_trace(self) -> None:
        """Append the events since the last call to the topic SYS_TRACE of this broker, as one message."""
        events = self.events.take()
        if not events:
            return
        entry = self.topics.existing(TRACE_TOPIC)
        now_ms = int(self.config.clock_ms())
        message = Message(TRACE_TOPIC, encode_events(events), tags="broker")
        payload = encode_payload(message, now_ms, events[0].id)
        self.store.append(entry.topic_id, 0, payload, 0)
        self.barrier.after_write(
            lambda failure: self.events.put_back(events) if failure is not None else None, (TRACE_TOPIC, 0)
        )
