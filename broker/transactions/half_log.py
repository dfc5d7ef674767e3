"""Stores half messages and their ends in the log, publishes committed ones, and finds the open ones after a restart.

The half topic has the half messages and the marks (`records.py`). A restart begins with the last snapshot of the open
half messages, which is in the broker's metadata, and reads both queues from there on. So it reads little, however long
a single half message stays open. A snapshot is stored once the log that it sums up is on the disk.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgpack

from broker.durability.metadata import Table
from broker.feature import Core
from broker.store.disk.errors import StoreError
from broker.store.records import records_from
from broker.topics.service import Topics
from broker.transactions.records import (
    HALVES,
    MARKS,
    Mark,
    MarkKind,
    decode_half,
    decode_mark,
    encode_half,
    encode_mark,
)
from broker.transactions.table import OpenHalf, TransactionTable
from model.limits import MAX_DAMAGE_OWNERS, MAX_PULL_BYTES, MAX_TRANSACTION_TIMEOUT_S, TRANSACTIONS_PER_SNAPSHOT
from model.names import HALF_TOPIC
from model.record import iter_records
from model.transaction import HalfMessage

logger = logging.getLogger(__name__)

_SCHEMA = """
create table if not exists open_transactions (id integer primary key, data blob not null);
create table if not exists open_transaction_sharers (id integer primary key, data blob not null);
"""
_SPARSE = 4
"""Half messages that lie so far apart on average are read one by one."""


class PublishedHalf(NamedTuple):
    """A half message by its offset, and the queue that it is published in."""

    offset: int
    half: HalfMessage
    topic: str
    topic_id: int
    queue_id: int


class _Snapshot(NamedTuple):
    """The half messages that were open, and the first offsets of both queues that it does not sum up."""

    halves: int
    marks: int
    data: bytes


class _State(NamedTuple):
    """A snapshot, and the sharer of each of its half messages: beside it, because earlier commits read the snapshot."""

    snapshot: _Snapshot
    sharers: list[int]


class HalfLog:
    """The half topic of one broker; a restart fills `table` from it."""

    def __init__(self, core: Core, topics: Topics, table: TransactionTable) -> None:
        self._core = core
        self._store = core.store
        self._topics = topics.table
        self.topic_id = topics.ensure_own(HALF_TOPIC).topic_id
        self._table = table
        core.metadata.add_tables(_SCHEMA)
        self._rows = Table(core.metadata, "open_transactions", replicated=True)
        self.lost: dict[int, None] = {}  # offsets that the start could not read, and whose end no mark names
        self._sharers = Table(core.metadata, "open_transaction_sharers", replicated=True)
        self._from = self._recover()
        self._pending_snapshot: tuple[_State, int] | None = None  # and the end of the log then

    # --- writing -----------------------------------------------------------------------------------------------------

    def append_halves(self, halves: Sequence[HalfMessage], sharer: int = 0) -> int:
        """Buffer half messages of a sharer; returns the offset of the first. The barrier writes them.

        Its number is stored in the place of the tag hash, by which nothing filters here: the fields of a half message
        are those that brokers of earlier commits unpack.
        """
        return self._store.append_batch(self.topic_id, HALVES, [(encode_half(half), sharer) for half in halves])

    def append_mark(self, kind: MarkKind, offsets: Sequence[int]) -> None:
        """Buffer a mark that publishes nothing."""
        self._store.append(self.topic_id, MARKS, encode_mark(Mark(kind, tuple(offsets))), 0)

    def append_published(self, kind: MarkKind, published: Sequence[PublishedHalf]) -> None:
        """Buffer a mark, and behind it the messages that it publishes."""
        store = self._store
        next_offsets: dict[tuple[int, int], int] = {}
        targets: list[tuple[int, int, int]] = []
        for _, _, _, topic_id, queue_id in published:
            offset = next_offsets.get((topic_id, queue_id))
            if offset is None:
                offset = store.next_offset(topic_id, queue_id)
            next_offsets[(topic_id, queue_id)] = offset + 1
            targets.append((topic_id, queue_id, offset))
        mark = Mark(kind, tuple(each.offset for each in published), tuple(targets))
        store.append(self.topic_id, MARKS, encode_mark(mark), 0)
        for _, half, _, topic_id, queue_id in published:
            store.append(topic_id, queue_id, half.payload, half.tag_hash)

    # --- reading -----------------------------------------------------------------------------------------------------

    @property
    def end(self) -> int:
        """The offset after the newest half message."""
        return self._store.max_offset(self.topic_id, HALVES)

    @property
    def next_offset(self) -> int:
        """The offset that the next half message gets."""
        return self._store.next_offset(self.topic_id, HALVES)

    def read(self, offsets: Sequence[int]) -> dict[int, HalfMessage]:
        """The half messages at these offsets, without those that are no longer stored.

        Raises:
            StoreReadFailed: an I/O error.
        """
        halves: dict[int, HalfMessage] = {}
        first, end = min(offsets), max(offsets) + 1
        wanted_offsets = frozenset(offsets)
        if end - first <= _SPARSE * len(wanted_offsets):
            # Those of one producer lie side by side: one read for all.
            result = self._store.read(self.topic_id, HALVES, first, max_n=end - first, max_bytes=MAX_PULL_BYTES)
            for record in iter_records(result.body):
                if record.queue_offset in wanted_offsets and (half := decode_half(record.payload)) is not None:
                    halves[record.queue_offset] = half
        for offset in wanted_offsets - halves.keys():
            half_record = self._store.read_one(self.topic_id, HALVES, offset)
            half = None if half_record is None else decode_half(half_record.payload)
            if half is not None:
                halves[offset] = half
        return halves

    def read_some(
        self, offsets: Sequence[int], *, max_bytes: int, at_a_time: int
    ) -> tuple[dict[int, HalfMessage], Sequence[int]]:
        """As `read`, until the messages exceed this many bytes; the second value is the offsets that were not read.

        This many messages are read before their bytes are counted; each may have 4 MiB.
        """
        halves: dict[int, HalfMessage] = {}
        n_bytes = 0
        for i in range(0, len(offsets), at_a_time):
            if n_bytes >= max_bytes:
                return halves, offsets[i:]
            part = self.read(offsets[i : i + at_a_time])
            n_bytes += sum(len(half.payload) for half in part.values())
            halves |= part
        return halves, ()

    # --- snapshots ---------------------------------------------------------------------------------------------------

    def progressed(self) -> None:
        """Store a snapshot, if a restart would have to read too much otherwise."""
        if self.end - self._from <= TRANSACTIONS_PER_SNAPSHOT + 2 * len(self._table):
            return
        if self._pending_snapshot is None:
            self._pending_snapshot = (self._snapshot(), self._store.written_position)
        elif self._store.settled_position >= self._pending_snapshot[1]:
            self._save(self._pending_snapshot[0])

    def close(self) -> None:
        """Store a snapshot for the next start."""
        self._save(self._snapshot())

    def _snapshot(self) -> _State:
        loop_ms, causes = self._core.clock_ms() - self._core.loop.time() * 1000, dict[tuple[str, str], int]()
        still_open = sorted(self._table, key=lambda pair: pair[0])
        rows = [
            (
                offset,
                causes.setdefault((half.group, half.cause), len(causes)),
                int(half.born * 1000 + loop_ms),
                int(half.due * 1000 + loop_ms),
                half.checks,
            )
            for offset, half in still_open
        ]
        marks = self._store.max_offset(self.topic_id, MARKS)
        snapshot = _Snapshot(self.end, marks, msgpack.packb([list(causes), rows]))
        return _State(snapshot, [half.sharer for _, half in still_open])

    def _save(self, state: _State) -> None:
        snapshot = state.snapshot
        self._rows.put(0, msgpack.packb(snapshot))
        self._sharers.put(0, msgpack.packb([snapshot.halves, snapshot.marks, state.sharers]))
        self._from, self._pending_snapshot = snapshot.halves, None
        self._core.barrier.metadata_changed()

    # --- restart -----------------------------------------------------------------------------------------------------

    def _recover(self) -> int:
        """Fill the table; returns from where on a restart would have to read the half messages."""
        store, table = self._store, self._table
        end_offsets = (store.max_offset(self.topic_id, HALVES), store.max_offset(self.topic_id, MARKS))
        snapshot = _Snapshot(0, 0, msgpack.packb([[], []]))
        for _, data in self._rows.rows():
            stored: Any = msgpack.unpackb(data)
            snapshot = _Snapshot(*stored)
        low = snapshot._replace(halves=min(snapshot.halves, end_offsets[0]), marks=min(snapshot.marks, end_offsets[1]))
        self._restore(low)
        expected = max(low.halves, store.min_offset(self.topic_id, HALVES))
        for record in records_from(store, self.topic_id, HALVES, low.halves):
            self._report_lost(expected, record.queue_offset)
            expected = record.queue_offset + 1
            if (half := decode_half(record.payload)) is not None:
                table.add(record.queue_offset, self._open_half(half, record.stored_ms, record.tag_hash))
        self._report_lost(expected, end_offsets[0])
        last: Mark | None = None
        for record in records_from(store, self.topic_id, MARKS, low.marks):
            last = decode_mark(record.payload)
            if last is not None:
                self._apply(last, record.stored_ms)
        if end_offsets[1] and last is None:
            newest = store.read_one(self.topic_id, MARKS, end_offsets[1] - 1)
            last = None if newest is None else decode_mark(newest.payload)
        if last is not None:
            self._publish_missing(last)
        if low != snapshot:
            logger.warning(
                "half messages were lost with the end of the log: %s was stored, it has %s", snapshot[:2], end_offsets
            )
            self._save(self._snapshot())
        return low.halves

    def _report_lost(self, first: int, end: int) -> None:
        self.lost.update(dict.fromkeys(range(first, min(end, first + MAX_DAMAGE_OWNERS))))

    def _restore(self, low: _Snapshot) -> None:
        data: Any = msgpack.unpackb(low.data, use_list=False)
        causes, rows = data
        first = self._store.min_offset(self.topic_id, HALVES)
        for (offset, number, born_ms, due_ms, checks), sharer in zip(
            rows, self._sharers_of(low, len(rows)), strict=True
        ):
            if first <= offset < low.halves:
                group, cause = causes[number]
                half = OpenHalf(group, cause, 0, self._past(born_ms), self._soon(due_ms), checks, sharer=sharer)
                self._table.add(offset, half)

    def _sharers_of(self, snapshot: _Snapshot, n: int) -> Sequence[int]:
        """The sharers of the half messages of a snapshot; none, if a broker of an earlier commit has stored it."""
        for _, data in self._sharers.rows():
            stored: Any = msgpack.unpackb(data, use_list=False)
            halves, marks, sharers = stored
            if (halves, marks, len(sharers)) == (snapshot.halves, snapshot.marks, n):
                return tuple(sharers)
        return (0,) * n

    def _open_half(self, half: HalfMessage, stored_ms: int, sharer: int) -> OpenHalf:
        options, born = self._table.options, self._past(stored_ms)
        due = born + (options.timeout_s if half.check_after_ms < 0 else half.check_after_ms / 1000)
        return OpenHalf(half.group, half.cause, 0, born, due, sharer=sharer)

    def _apply(self, mark: Mark, stored_ms: int) -> None:
        table = self._table
        offsets = [offset for offset in mark.offsets if table.get(offset) is not None]
        if mark.kind is MarkKind.CHECKED:
            table.checked(offsets, self._past(stored_ms))
            return
        for offset in mark.offsets:
            self.lost.pop(offset, None)
        for offset in offsets:
            table.begin_end(offset)
        table.ended(offsets)

    def _publish_missing(self, mark: Mark) -> None:
        """Publish the messages of the last mark that are missing: a loss of power may have cut its write in two."""
        names = self._topics.names()
        missing = [
            (offset, topic_id, queue_id)
            for offset, (topic_id, queue_id, target_offset) in zip(mark.offsets, mark.targets, strict=False)
            if topic_id in names and self._store.read_one(topic_id, queue_id, target_offset) is None
        ]
        if not missing:
            return
        try:
            halves = self.read([offset for offset, _, _ in missing])
            published = [
                PublishedHalf(offset, halves[offset], names[topic_id], topic_id, queue_id)
                for offset, topic_id, queue_id in missing
                if offset in halves
            ]
            if published:
                self.append_published(mark.kind, published)
                self._store.flush()
                self._store.sync()
        except StoreError as error:
            logger.error("%d committed messages could not be published again: %s", len(missing), error)
            raise
        logger.warning("%d committed messages, which a loss of power had taken, are published again", len(published))

    def _past(self, time_ms: int) -> float:
        """The loop time of a stored moment; not later than now, if the clock was set back."""
        return min(self._loop_time_of(time_ms), self._core.loop.time())

    def _soon(self, due_ms: int) -> float:
        """The loop time of a stored deadline; not later than any that is set now, if the clock was set back."""
        longest_s = max(MAX_TRANSACTION_TIMEOUT_S, self._table.options.check_interval_s, self._table.options.timeout_s)
        return min(self._loop_time_of(due_ms), self._core.loop.time() + longest_s)

    def _loop_time_of(self, time_ms: int) -> float:
        return self._core.loop.time() + (time_ms - self._core.clock_ms()) / 1000
