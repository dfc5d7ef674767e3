"""Runs pulls, and holds those that find nothing. RocketMQ: PullMessageProcessor, PullRequestHoldService.

A held pull costs no task: it waits in the long-poll table, and is run again when a message for its queue is written,
when somebody else is granted its queue, and when its time is over. What it is answered then is what a pull of that
moment would be answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from broker.groups.table import GroupTable
from broker.leases.offset_moves import OffsetMoves
from broker.leases.table import QueueKey, QueueLocks
from broker.messages.long_polls import HeldPull, LongPollTable
from broker.store.message_store import MessageStore
from broker.store.read_result import ReadResult, ReadStatus
from broker.topics.table import TopicTable, check_readable
from model.errors import LeaseLost, RlabError
from model.limits import MAX_PULL_BYTES
from model.response_code import ResponseCode
from remoting.command import Command, Reply
from remoting.connection import Connection

_CODES = {
    ReadStatus.NO_NEW: int(ResponseCode.PULL_NOT_FOUND),
    ReadStatus.NONE_MATCHED: int(ResponseCode.PULL_RETRY_IMMEDIATELY),
    ReadStatus.OFFSET_TOO_SMALL: int(ResponseCode.PULL_OFFSET_MOVED),
    ReadStatus.OFFSET_TOO_BIG: int(ResponseCode.PULL_OFFSET_MOVED),
}
"""How a pull that brings no message is answered. RocketMQ: PullMessageProcessor.composeResponseHeader."""

_MOVED = (ReadStatus.OFFSET_TOO_SMALL, ReadStatus.OFFSET_TOO_BIG)

SKIPPED_HOLD_S = 1.0
"""How long a pull is held that has skipped messages; then the consumer is told how far nothing matches."""


class PullService:
    """The pulls of one broker.

    Args:
        loop: the running loop.
        store: where messages are.
        topics: which queues can be read.
        groups: members that a pull under a lease keeps alive.
        locks: leases that a pull may name.
        moves: told of pulls at offsets where nothing is stored any more.
        wake_by: called with the deadline of each pull that is held, loop time in seconds.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        store: MessageStore,
        topics: TopicTable,
        groups: GroupTable,
        locks: QueueLocks,
        moves: OffsetMoves,
        wake_by: Callable[[float], None],
    ) -> None:
        self._loop = loop
        self._store = store
        self._topics = topics
        self._groups = groups
        self._locks = locks
        self._moves = moves
        self._wake_by = wake_by
        self._held: LongPollTable[Connection] = LongPollTable()

    @property
    def held_count(self) -> int:
        """How many pulls are held."""
        return len(self._held)

    def pull(self, connection: Connection, request: Command) -> Reply | None:
        """Answer a pull, or hold it."""
        header = request.header
        now = self._loop.time()
        if header.get("token") is not None:
            # Here and not in `_run`: that a message arrived for a held pull is no sign of life of whoever sent it.
            self._groups.touch(header["group"], header.get("client_id") or "", now)
        suspend_ms = header["suspend_ms"]
        return self._run(connection, request, now + suspend_ms / 1000 if suspend_ms else None)

    def rerun(self, topic: str, queue_id: int) -> None:
        """Run the held pulls of a queue again: there is something new, or their lease may be gone."""
        for held in self._held.take_queue(topic, queue_id):
            self._run_again(held, held.deadline)

    def expire(self, now: float) -> None:
        """Answer the held pulls whose time is over."""
        for held in self._held.expire(now):
            self._run_again(held, None)

    def next_deadline(self) -> float | None:
        """When to call `expire` next, or None."""
        return self._held.next_deadline()

    def connection_closed(self, connection: Connection) -> None:
        """Forget the pulls of a connection that is gone."""
        self._held.take_connection(connection)

    def _run_again(self, held: HeldPull[Connection], hold_until: float | None) -> None:
        connection, request = held.connection, held.request
        try:
            reply = self._run(connection, request, hold_until)
        except RlabError as error:
            connection.respond_error(request, error)
        else:
            if reply is not None:
                connection.respond(request, reply.header, reply.body, reply.code)

    def _run(self, connection: Connection, request: Command, hold_until: float | None) -> Reply | None:
        header = request.header
        topic, queue_id = header["topic"], header["queue_id"]
        entry = self._topics.existing(topic)
        if queue_id >= entry.serves_below:
            check_readable(entry.config, queue_id)
        if header.get("token") is not None:
            queue = QueueKey(topic, queue_id)
            if not self._locks.check(header["group"], queue, header.get("client_id") or "", header["token"]):
                raise LeaseLost(
                    f"{topic}:{queue_id} of group {header['group']!r} is leased to another member, or to nobody, by now"
                )
        hashes = header.get("tag_hashes")
        result = self._store.read(
            entry.topic_id,
            queue_id,
            header["offset"],
            max_n=header["max_n"],
            max_bytes=MAX_PULL_BYTES,
            tag_hashes=None if hashes is None else frozenset(hashes),
        )
        if result.status in _MOVED:
            self._moves.note(header, result, self._loop.time())
        if hold_until is None or result.status not in (ReadStatus.NO_NEW, ReadStatus.NONE_MATCHED):
            return _reply(result)
        if result.next_offset < result.max_offset:
            # There is more to look through than one read may: the next request goes on, and others get their turn.
            return _reply(result)
        if result.status is ReadStatus.NONE_MATCHED:
            # Held on from behind what the filter refused, or each such message would cost the consumer a round trip;
            # but not for long, because it commits only what it knows to be behind it.
            request = request._replace(header={**header, "offset": result.next_offset})
            hold_until = min(hold_until, self._loop.time() + SKIPPED_HOLD_S)
        self._held.hold(HeldPull(connection, request, (topic, queue_id), hold_until))
        self._wake_by(hold_until)
        return None


def _reply(result: ReadResult) -> Reply:
    header: dict[str, int | str] = {
        "next_offset": result.next_offset,
        "min_offset": result.min_offset,
        "max_offset": result.max_offset,
    }
    if result.status is ReadStatus.FOUND:
        return Reply(header, result.body)
    header["remark"] = result.status.value
    return Reply(header, None, _CODES[result.status])
