"""Stores the state of sinks in four tables of the broker's metadata.

    sink_chunks      staged chunks, and their offsets in the log
    sink_publishing  the batch that is being published: its chunks, and the end of each target queue before it
    sink_queries     the last batch of each query
    sink_sharers     the sharer of each query that has one

A change is written with the next commit of the metadata, together with all others of that event-loop iteration.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import msgpack

from broker.durability.metadata import MetadataStore, Table
from broker.sink.stage_table import Attempt, Chunk, LastBatch
from broker.store.segments.index import LogKey

_SCHEMA = """
create table if not exists sink_chunks (
    query_id text not null, batch_id integer not null, part integer not null, attempt integer not null,
    seq integer not null, data blob not null, primary key (query_id, batch_id, part, attempt, seq)
) without rowid;
create table if not exists sink_publishing (
    query_id text not null, batch_id integer not null, data blob not null, primary key (query_id, batch_id)
) without rowid;
create table if not exists sink_queries (
    query_id text primary key, batch_id integer not null, expires_ms integer not null
) without rowid;
create table if not exists sink_sharers (query_id text primary key, sharer integer not null) without rowid;
"""


@dataclass(frozen=True, slots=True)
class Intent:
    """A batch whose publication has begun, and is completed even after a crash."""

    query_id: str
    batch_id: int
    offsets: tuple[int, ...]  # offsets of its chunks in the stage topic, in the order in which they are published
    starts: dict[LogKey, int]  # end of each target queue before the batch; its messages lie at or above this offset


class SinkStore:
    """Reads and changes the four tables."""

    def __init__(self, metadata: MetadataStore) -> None:
        metadata.add_tables(_SCHEMA)
        self._chunks = Table(metadata, "sink_chunks", replicated=True)
        self._publishing = Table(metadata, "sink_publishing", replicated=True)
        self._queries = Table(metadata, "sink_queries", replicated=True)
        self._sharers = Table(metadata, "sink_sharers", replicated=True)

    def chunks(self) -> Iterator[tuple[Attempt, Chunk]]:
        """Every staged chunk."""
        for *key, seq, data in self._chunks.rows():
            staged: Any = msgpack.unpackb(data, use_list=False)
            offset, staged_ms, counts = staged
            yield Attempt(*key), Chunk(seq, offset, counts, staged_ms)

    def intents(self) -> Iterator[Intent]:
        """The batches whose publication had begun, but not ended, when the last run of the broker ended."""
        for query_id, batch_id, data in self._publishing.rows():
            intent: Any = msgpack.unpackb(data, use_list=False)
            offsets, starts = intent
            yield Intent(query_id, batch_id, offsets, dict(starts))

    def last_batches(self) -> Iterator[tuple[str, LastBatch]]:
        """The last batch of each query."""
        for query_id, *last in self._queries.rows():
            yield query_id, LastBatch(*last)

    def sharers(self) -> Iterator[tuple[str, int]]:
        """The sharer of each query that has one."""
        yield from self._sharers.rows()

    def save_sharer(self, query_id: str, sharer: int) -> None:
        """Store the sharer of a query, if it has one."""
        if sharer:
            self._sharers.put(query_id, sharer)

    def delete_sharer(self, query_id: str) -> None:
        """Delete the stored sharer of a query."""
        self._sharers.delete(query_id)

    def save_chunk(self, attempt: Attempt, chunk: Chunk) -> None:
        """Store that a chunk is staged."""
        self._chunks.put(*attempt, chunk.seq, msgpack.packb([chunk.offset, chunk.staged_ms, chunk.counts]))

    def delete_chunks(self, dropped: Iterable[tuple[Attempt, int]]) -> None:
        """Delete chunks, each named by its attempt and number."""
        for attempt, seq in dropped:
            self._chunks.delete(*attempt, seq)

    def save_intent(self, intent: Intent) -> None:
        """Store a batch before its first message is published."""
        data = msgpack.packb([intent.offsets, list(intent.starts.items())])
        self._publishing.put(intent.query_id, intent.batch_id, data)

    def save_published(self, intent: Intent, last: LastBatch) -> None:
        """Store that a batch is published, and is the last one of its query."""
        self._publishing.delete(intent.query_id, intent.batch_id)
        self._queries.put(intent.query_id, *last)

    def delete_query(self, query_id: str) -> None:
        """Forget the last batch of a query."""
        self._queries.delete(query_id)
