"""Batches half messages, and commits and rollbacks: all of one event-loop iteration share a request to each broker.

`client/produce/batcher.py` does the same for plain sends. Each row gets its own answer, or the error of the request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgpack

from client.produce.batcher import SharedRequest
from model.errors import RlabError
from model.limits import MAX_BATCH_BYTES, ROWS_PER_REQUEST
from remoting.command import Command, error_of_response
from remoting.connection import Connection
from remoting.request_code import RequestCode

_pack = msgpack.Packer(autoreset=True).pack
_Way = tuple[Connection, bool | None]
"""A connection, and None for half messages, or whether ends answer checks."""
_END_BYTES = 64
"""A row of an end, about."""


@dataclass(slots=True)
class _Rows(SharedRequest):
    """The rows of one request."""

    connection: Connection
    code: RequestCode
    header: dict[str, Any]
    deadline: float
    """The earliest of the callers', loop time in seconds."""
    rows: list[Sequence[Any]] = field(default_factory=list)
    futures: list[asyncio.Future[int]] = field(default_factory=list)
    size_bytes: int = 0

    def set_result(self, response: Command) -> None:
        """Give every caller its part: the offset of its half message, or the outcome of its end."""
        if response.code:
            self.set_exception(error_of_response(response))
            return
        results: Any
        if self.code is RequestCode.SEND_HALF_MESSAGE:
            first = response.header["offset"]
            results = range(first, first + len(self.futures))
        else:
            results = msgpack.unpackb(response.body or b"")
        for future, result in zip(self.futures, results, strict=True):
            if not future.done():
                future.set_result(result)


class TransactionBatcher:
    """The half messages and ends of one producer group."""

    def __init__(self, loop: asyncio.AbstractEventLoop, group: str) -> None:
        self._loop = loop
        self._group = group
        self._batches: dict[_Way, _Rows] = {}

    def half(
        self, connection: Connection, row: tuple[str, int, int, int, bytes], deadline: float
    ) -> asyncio.Future[int]:
        """Send a half message: (topic, queue id, tag hash, first check after ms or -1, payload).

        The future is of its offset.
        """
        batch = self._batches.get((connection, None))
        if batch is None:
            batch = self._new((connection, None), RequestCode.SEND_HALF_MESSAGE, {"group": self._group}, deadline)
        return self._add(batch, (connection, None), row, len(row[4]), deadline)

    def end(
        self, connection: Connection, row: tuple[int, str, int], deadline: float, *, from_check: bool = False
    ) -> asyncio.Future[int]:
        """Send an end: (offset of the half message, message id, state); the future is of its `EndOutcome`."""
        batch = self._batches.get((connection, from_check))
        if batch is None:
            header = {"group": self._group, **({"from_check": True} if from_check else {})}
            batch = self._new((connection, from_check), RequestCode.END_TRANSACTION, header, deadline)
        return self._add(batch, (connection, from_check), row, _END_BYTES, deadline)

    def _new(
        self,
        key: _Way,
        code: RequestCode,
        header: dict[str, Any],
        deadline: float,
    ) -> _Rows:
        if not self._batches:
            self._loop.call_soon(self._flush)
        batch = self._batches[key] = _Rows(key[0], code, header, deadline)
        return batch

    def _add(
        self,
        batch: _Rows,
        key: _Way,
        row: Sequence[Any],
        size_bytes: int,
        deadline: float,
    ) -> asyncio.Future[int]:
        future: asyncio.Future[int] = self._loop.create_future()
        batch.rows.append(row)
        batch.futures.append(future)
        batch.size_bytes += size_bytes
        batch.deadline = min(batch.deadline, deadline)
        if batch.size_bytes >= MAX_BATCH_BYTES or len(batch.rows) >= ROWS_PER_REQUEST:
            self._send(self._batches.pop(key))
            batch.connection.flush()
        return future

    def _flush(self) -> None:
        batches, self._batches = self._batches, {}
        for batch in batches.values():
            self._send(batch)
        for connection in {batch.connection: None for batch in batches.values()}:
            connection.flush()

    def _send(self, batch: _Rows) -> None:
        try:
            left_s = batch.deadline - self._loop.time()
            batch.connection.request_for(batch, batch.code, batch.header, _pack(batch.rows), left_s)
        except RlabError as error:
            batch.set_exception(error)
