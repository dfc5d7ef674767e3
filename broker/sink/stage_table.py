"""StageTable: the staged messages of sinks, and the last batch that each query has published. Pure.

A batch of a Spark query is written by tasks, which may fail, run twice at once, or run again after everything was
written. So a task only *stages* its messages, as chunks of an attempt: they are stored, and no consumer sees them. The
driver then commits the batch and names the attempts that count. The broker publishes those, and remembers the batch as
the last one of its query:

    stage  (q, batch 7, partition 0, attempt 11)  2 chunks
    stage  (q, batch 7, partition 0, attempt 12)  2 chunks       the first attempt seemed dead
    commit (q, batch 7, [(0, 12)])                attempt 12 is published, attempt 11 dropped, last batch 7
    commit (q, batch 7, [(0, 12)])                7 is not above 7: nothing changes, answered as before

Times are wall clock milliseconds, because they outlive the process.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgpack

from model.counted import plural
from model.errors import StageLost, SystemBusy
from model.limits import MAX_PAYLOAD_BYTES, MAX_SINK_QUERIES, MAX_STAGED_CHUNKS
from remoting.overload.shares import NO_SHARER, ShareBook, Sharer

StagedMessage = tuple[str, int, int, bytes]
"""(topic, queue id, tag hash, payload)."""
_FIELDS = 4


class Attempt(NamedTuple):
    """One try of one Spark task: `partition` and `attempt` are Spark's partition id and task attempt id."""

    query_id: str
    batch_id: int
    partition: int
    attempt: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """The messages of one stage request."""

    seq: int  # number of the chunk in its attempt, from 0
    offset: int  # offset, in the stage topic, of the record that holds the messages
    counts: tuple[tuple[tuple[str, int], int], ...]  # ((topic, queue id), number of messages) of each target queue
    staged_ms: int
    sharer: int = 0  # number of the one whose query it is, see `remoting/overload/shares.py`

    @property
    def n(self) -> int:
        """Number of messages."""
        return sum(n for _, n in self.counts)


class LastBatch(NamedTuple):
    """The last batch that a query has published, and when its entry expires."""

    batch_id: int
    expires_ms: int


