"""Batches sends: all of one event-loop iteration to one topic of a broker share requests; each is awaited alone.

A frame has a price on both sides (encode, decode, dispatch, answer) that is higher than that of the message in it. When
many coroutines send at the same time, their messages share it; each still gets its own offset, or the error. A single
send leaves as a plain request in the same iteration: no send waits for others. Nor does a full request wait for the end
of its iteration: the broker works on it while the client encodes the next.

    one message                        SEND_MESSAGE
    several, all for one queue         SEND_BATCH_MESSAGE
    several, for several queues        SEND_MESSAGES; to brokers that do not have it, the requests above, queue by queue

A request that is refused because of one of its messages is sent again in parts, as none of them was stored: queue by
queue, and of one queue message by message. So only the senders whose message or queue is wrong get the error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field
from itertools import count

import msgpack

from model.errors import ConnectFailed, InvalidParameter, MessageIllegal, RequestCodeNotSupported, RlabError
from model.limits import MAX_BATCH_BYTES, ROWS_PER_REQUEST
from model.message_queue import MessageQueue
from remoting.command import Command, error_of_response
from remoting.connection import Connection
from remoting.request_code import RequestCode

_SEND = int(RequestCode.SEND_MESSAGE)
_SEND_BATCH = int(RequestCode.SEND_BATCH_MESSAGE)
_SEND_SEVERAL = int(RequestCode.SEND_MESSAGES)
_OF_ONE = (RequestCodeNotSupported, InvalidParameter, MessageIllegal)
"""Refusals of SEND_MESSAGES that need not be about all of its messages."""
_pack = msgpack.Packer(autoreset=True).pack


class SharedRequest:
    """A request that several callers share, itself the waiter for its answer; `futures` are those of the callers."""

    __slots__ = ()
    futures: list[asyncio.Future[int]]

    def done(self) -> bool:
        """Whether the answer is here: false, because a caller that gave up does not matter to the others."""
        return False

    def set_exception(self, error: Exception) -> None:
        """Fail every caller, each with its own error: a shared one would collect all their tracebacks."""
        for future in self.futures:
            if not future.done():
                future.set_exception(copy(error))


_Way = tuple[str, str]
"""A topic, and the name of a broker."""


@dataclass(slots=True)
class _SendBatch(SharedRequest):
    """Messages of one iteration for one topic of a broker."""

    way: _Way
    queue_id: int
    """The queue of the first one."""
    deadline: float
    """The earliest of the senders', loop time in seconds."""
    rows: list[tuple[int, int, bytes]] = field(default_factory=list)
    """The queue id, tag hash and payload of each; `futures` has their senders in the same order."""
    futures: list[asyncio.Future[int]] = field(default_factory=list)
    size_bytes: int = 0
    has_several: bool = False
    """Whether they are for several queues."""
    refused: Callable[[_SendBatch, RlabError], None] | None = None
    """Called with the refusal of a request with several messages."""

    def set_result(self, response: Command) -> None:
        """Give every sender its offset, or the broker's refusal."""
        if response.code:
            error = error_of_response(response)
            if self.refused is None:
                self.set_exception(error)
            else:
                self.refused(self, error)
            return
        first = response.header["offset"]
        for future, offset in zip(self.futures, first if self.has_several else count(first)):  # noqa: B905
            if not future.done():
                future.set_result(offset)


