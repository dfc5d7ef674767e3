"""Batches sends: all of one event-loop iteration to one queue share requests, although each is awaited alone.

A frame has a price on both sides (encode, decode, dispatch, answer) that is higher than that of the message in it. When
many coroutines send at the same time, their messages share it; each still gets its own offset, or the error. A single
send leaves as a plain request in the same iteration: no send waits for others. Nor does a full request wait for the end
of its iteration: the broker works on it while the client encodes the next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field

import msgpack

from model.errors import ConnectFailed, RlabError
from model.limits import MAX_BATCH_BYTES, ROWS_PER_REQUEST
from model.message_queue import MessageQueue
from remoting.client import refusal_of
from remoting.command import Command
from remoting.connection import Connection
from remoting.request_code import RequestCode

_SEND = int(RequestCode.SEND_MESSAGE)
_SEND_BATCH = int(RequestCode.SEND_BATCH_MESSAGE)
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


@dataclass(slots=True)
class _SendBatch(SharedRequest):
    """Messages of one iteration for one queue."""

    deadline: float
    """The earliest of the senders', loop time in seconds."""
    rows: list[tuple[int, bytes]] = field(default_factory=list)
    """The tag hash and payload of each; `futures` has their senders in the same order."""
    futures: list[asyncio.Future[int]] = field(default_factory=list)
    size_bytes: int = 0

    def set_result(self, response: Command) -> None:
        """Give every sender its offset, or the broker's refusal."""
        if response.code:
            self.set_exception(refusal_of(response))
            return
        offset = response.header["offset"]
        for future in self.futures:
            if not future.done():
                future.set_result(offset)
            offset += 1


class SendBatcher:
    """The sends of one producer; a send is added only when the master of its queue is connected."""

    def __init__(self, loop: asyncio.AbstractEventLoop, masters: Mapping[str, Connection]) -> None:
        self._loop = loop
        self._masters = masters
        self._batches: dict[MessageQueue, _SendBatch] = {}

    def add(self, queue: MessageQueue, payload: bytes, tag_hash: int, deadline: float) -> asyncio.Future[int]:
        """Send a message at the end of this event-loop iteration; the deadline is a loop time in seconds.

        The future of its offset fails with the refusal of the broker or with a network error.
        """
        batches = self._batches
        batch = batches.get(queue)
        if batch is None:
            batch = _SendBatch(deadline)
            if not batches:
                connection = self._masters.get(queue.broker_name)
                if connection is not None and connection.in_flight == 0:
                    return self._send_now(connection, queue, batch, payload, tag_hash)
                self._loop.call_soon(self._flush)
            batches[queue] = batch
        elif deadline < batch.deadline:
            batch.deadline = deadline
        future: asyncio.Future[int] = self._loop.create_future()
        batch.rows.append((tag_hash, payload))
        batch.futures.append(future)
        batch.size_bytes += len(payload)
        if batch.size_bytes >= MAX_BATCH_BYTES or len(batch.rows) >= ROWS_PER_REQUEST:
            connection = self._send(queue, batches.pop(queue))
            if connection is not None:
                connection.flush()
        return future

    def _send_now(
        self, connection: Connection, queue: MessageQueue, batch: _SendBatch, payload: bytes, tag_hash: int
    ) -> asyncio.Future[int]:
        """Send a single message at once: a sender that awaits each answer gains an event-loop iteration."""
        future: asyncio.Future[int] = self._loop.create_future()
        batch.rows.append((tag_hash, payload))
        batch.futures.append(future)
        self._send(queue, batch)
        connection.flush()
        return future

    def _flush(self) -> None:
        batches, self._batches = self._batches, {}
        connections: dict[Connection, None] = {}
        for queue, batch in batches.items():
            connection = self._send(queue, batch)
            if connection is not None:
                connections[connection] = None
        for connection in connections:
            connection.flush()

    def _send(self, queue: MessageQueue, batch: _SendBatch) -> Connection | None:
        connection = self._masters.get(queue.broker_name)
        if connection is None:
            batch.set_exception(ConnectFailed(f"the connection to {queue.broker_name!r} closed; nothing was sent"))
            return None
        header: dict[str, object] = {"topic": queue.topic, "queue_id": queue.queue_id}
        if len(batch.rows) == 1:
            code = _SEND
            header["tag_hash"], body = batch.rows[0]
        else:
            code, body = _SEND_BATCH, _pack(batch.rows)
        try:
            connection.request_for(batch, code, header, body, batch.deadline - self._loop.time())
        except RlabError as error:
            batch.set_exception(error)
        return connection