class StageTable:
    """The staged chunks and last batches of one broker."""

    def __init__(self, shares: ShareBook | None = None) -> None:
        book = shares or ShareBook()
        self._staged = book.of("staged chunks", MAX_STAGED_CHUNKS, "commit or abort some first")
        self._queries = book.of("queries of sinks", MAX_SINK_QUERIES, "go on with those that there are")
        self._sharers: dict[str, int] = {}  # query -> sharer, of those that have one
        self._chunks: dict[Attempt, dict[int, Chunk]] = {}
        self._last: dict[str, LastBatch] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    # --- stages ------------------------------------------------------------------------------------------------------

    def check_room(self, query_id: str, sharer: Sharer = NO_SHARER) -> None:
        """Check that there is room for one more chunk of a query.

        Raises:
            SystemBusy: the table is full, or this sharer has its part of it.
        """
        if self._count >= MAX_STAGED_CHUNKS:
            raise SystemBusy(f"this broker holds {MAX_STAGED_CHUNKS} staged chunks: commit or abort some first")
        if query_id not in self._last and len(self._last) >= MAX_SINK_QUERIES:
            raise SystemBusy(f"this broker remembers {MAX_SINK_QUERIES} queries already")
        self._staged.check(sharer)
        if query_id not in self._sharers:
            self._queries.check(sharer)

    def hold(self, query_id: str, sharer: int) -> None:
        """Count a chunk that is being written; `unhold` follows when that is done, and `add` if it is written."""
        self._staged.add(sharer)
        self.is_of(query_id, sharer)

    def unhold(self, sharer: int) -> None:
        """Undo `hold`."""
        self._staged.remove(sharer)

    def is_of(self, query_id: str, sharer: int) -> None:
        """Record the sharer of a query: the first that staged messages of it, until the query is forgotten."""
        if sharer and query_id not in self._sharers:
            self._sharers[query_id] = sharer
            self._queries.add(sharer)

    def sharer_of_query(self, query_id: str) -> int:
        """The sharer of a query, 0 if it has none."""
        return self._sharers.get(query_id, 0)

    def forget_unused(self) -> list[str]:
        """Forget the sharers of queries without staged messages and without a last batch; returns these queries."""
        used = self._last.keys() | {attempt.query_id for attempt in self._chunks}
        unused = [query_id for query_id in self._sharers if query_id not in used]
        for query_id in unused:
            self._queries.remove(self._sharers.pop(query_id))
        return unused

    def has(self, attempt: Attempt, seq: int) -> bool:
        """Whether a chunk is staged already: the answer was lost, and the task sent the request again."""
        return seq in self._chunks.get(attempt, {})

    def add(self, attempt: Attempt, chunk: Chunk) -> None:
        """Add a chunk, or replace the one with its number."""
        chunks = self._chunks.setdefault(attempt, {})
        if chunk.seq in chunks:
            self._staged.remove(chunks[chunk.seq].sharer)
        self._count += chunk.seq not in chunks
        chunks[chunk.seq] = chunk
        self._staged.add(chunk.sharer)

    def messages_staged(self, attempt: Attempt) -> int:
        """Number of messages that an attempt has staged."""
        return sum(chunk.n for chunk in self._chunks.get(attempt, {}).values())

    def chunks_to_publish(
        self, query_id: str, batch_id: int, chunk_counts: Iterable[tuple[int, int, int]]
    ) -> list[Chunk]:
        """The chunks of the attempts that a commit names, in the order in which they are published.

        `chunk_counts` has, per attempt, (partition, attempt, number of messages that the task staged on this broker).

        Raises:
            StageLost: the broker has another number of staged messages of an attempt: nothing may be published.
        """
        result: list[Chunk] = []
        for partition, attempt, n in sorted(chunk_counts):
            chunks = self._chunks.get(Attempt(query_id, batch_id, partition, attempt), {})
            have = sum(chunk.n for chunk in chunks.values())
            if have != n:
                raise StageLost(
                    f"batch {batch_id} of query {query_id!r}: attempt {attempt} of partition {partition} has "
                    f"{plural(have, 'message')} staged here, not {n}: they were dropped, by age or with an abort, or "
                    "went to another broker. Nothing was published; run the batch again"
                )
            result += [chunks[seq] for seq in sorted(chunks)]
        return result

    def drop_batch(self, query_id: str, batch_id: int) -> list[tuple[Attempt, int]]:
        """Drop the staged chunks of a batch; returns (attempt, seq) of each."""
        return self._drop(a for a in self._chunks if a.query_id == query_id and a.batch_id == batch_id)

    def drop_older(self, before_ms: int, publishing: frozenset[tuple[str, int]]) -> list[tuple[Attempt, int]]:
        """Drop attempts without a chunk staged since `before_ms`; returns (attempt, seq) of each chunk.

        The batches in `publishing`, as (query id, batch id), keep theirs.
        """
        return self._drop(
            attempt
            for attempt, chunks in self._chunks.items()
            if attempt[:2] not in publishing and all(chunk.staged_ms < before_ms for chunk in chunks.values())
        )

    def _drop(self, attempts: Iterable[Attempt]) -> list[tuple[Attempt, int]]:
        dropped = []
        for attempt in list(attempts):
            for seq, chunk in self._chunks.pop(attempt).items():
                self._staged.remove(chunk.sharer)
                dropped.append((attempt, seq))
        self._count -= len(dropped)
        return dropped

    def oldest_ms(self) -> int | None:
        """Time at which the oldest chunk was staged, or None."""
        return min((chunk.staged_ms for chunks in self._chunks.values() for chunk in chunks.values()), default=None)

    def first_offset(self) -> int | None:
        """The smallest offset of a staged chunk, or None: retention keeps the log from there on."""
        return min((chunk.offset for chunks in self._chunks.values() for chunk in chunks.values()), default=None)

    # --- batches -----------------------------------------------------------------------------------------------------

    def last_batch(self, query_id: str) -> int:
        """The last batch that a query has published here, or -1."""
        last = self._last.get(query_id)
        return -1 if last is None else last.batch_id

    def set_last_batch(self, query_id: str, last: LastBatch) -> None:
        """Record the batch that a query has published."""
        self._last[query_id] = last

    def forget_expired(self, now_ms: int) -> list[str]:
        """Forget the queries whose last batch has expired; returns their ids."""
        expired = [query_id for query_id, last in self._last.items() if last.expires_ms <= now_ms]
        for query_id in expired:
            del self._last[query_id]
        return expired


def staged_messages(body: bytes | None) -> tuple[StagedMessage, ...]:
    """Decode and check the body of a stage request.

    Raises:
        ValueError, TypeError: it is not an array of messages.
    """
    chunk = unpack_chunk(body or b"")
    if type(chunk) is not tuple or not chunk:
        raise ValueError("the body must be an array of messages, not empty")
    # One expression for the good case, which nearly all chunks are.
    if set(map(type, chunk)) != {tuple} or not all(
        [
            len(message) == _FIELDS
            and type(message[0]) is str
            and type(message[1]) is type(message[2]) is int
            and type(message[3]) is bytes
            and message[1] >= 0
            and -(2**31) <= message[2] < 2**31
            and len(message[3]) <= MAX_PAYLOAD_BYTES
            for message in chunk
        ]
    ):
        raise ValueError(
            "a message must be [topic, queue id, tag hash, payload]: the queue id is not negative, the tag hash has "
            f"32 bits, and the payload at most {MAX_PAYLOAD_BYTES} bytes"
        )
    return chunk


def unpack_chunk(payload: bytes) -> tuple[StagedMessage, ...]:
    """Decode a stored chunk, which was checked when it was staged."""
    unpacked: Any = msgpack.unpackb(payload, use_list=False)
    chunk: tuple[StagedMessage, ...] = unpacked
    return chunk
