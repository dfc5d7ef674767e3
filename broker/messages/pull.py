"""Runs pulls, and parks those that find nothing. RocketMQ: PullMessageProcessor, PullRequestHoldService.

A parked pull costs no task: it waits in the table of parked requests (`broker/messages/parked.py`), and runs again when
a message for its queue is written, when another member is granted the lease of its queue, and when its time expires.
Its answer is the answer that a new pull would get at that moment.
"""

from __future__ import annotations

from typing import Any

from broker.feature import Core, CurrentRights, Feature
from broker.leases.leaseless.pull_access import PostponedPull, PullAccess
from broker.leases.offset_out_of_range import OffsetOutOfRangeReporter
from broker.leases.table import QueueKey
from broker.messages.matching import parse_filter, read_matching
from broker.messages.parked import ParkedRequest, ParkedRequests
from broker.messages.refused import refuse_parked
from broker.store.read_result import ReadResult, ReadStatus
from broker.topics.service import Topics
from broker.topics.table import TopicEntry, check_exists, check_readable
from model.errors import RlabError, SystemBusy
from model.limits import MAX_PARKED_REQUESTS, MAX_PARKED_REQUESTS_PER_QUEUE, MAX_PULL_BYTES
from model.response_code import ResponseCode
from model.topic_incarnation import TopicIncarnation
from remoting.command import Command, Reply
from remoting.connection import Connection
from remoting.overload.shares import find_sharer
from remoting.request_code import RequestCode
from remoting.server import Handler

_CODES = {
    ReadStatus.NO_NEW: int(ResponseCode.PULL_NOT_FOUND),
    ReadStatus.NO_MATCH: int(ResponseCode.PULL_RETRY_IMMEDIATELY),
    ReadStatus.OFFSET_TOO_SMALL: int(ResponseCode.PULL_OFFSET_MOVED),
    ReadStatus.OFFSET_TOO_BIG: int(ResponseCode.PULL_OFFSET_MOVED),
}
"""The response code of a pull without messages. RocketMQ: PullMessageProcessor.composeResponseHeader."""

_OFFSET_MOVED = (ReadStatus.OFFSET_TOO_SMALL, ReadStatus.OFFSET_TOO_BIG)

SKIPPED_PARK_S = 1.0
"""Longest time for which a pull that has skipped messages is parked; its answer has the offset after these."""