class SendBatcher:
    """The sends of one producer; a send is added only when the master of its queue is connected."""

    def __init__(self, loop: asyncio.AbstractEventLoop, masters: Mapping[str, Connection]) -> None:
        self._loop = loop
        self._masters = masters
        self._batches: dict[_Way, _SendBatch] = {}
        # The connections, by broker name, over which SEND_MESSAGES is not understood: to brokers of earlier commits.
        self._older: dict[str, Connection] = {}

    def add(self, queue: MessageQueue, payload: bytes, tag_hash: int, deadline: float) -> asyncio.Future[int]:
        """Send a message at the end of this event-loop iteration; the deadline is a loop time in seconds.

        The future of its offset fails with the refusal of the broker or with a network error.
        """
        topic, broker_name, queue_id = queue
        batches, way = self._batches, (topic, broker_name)
        batch = batches.get(way)
        if batch is None:
            batch = _SendBatch(way, queue_id, deadline)
            if not batches:
                connection = self._masters.get(broker_name)
                if connection is not None and connection.in_flight == 0:
                    return self._send_now(connection, batch, payload, tag_hash)
                self._loop.call_soon(self._flush)
            batches[way] = batch
        else:
            if queue_id != batch.queue_id:
                batch.has_several = True
            if deadline < batch.deadline:  # noqa: PLR1730 - min() costs more
                batch.deadline = deadline
        future: asyncio.Future[int] = self._loop.create_future()
        batch.rows.append((queue_id, tag_hash, payload))
        batch.futures.append(future)
        batch.size_bytes += len(payload)
        if batch.size_bytes >= MAX_BATCH_BYTES or len(batch.rows) >= ROWS_PER_REQUEST:
            connection = self._send(batches.pop(way))
            if connection is not None:
                connection.flush()
        return future

    def _send_now(
        self, connection: Connection, batch: _SendBatch, payload: bytes, tag_hash: int
    ) -> asyncio.Future[int]:
        """Send a single message at once: a sender that awaits each answer gains an event-loop iteration."""
        future: asyncio.Future[int] = self._loop.create_future()
        batch.rows.append((batch.queue_id, tag_hash, payload))
        batch.futures.append(future)
        self._send(batch)
        connection.flush()
        return future

    def _flush(self) -> None:
        batches, self._batches = self._batches, {}
        connections: dict[Connection, None] = {}
        for batch in batches.values():
            connection = self._send(batch)
            if connection is not None:
                connections[connection] = None
        for connection in connections:
            connection.flush()

    def _send(self, batch: _SendBatch) -> Connection | None:
        topic, broker_name = batch.way
        connection = self._masters.get(broker_name)
        if connection is None:
            batch.set_exception(ConnectFailed(f"the connection to {broker_name!r} closed; nothing was sent"))
            return None
        header: dict[str, object] = {"topic": topic}
        rows = batch.rows
        if batch.has_several:
            if self._older.get(broker_name) is connection:
                self._send_by_queue(batch)
                return connection
            code = _SEND_SEVERAL
        else:
            code, header["queue_id"] = _SEND_BATCH, batch.queue_id
        if len(rows) > 1:
            batch.refused = self._refused
        try:
            if batch.has_several:
                body = _pack(rows)
            elif len(rows) == 1:
                code, (_, header["tag_hash"], body) = _SEND, rows[0]
            else:
                body = _pack([row[1:] for row in rows])
            connection.request_for(batch, code, header, body, batch.deadline - self._loop.time())
        except OverflowError:  # the number of a queue, chosen by a sender, has more than 64 bits
            self._send_by_queue(batch)
        except RlabError as error:
            if batch.refused is None:
                batch.set_exception(error)
            else:
                self._refused(batch, error)
        return connection

    def _refused(self, batch: _SendBatch, error: RlabError) -> None:
        """Nothing of a request was stored: send each queue's messages alone, or each message, if that may help."""
        if not isinstance(error, _OF_ONE if batch.has_several else MessageIllegal):
            batch.set_exception(error)
            return
        if not batch.has_several:
            for row, future in zip(batch.rows, batch.futures, strict=True):
                self._send(_SendBatch(batch.way, batch.queue_id, batch.deadline, [row], [future]))
            return
        broker_name = batch.way[1]
        connection = self._masters.get(broker_name)
        if isinstance(error, RequestCodeNotSupported) and connection is not None:
            self._older[broker_name] = connection
        self._send_by_queue(batch)

    def _send_by_queue(self, batch: _SendBatch) -> None:
        parts: dict[int, _SendBatch] = {}
        for row, future in zip(batch.rows, batch.futures, strict=True):
            part = parts.get(row[0])
            if part is None:
                part = parts[row[0]] = _SendBatch(batch.way, row[0], batch.deadline)
            part.rows.append(row)
            part.futures.append(future)
        for part in parts.values():
            self._send(part)
