"""Finds stored messages by key and by id. RocketMQ: QueryMessageProcessor.

A search may have to read gigabytes once, and must not slow down sends or pulls. So searches run one at a time, in short
steps in a worker thread (`broker/store/keys/search.py`). Each request is answered after about a second with the
messages found so far, and with the log position from which the client can continue the search.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import anyio
import msgpack

from broker.feature import Core, Feature
from broker.messages.search_keys import SearchKeys, id_key, topic_key, unpack_delayed
from broker.retry.delays import Delays
from broker.store.disk.errors import StoreReadFailed
from broker.store.disk.files import Files
from broker.store.keys.search import FoundRecord, KeySearcher, segment_views
from broker.topics.service import Topics
from broker.transactions.records import decode_half
from broker.transactions.service import Transactions
from model.errors import SystemBusy
from model.limits import LOOKUP_GENTLE_S, LOOKUP_SLICE_S, MAX_LOOKUP_BYTES, MAX_LOOKUPS
from model.names import HALF_TOPIC, SCHEDULE_TOPIC, TRACE_TOPIC
from model.record import HEADER, encode_record
from remoting.command import Command, Reply
from remoting.connection import Connection
from remoting.request_code import RequestCode
from remoting.server import Handler

_END_OF_TIME_MS = 2**63 - 1
_REST = 3
"""While messages are stored, a search rests for this many times the length of its last step."""

_Row = tuple[str, int, int, bytes] | tuple[str, int, int, bytes, tuple[int, float] | None]
"""Topic, queue id, time of delivery in ms or -1, stored record; a half message has the column that `_half_row` adds."""


class Queries(Feature):
    """Searches the log of one broker for messages."""

    def __init__(
        self,
        core: Core,
        topics: Topics,
        delays: Delays,
        transactions: Transactions | None,
        files: Files,
        directory: Path,
    ) -> None:
        self._core = core
        self._topics = topics.table
        self._delays = delays
        self._transactions = transactions
        self._directory = directory
        self._searcher = KeySearcher(files)
        # asyncio's lock, because anyio's never returns to a task that was started while the server is being cancelled.
        self._one_at_a_time = asyncio.Lock()
        self._asked = 0

    def handlers(self) -> dict[RequestCode, Handler]:
        """Request code -> handler."""
        return {RequestCode.QUERY_MESSAGE: self.by_key, RequestCode.VIEW_MESSAGE_BY_ID: self.by_id}

    async def by_key(self, connection: Connection, request: Command) -> Reply:
        """Messages of a topic that have a key."""
        return await self._answer(connection, request, topic_key(request.header["topic"], request.header["key"]))

    async def by_id(self, connection: Connection, request: Command) -> Reply:
        """Every stored copy of a message."""
        return await self._answer(connection, request, id_key(request.header["message_id"]))

    async def _answer(self, connection: Connection, request: Command, term: bytes) -> Reply:
        if self._asked >= MAX_LOOKUPS:
            raise SystemBusy(f"{MAX_LOOKUPS} searches are in progress on broker {self._core.name}: retry later")
        self._asked += 1
        try:
            async with self._one_at_a_time:
                try:
                    return await self._search(connection, request.header, term)
                except OSError as error:
                    raise StoreReadFailed(f"cannot search {self._directory} ({error}): check the disk") from error
        finally:
            self._asked -= 1

    async def _search(self, connection: Connection, header: dict[str, Any], term: bytes) -> Reply:
        log, loop = self._core.store.log, self._core.loop
        begin_ms, end_ms = header.get("begin_ms") or 0, header.get("end_ms")
        end_ms = _END_OF_TIME_MS if end_ms is None else end_ms
        before_position = log.written_position if header.get("before") is None else header["before"]
        names = self._topics.names()
        views = segment_views(log, begin_ms=begin_ms, end_ms=end_ms, end_position=before_position)
        steps = self._searcher.search(views, term, SearchKeys(names), before_position)
        rows: list[_Row] = []
        size, next_before, started = 0, -1, loop.time()
        try:
            while not connection.closed:
                written_position, began_at = log.written_position, loop.time()
                # Shielded, because the thread cannot be stopped: a step is about a millisecond.
                with anyio.CancelScope(shield=True):
                    step = await loop.run_in_executor(None, next, steps, None)
                if step is None:
                    break
                if step.found is not None and begin_ms <= step.found.stored_ms <= end_ms:
                    row = self._row(step.found, names, with_halves=bool(header.get("halves")))
                    # The ids of trace messages are easy to guess, and reading the trace needs a right to its name.
                    if row is not None and (row[0] != TRACE_TOPIC or "topic" in header):
                        rows.append(row)
                        size += len(row[3])
                is_late = loop.time() - started >= LOOKUP_SLICE_S
                is_enough = len(rows) >= header["max_n"] or size >= MAX_LOOKUP_BYTES or is_late
                # Only below the position in the request, or a client that continues would send the same request again.
                if is_enough and step.position < before_position:
                    next_before = step.position
                    break
                if log.written_position != written_position and loop.time() - started < LOOKUP_GENTLE_S:
                    await anyio.sleep(_REST * (loop.time() - began_at))
        finally:
            steps.close()
        return Reply({"next_before": next_before}, msgpack.packb(rows))

    def _row(self, hit: FoundRecord, names: dict[int, str], *, with_halves: bool) -> _Row | None:
        """The row of a record; None if consumers cannot read it."""
        topic = names.get(hit.topic_id)
        if topic is None or hit.queue_offset >= self._core.store.max_offset(hit.topic_id, hit.queue_id):
            return None  # its topic is deleted, or its send is not acknowledged yet
        if topic == HALF_TOPIC:
            return self._half_row(hit) if with_halves else None
        if topic != SCHEDULE_TOPIC:
            return topic, hit.queue_id, -1, hit.record
        delayed = unpack_delayed(hit.record[HEADER.size :])
        if delayed is None or not self._delays.is_waiting(hit.queue_offset):
            return None  # it was delivered, and is found in its own queue
        record = encode_record(
            hit.topic_id,
            hit.queue_id,
            hit.queue_offset,
            hit.stored_ms,
            delayed.tag_hash,
            0,
            delayed.times_delivered,
            delayed.payload,
        )
        return delayed.topic, delayed.queue_id, delayed.due_ms, record

    def _half_row(self, hit: FoundRecord) -> _Row | None:
        """The row of a half message, with (checks, seconds to the next or -1) if it is open, or None if it is ended."""
        half = decode_half(hit.record[HEADER.size :])
        if half is None:
            return None
        record = encode_record(
            hit.topic_id, half.queue_id, hit.queue_offset, hit.stored_ms, half.tag_hash, 0, 0, half.payload
        )
        open_half = None if self._transactions is None else self._transactions.table.get(hit.queue_offset)
        if open_half is None:
            return half.topic, half.queue_id, -1, record, None
        next_s = -1.0 if open_half.waits else max(0.0, open_half.due - self._core.loop.time())
        return half.topic, half.queue_id, -1, record, (open_half.checks, next_s)