class Pulls(Feature):
    """The pulls of one broker, and the requests about the offsets of a queue."""

    def __init__(
        self,
        core: Core,
        topics: Topics,
        offset_moves: OffsetOutOfRangeReporter,
        access: PullAccess,
    ) -> None:
        self._access = access
        self._loop = core.loop
        self._clock_ms = core.clock_ms
        self._store = core.store
        self._refusal = core.barrier.refusal_of_parked
        self._wake_by = core.driver.wake_by
        self._topics = topics.table
        self._offset_moves = offset_moves
        self._parked: ParkedRequests[ParkedRequest[Connection]] = ParkedRequests(
            MAX_PARKED_REQUESTS, MAX_PARKED_REQUESTS_PER_QUEUE, core.shares
        )

    def handlers(self) -> dict[RequestCode, Handler]:
        """Request code -> handler."""
        return {
            RequestCode.PULL_MESSAGE: self.pull,
            RequestCode.PULL_MESSAGE_BY_SQL: self.pull,
            RequestCode.GET_MAX_OFFSET: self.max_offset,
            RequestCode.GET_MIN_OFFSET: self.min_offset,
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: self.search_offset,
        }

    def stats(self) -> dict[str, int]:
        """How many pulls are parked."""
        return {"held_pulls": len(self._parked)}

    # --- offsets of a queue ------------------------------------------------------------------------------------------

    def max_offset(self, connection: Connection, request: Command) -> Reply:
        """The offset that the next message gets, the `TopicIncarnation` of its topic, and the time."""
        topic_id, queue_id = self._queue(request)
        return Reply(
            {
                "offset": self._store.max_offset(topic_id, queue_id),
                "topic_id": topic_id,
                "data_id": self._topics.data_id,
                "now_ms": int(self._clock_ms()),
            }
        )

    def min_offset(self, connection: Connection, request: Command) -> Reply:
        """The lowest offset still held."""
        return Reply({"offset": self._store.min_offset(*self._queue(request))})

    def search_offset(self, connection: Connection, request: Command) -> Reply:
        """The offset of the first message that was stored at or after a time."""
        timestamp_ms = request.header["timestamp_ms"]
        return Reply({"offset": self._store.offset_at(*self._queue(request), timestamp_ms)})

    def _queue(self, request: Command) -> tuple[int, int]:
        """(topic id, queue id) of a queue that can be read or written."""
        topic, queue_id = request.header["topic"], request.header["queue_id"]
        entry = self._topics.existing(topic)
        check_exists(entry.config, queue_id)
        return entry.topic_id, queue_id

    # --- pulls -------------------------------------------------------------------------------------------------------

    def pull(self, connection: Connection, request: Command) -> Reply | None:
        """Answer a pull, or park it."""
        now, suspend_ms = self._loop.time(), request.header["suspend_ms"]
        self._access.record_pull(connection.number, request.header, now)
        return self._run(connection, request, now + suspend_ms / 1000 if suspend_ms else None)

    def queue_changed(self, topic: str, queue_id: int) -> None:
        """Run the parked pulls of a queue again; the answer to an earlier owner is LeaseLost."""
        for parked in self._parked.remove_place(topic, queue_id):
            self._run_again(parked, parked.deadline)

    def group_settings_changed(self, group: str) -> None:
        """Run the parked pulls of a group again: the group may be switched off."""
        parked_of_group = [parked for parked in self._parked.all() if parked.request.header["group"] == group]
        self._parked.remove_requests(parked_of_group)
        for parked in parked_of_group:
            self._run_again(parked, parked.deadline)

    def rights_changed(self, rights: CurrentRights) -> None:
        """Refuse the parked pulls that are no longer allowed."""
        refuse_parked(self._parked, rights)

    def expire(self, now: float) -> None:
        """Answer the parked pulls whose time has expired."""
        for parked in self._parked.expire(now):
            self._run_again(parked, None)

    def next_deadline(self) -> float | None:
        """When to call `expire` next, or None."""
        return self._parked.next_deadline()

    def connection_closed(self, connection: Connection) -> None:
        """Forget the pulls of a closed connection."""
        self._parked.remove_connection(connection)

    def _run_again(self, parked: ParkedRequest[Connection], park_until: float | None) -> None:
        connection, request = parked.connection, parked.request
        # Checked before the pull runs: on a broker that is no longer the master it would take a lease, and would read
        # messages that the new master delivers to another member.
        if refusal := self._refusal():
            connection.respond_error(request, refusal)
            return
        try:
            reply = self._run(connection, request, park_until)
        except RlabError as error:
            connection.respond_error(request, error)
        else:
            if reply is not None:
                connection.respond(request, reply.header, reply.body, reply.code)

    def _run(self, connection: Connection, request: Command, park_until: float | None) -> Reply | None:
        # First the checks of topic, queue, incarnation and lease, then the read, then the reasons to answer at once.
        # Only a pull that passes all of these is parked.
        header = request.header
        topic, queue_id = header["topic"], header["queue_id"]
        entry = self._topics.existing(topic)
        if queue_id >= entry.serves_below:
            check_readable(entry.config, queue_id)
        if (incarnation := self._topics.other_incarnation(entry, header)) is not None:
            return self._answer_recreated(entry, queue_id, incarnation)
        lease = self._access.access(connection.number, header)
        if isinstance(lease, PostponedPull):
            return self._not_yet(connection, request, entry, lease, park_until)
        result = self._read(entry, header)
        if lease is not None:
            # The offset of a pull shows what the member has received, even if this broker sent it before a restart.
            reached = result.next_offset if result.status is ReadStatus.FOUND else header["offset"]
            lease.served = max(lease.served, reached)
            if header.get("token") is None:
                self._access.sent(header["group"], QueueKey(topic, queue_id), lease, len(result.body))
        if result.status in _OFFSET_MOVED:
            self._offset_moves.record(header, result, self._loop.time())
        elif result.next_offset - header["offset"] > result.n and (damaged := self._damaged(header, entry, result)):
            return _reply(result, damaged)
        if park_until is None or result.status not in (ReadStatus.NO_NEW, ReadStatus.NO_MATCH):
            return _reply(result)
        if result.next_offset < result.max_offset:
            # The queue has more messages than one read may scan: the next request continues, so that other clients are
            # served in between.
            return _reply(result)
        if result.status is ReadStatus.NO_MATCH:
            # Parked at the offset after the messages that do not match: otherwise each of them would cost the consumer
            # a round trip. Only for a short time, because a consumer commits only offsets that it got in an answer.
            request = request._replace(header={**header, "offset": result.next_offset})
            park_until = min(park_until, self._loop.time() + SKIPPED_PARK_S)
        if full := self._park(connection, request, park_until):
            raise SystemBusy(full)
        return None

    def _read(self, entry: TopicEntry, header: dict[str, Any]) -> ReadResult:
        queue_and_offset = entry.topic_id, header["queue_id"], header["offset"]
        matches = parse_filter(header)
        if matches is not None:
            return read_matching(
                self._store, *queue_and_offset, max_n=header["max_n"], max_bytes=MAX_PULL_BYTES, matches=matches
            )
        hashes = header.get("tag_hashes")
        return self._store.read(
            *queue_and_offset,
            max_n=header["max_n"],
            max_bytes=MAX_PULL_BYTES,
            tag_hashes=None if hashes is None else frozenset(hashes),
        )

    def _park(self, connection: Connection, request: Command, until: float) -> str:
        """Park a pull until a deadline; returns why it cannot be parked, or an empty text."""
        topic, queue_id = queue = (request.header["topic"], request.header["queue_id"])
        sharer = find_sharer(connection.owner)
        if full := self._parked.full_at(topic, queue_id, sharer):
            return full
        self._parked.park(ParkedRequest(connection, request, (queue,), until, sharer))
        self._wake_by(until)
        return ""

    def _damaged(self, header: dict[str, Any], entry: TopicEntry, result: ReadResult) -> int:
        """The number of damaged messages among those that a read skipped; the filter skipped the others."""
        key = (entry.topic_id, header["queue_id"])
        damaged = self._store.damage.count(key, header["offset"], result.next_offset)
        if damaged:
            self._offset_moves.record_damaged(header, result, damaged, self._loop.time())
        return damaged

    def _not_yet(
        self, connection: Connection, request: Command, entry: TopicEntry, wait: PostponedPull, park_until: float | None
    ) -> Reply | None:
        """Park a pull that may not read yet, or answer with the offset from which on it may."""
        if wait.wait_s and park_until is not None:
            until = min(park_until, self._loop.time() + wait.wait_s)
            if not self._park(connection, request, until):
                return None
        return self._reply_without_messages(entry, request.header["queue_id"], wait.next_offset, wait.status)

    def _answer_recreated(self, entry: TopicEntry, queue_id: int, incarnation: TopicIncarnation) -> Reply:
        """Answer a pull whose offset belongs to a deleted topic of this name, or to an earlier disk of the broker."""
        first = self._store.min_offset(entry.topic_id, queue_id)
        reply = self._reply_without_messages(entry, queue_id, first, ReadStatus.OFFSET_TOO_BIG)
        return reply._replace(header={**reply.header, **incarnation.to_header()})

    def _reply_without_messages(self, entry: TopicEntry, queue_id: int, next_offset: int, status: ReadStatus) -> Reply:
        store, topic_id = self._store, entry.topic_id
        low, high = store.min_offset(topic_id, queue_id), store.max_offset(topic_id, queue_id)
        return _reply(ReadResult(status, b"", 0, next_offset, low, high))


def _reply(result: ReadResult, damaged: int = 0) -> Reply:
    header: dict[str, int | str] = {
        "next_offset": result.next_offset,
        "min_offset": result.min_offset,
        "max_offset": result.max_offset,
    }
    if damaged:
        header["damaged"] = damaged
    if result.status is ReadStatus.FOUND:
        return Reply(header, result.body)
    header["remark"] = result.status.value
    return Reply(header, None, _CODES[result.status])
