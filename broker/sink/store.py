"""Where a broker keeps what it knows of sinks: three tables beside the others of its metadata.

    sink_chunks      what is staged, and where in the log
    sink_publishing  the batch that is being published: what, and where its targets ended before
    sink_queries     the last batch of each query

A change takes effect with the next commit, together with all else of that turn of the loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import msgpack

from broker.durability.metadata import MetadataStore
from broker.sink.stage_table import Attempt, Chunk, LastBatch
from broker.store.segments.index import LogKey

SCHEMA = """
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
"""


@dataclass(frozen=True, slots=True)
class Intent:
    """A batch whose publishing has begun, and must come to its end whatever happens.

    Attributes:
        offsets: of its chunks, in the queue of staged chunks, in the order of publishing.
        starts: where each target queue ended before.
    """

    query_id: str
    batch_id: int
    offsets: tuple[int, ...]
    starts: dict[LogKey, int]


class SinkStore:
    """Reads and changes the three tables.

    Args:
        metadata: the open file.
    """

    def __init__(self, metadata: MetadataStore) -> None:
        self._metadata = metadata
        metadata.add_tables(SCHEMA)

    def chunks(self) -> Iterator[tuple[Attempt, Chunk]]:
        """Everything that is staged."""
        for *key, seq, data in self._metadata.rows(
            "select query_id, batch_id, part, attempt, seq, data from sink_chunks"
        ):
            staged: Any = msgpack.unpackb(data, use_list=False)
            offset, staged_ms, counts = staged
            yield Attempt(*key), Chunk(seq, offset, counts, staged_ms)

    def intents(self) -> Iterator[Intent]:
        """Whatever was being published at the end of the run before."""
        for query_id, batch_id, data in self._metadata.rows("select query_id, batch_id, data from sink_publishing"):
            intent: Any = msgpack.unpackb(data, use_list=False)
            offsets, starts = intent
            yield Intent(query_id, batch_id, offsets, dict(starts))

    def last_batches(self) -> Iterator[tuple[str, LastBatch]]:
        """The last batch of each query."""
        for query_id, *last in self._metadata.rows("select query_id, batch_id, expires_ms from sink_queries"):
            yield query_id, LastBatch(*last)

    def save_chunk(self, attempt: Attempt, chunk: Chunk) -> None:
        """Store that a chunk is staged."""
        data = msgpack.packb([chunk.offset, chunk.staged_ms, chunk.counts])
        self._metadata.change(
            ("sink_chunks", *attempt, chunk.seq),
            "insert or replace into sink_chunks values (?, ?, ?, ?, ?, ?)",
            *(*attempt, chunk.seq, data),
        )

    def delete_chunks(self, dropped: Iterable[tuple[Attempt, int]]) -> None:
        """Forget chunks."""
        for attempt, seq in dropped:
            self._metadata.change(
                ("sink_chunks", *attempt, seq),
                "delete from sink_chunks where query_id = ? and batch_id = ? and part = ? and attempt = ? and seq = ?",
                *(*attempt, seq),
            )

    def save_intent(self, intent: Intent) -> None:
        """Store that the publishing of a batch begins."""
        data = msgpack.packb([intent.offsets, list(intent.starts.items())])
        self._metadata.change(
            ("sink_publishing", intent.query_id, intent.batch_id),
            "insert or replace into sink_publishing values (?, ?, ?)",
            *(intent.query_id, intent.batch_id, data),
        )

    def save_published(self, intent: Intent, last: LastBatch) -> None:
        """Store that a batch is published, and is the last one of its query."""
        self._metadata.change(
            ("sink_publishing", intent.query_id, intent.batch_id),
            "delete from sink_publishing where query_id = ? and batch_id = ?",
            *(intent.query_id, intent.batch_id),
        )
        self._metadata.change(
            ("sink_queries", intent.query_id),
            "insert or replace into sink_queries values (?, ?, ?)",
            *(intent.query_id, *last),
        )

    def delete_query(self, query_id: str) -> None:
        """Forget a query that nobody runs any more."""
        self._metadata.change(("sink_queries", query_id), "delete from sink_queries where query_id = ?", query_id)
