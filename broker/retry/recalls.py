"""RECALL_MESSAGE: a producer recalls a delayed message, by the handle in the result of its send.

A recalled message leaves the delayed messages as a delivered one does, by a mark, but is appended to no queue. So a
recall outlives a restart, and replicas have it. A mark of a recall is of its own kind: when a producer repeats a recall
because its answer was lost, it is answered as before, also by a broker that was restarted in between.

A handle names the place of the message, and the broker compares the id there. A message that was copied to the end of
the log has another place: it is found by its due time.

RocketMQ: RecallMessageProcessor, which stores a message that removes the other one when it is due, and cannot report
whether that one exists.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import msgpack

from broker.durability.answers import answer
from broker.feature import Core, Feature
from broker.retry.delays import MARKS, RECALLED, Delays
from broker.store.records import records_from
from broker.topics.service import Topics
from model.decode import message_id_of
from model.errors import InvalidParameter, QueryNotFound, RlabError, ServiceNotAvailable, SystemBusy, SystemError_
from model.events import EventKind
from model.limits import MAX_REMEMBERED_RECALLS
from model.names import SCHEDULE_TOPIC
from model.recall import RecallHandle, parse_recall_handle
from remoting.command import Command, Reply
from remoting.connection import Connection
from remoting.request_code import RequestCode
from remoting.server import Handler


class Recalls(Feature):
    """Recalls delayed messages of one broker."""

    def __init__(self, core: Core, topics: Topics, delays: Delays) -> None:
        self._core = core
        self._topics, self._registration = topics.table, topics.registration
        self._delays = delays
        topics.registration.serve_recalls(self.recall_for_name_server)
        self._recalled: dict[int, None] = {}  # the last ones, by their offsets
        self._recover()

    def handlers(self) -> dict[RequestCode, Handler]:
        """Request code -> handler."""
        return {RequestCode.RECALL_MESSAGE: self.recall}

    def recall(self, connection: Connection, request: Command) -> Coroutine[Any, Any, Reply] | None:
        """Recall one message; responds once that is written, or once its broker has answered. Idempotent."""
        handle, topic = parse_recall_handle(request.header["handle"]), request.header["topic"]
        if handle.broker != self._core.name and request.header.get("forward"):
            return self._forward(topic, request.header["handle"])
        self._topics.existing(topic)
        if handle.topic != topic:
            raise InvalidParameter(f"the handle is of a message of topic {handle.topic[:100]!r}, not of {topic!r}")
        if handle.broker != self._core.name:
            text = f"the handle is of a message of broker {handle.broker[:100]!r}, and this is {self._core.name!r}"
            raise InvalidParameter(f"{text}: recall it there")
        fields = {"message_id": handle.message_id}
        offset = self._place_of(handle)
        if offset is None:

            def stored(failure: RlabError | None) -> None:
                answer(connection, request, failure, fields)

            # The message was recalled before; the mark of that may have been appended in this iteration.
            self._core.barrier.after_append(stored, SCHEDULE_TOPIC, MARKS)
            return None

        def written(failure: RlabError | None) -> None:
            if failure is None:
                self._remember(handle.offset)
                columns = {"topic": topic, "offset": offset, "detail": handle.message_id}
                self._core.emit(EventKind.MESSAGE_RECALLED, **columns)
            answer(connection, request, failure, fields)

        self._delays.leave(offset, handle.offset, written)
        return None

    async def _forward(self, topic: str, handle: str) -> Reply:
        """Have another broker recall its message. Cancellation: it may be recalled."""
        return Reply((await self._registration.recall(topic, handle)).header)

    def recall_for_name_server(self, connection: Connection, request: Command) -> None:
        """Recall one message for a name server, which has checked the right of the producer."""
        connection.accept(request)
        replication = self._core.barrier.replication
        try:
            if replication is not None and not replication.started.is_set():
                raise ServiceNotAvailable("this broker has just started: try again")
            if replication is not None and (refusal := replication.check(appends=True)) is not None:
                raise refusal
            self.recall(connection, request._replace(header={**request.header, "forward": False}))
        except RlabError as error:
            connection.respond_error(request, error if error.code is not None else SystemError_(str(error)))

    def _place_of(self, handle: RecallHandle) -> int | None:
        """The offset of a message that can be recalled; None if it was recalled before.

        Raises:
            QueryNotFound: the message was delivered, or is not known.
            SystemBusy: it is copied at the moment, or recalled by another request.
            StoreError: it cannot be read.
        """
        delays = self._delays
        if delays.is_leaving(handle.offset):
            raise SystemBusy("the message is copied or recalled at the moment: ask again")
        if handle.offset in self._recalled and self._has_id(handle, handle.offset, or_is_gone=True):
            return None
        for offset in (handle.offset, *self._copies(handle)):
            if delays.can_leave(offset) and self._has_id(handle, offset):
                return offset
        raise QueryNotFound(
            f"broker {self._core.name!r} has no delayed message {handle.message_id[:100]!r} of topic {handle.topic!r} "
            "that waits: it was delivered, or recalled long ago"
        )

    def _copies(self, handle: RecallHandle) -> list[int]:
        """The messages that may be the copy of one that waits no more, although it is not due yet."""
        if handle.due_ms <= self._core.clock_ms() or handle.offset in self._delays.table:
            return []
        return self._delays.table.due_at(handle.due_ms)

    def _has_id(self, handle: RecallHandle, offset: int, *, or_is_gone: bool = False) -> bool:
        """Whether the delayed message at an offset is the one of the handle, or is no longer stored."""
        delayed: Any = self._delays.read(offset)
        if delayed is None:
            return or_is_gone
        _, topic, _, _, times_delivered, payload = delayed
        return topic == handle.topic and not times_delivered and message_id_of(payload) == handle.message_id

    def _remember(self, offset: int) -> None:
        self._recalled[offset] = None
        if len(self._recalled) > MAX_REMEMBERED_RECALLS:
            del self._recalled[next(iter(self._recalled))]

    def _recover(self) -> None:
        """Read the last marks again, of which some are of recalls."""
        store, topic_id = self._core.store, self._delays.topic_id
        end = store.max_offset(topic_id, MARKS)
        first = max(store.min_offset(topic_id, MARKS), end - MAX_REMEMBERED_RECALLS)
        for record in records_from(store, topic_id, MARKS, first):
            mark: Any = msgpack.unpackb(record.payload)
            if mark[-1] == RECALLED:
                self._remember(mark[1])
