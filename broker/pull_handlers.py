"""PULL_MESSAGE with long polling, and the offset questions. RocketMQ: PullMessageProcessor, PullRequestHoldService."""

from __future__ import annotations

from typing import Any

from broker.broker import Broker
from broker.long_poll_table import HeldPull
from broker.queue_locks import QueueKey
from broker.store.read_result import ReadResult, ReadStatus
from broker.topic_table import TopicEntry, check_readable
from model.errors import InvalidParameter, LeaseLost, RlabError, SystemBusy, SystemError_
from model.limits import MAX_PULL_BYTES
from model.response_code import ResponseCode
from remoting.command import Command, Reply
from remoting.connection import Connection
from remoting.request_code import RequestCode
from remoting.server import Handler

_NOT_FOUND = int(ResponseCode.PULL_NOT_FOUND)
_RETRY = int(ResponseCode.PULL_RETRY_IMMEDIATELY)
_MOVED = int(ResponseCode.PULL_OFFSET_MOVED)


class PullHandlers:
    """Serves stored bytes; holds pulls that found nothing."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        broker.rerun_held = self.rerun
        broker.expire_held = self.expire

    def handlers(self) -> dict[RequestCode, Handler]:
        """Request code -> handler."""
        return {
            RequestCode.PULL_MESSAGE: self.pull,
            RequestCode.GET_MAX_OFFSET: self.max_offset,
            RequestCode.GET_MIN_OFFSET: self.min_offset,
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: self.search_offset,
        }

    # --- pull --------------------------------------------------------------------------------------------------------

    def pull(self, connection: Connection, request: Command) -> Reply | None:
        """Answer a pull, or hold it."""
        suspend_ms = request.header["suspend_ms"]
        return self._pull(connection, request, self._broker.loop.time() + suspend_ms / 1000 if suspend_ms else None)

    def rerun(self, topic: str, queue_id: int) -> None:
        """Run the held pulls of a queue again: there is something new, or their lease may be gone."""
        for held in self._broker.held.take_queue(topic, queue_id):
            connection = self._broker.find_connection(held.connection)
            if connection is not None:
                self._run_held(connection, held.request, held.deadline)

    def expire(self, number: int, request: Command) -> None:
        """Answer a held pull whose time is over."""
        connection = self._broker.find_connection(number)
        if connection is not None:
            self._run_held(connection, request, None)

    def _run_held(self, connection: Connection, request: Command, hold_until: float | None) -> None:
        try:
            reply = self._pull(connection, request, hold_until)
        except RlabError as error:
            connection.respond_error(request, error if error.code is not None else SystemError_(str(error)))
        else:
            if reply is not None:
                connection.respond(request, reply.header, reply.body, reply.code)

    def _pull(self, connection: Connection, request: Command, hold_until: float | None) -> Reply | None:
        header = request.header
        topic, queue_id = header["topic"], header["queue_id"]
        entry = self._broker.topics.existing(topic)
        check_readable(entry.config, queue_id)
        if header.get("token") is not None:
            self._check_lease(header, QueueKey(topic, queue_id))
        tag_hashes = header.get("tag_hashes")
        result = self._broker.store.read(
            entry.topic_id,
            queue_id,
            header["offset"],
            max_n=header["max_n"],
            max_bytes=MAX_PULL_BYTES,
            tag_hashes=None if tag_hashes is None else frozenset(tag_hashes),
        )
        if result.status is ReadStatus.NO_NEW and hold_until is not None:
            try:
                self._broker.held.hold(HeldPull(connection.number, request, (topic, queue_id), hold_until))
            except SystemBusy:
                return _reply(result)
            self._broker.driver.wake_by(hold_until)
            return None
        return _reply(result)

    def _check_lease(self, header: dict[str, Any], queue: QueueKey) -> None:
        group, client_id = header["group"], header.get("client_id") or ""
        if not self._broker.locks.check(group, queue, client_id, header["token"]):
            raise LeaseLost(f"{queue.topic}:{queue.queue_id} of group {group!r} is leased to another member by now")
        info = self._broker.groups.get(group)
        member = info.members.get(client_id) if info is not None else None
        if member is not None:
            self._broker.groups.touch(member, self._broker.loop.time())

    # --- offsets of the queue ----------------------------------------------------------------------------------------

    def max_offset(self, connection: Connection, request: Command) -> Reply:
        """The offset that the next message gets."""
        entry, queue_id = self._queue(request)
        return Reply({"offset": self._broker.store.max_offset(entry.topic_id, queue_id)})

    def min_offset(self, connection: Connection, request: Command) -> Reply:
        """The lowest offset still held."""
        entry, queue_id = self._queue(request)
        return Reply({"offset": self._broker.store.min_offset(entry.topic_id, queue_id)})

    def search_offset(self, connection: Connection, request: Command) -> Reply:
        """The first offset stored at or after a time."""
        entry, queue_id = self._queue(request)
        return Reply({"offset": self._broker.store.offset_at(entry.topic_id, queue_id, request.header["timestamp_ms"])})

    def _queue(self, request: Command) -> tuple[TopicEntry, int]:
        topic, queue_id = request.header["topic"], request.header["queue_id"]
        entry = self._broker.topics.existing(topic)
        if queue_id >= max(entry.config.read_queue_nums, entry.config.write_queue_nums):
            raise InvalidParameter(f"topic {topic!r} has no queue {queue_id} on this broker")
        return entry, queue_id


def _reply(result: ReadResult) -> Reply:
    """Turn what the store found into an answer.

    RocketMQ answers an offset beyond the end with «moved» to the end, one below the beginning with «moved» to the
    beginning; so does this.
    """
    header = {"next_offset": result.next_offset, "min_offset": result.min_offset, "max_offset": result.max_offset}
    if result.status is ReadStatus.FOUND:
        return Reply(header, result.body)
    header["remark"] = result.status.name
    if result.status is ReadStatus.NO_NEW:
        return Reply(header, None, _NOT_FOUND)
    if result.status is ReadStatus.NONE_MATCHED:
        return Reply(header, None, _RETRY)
    return Reply(header, None, _MOVED)
