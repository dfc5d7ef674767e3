"""Among which brokers a batch of a sink is spread: fixed when it is first run, for all its repetitions.

A row has to go to the same broker whenever its batch is run, or one broker takes it for published while another
publishes it again. Which brokers there are may change between two runs: one is away, or one is new. So a task asks
each broker that it wants to use, and names them all; each answers with what it was told first. A task that is answered
otherwise does as it is told, and asks those. Only when all brokers of a set name this set does it write.

    batch 7, first run    a, b are there    a notes [a, b], b notes [a, b]
    b is killed, the driver too
    batch 7, second run   a, c are there    a answers [a, b]: the batch waits for b

What cannot be seen: a repetition that reaches none of the brokers of the first run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgpack

from broker.durability.metadata import MetadataStore
from model.errors import SystemBusy
from model.limits import LAST_BATCH_KEPT_S, MAX_SINK_QUERIES, MAX_SPREAD_TOPICS

_SCHEMA = """
create table if not exists sink_spreads (
    query_id text not null, topic text not null, batch_id integer not null, data blob not null,
    primary key (query_id, topic)
) without rowid;
"""


@dataclass(slots=True)
class _Batch:
    batch_id: int
    noted_ms: int
    of_topic: dict[str, tuple[str, ...]] = field(default_factory=dict)


class SinkBrokerSets:
    """What this broker was told of the newest batch of each query.

    Args:
        metadata: the open file; a change takes effect with its next commit.
        clock_ms: wall clock in milliseconds.
    """

    def __init__(self, metadata: MetadataStore, clock_ms: Callable[[], float]) -> None:
        self._metadata = metadata
        self._clock_ms = clock_ms
        self._batches: dict[str, _Batch] = {}
        metadata.add_tables(_SCHEMA)
        for query_id, topic, batch_id, data in metadata.rows(
            "select query_id, topic, batch_id, data from sink_spreads"
        ):
            noted: Any = msgpack.unpackb(data, use_list=False)
            noted_ms, brokers = noted
            self._batches.setdefault(query_id, _Batch(batch_id, noted_ms)).of_topic[topic] = brokers

    def fix(self, query_id: str, batch_id: int, topic: str, brokers: tuple[str, ...]) -> tuple[str, ...]:
        """Note among which brokers the rows for a topic are spread, unless that is noted already.

        Args:
            query_id: the query.
            batch_id: its batch. A batch below the newest is over; what is said of it is not noted.
            topic: the topic.
            brokers: names.

        Returns:
            What was noted first.

        Raises:
            SystemBusy: there are too many queries, or topics of a query.
        """
        now_ms = int(self._clock_ms())
        batch = self._batches.get(query_id)
        if batch is None or batch.batch_id < batch_id:
            if batch is None:
                self._make_room(now_ms)
            else:
                self._forget(query_id)
            batch = self._batches[query_id] = _Batch(batch_id, now_ms)
        elif batch.batch_id > batch_id:
            return brokers
        noted = batch.of_topic.get(topic)
        if noted is not None:
            return noted
        if len(batch.of_topic) >= MAX_SPREAD_TOPICS:
            raise SystemBusy(f"a batch of query {query_id!r} is for more than {MAX_SPREAD_TOPICS} topics: use fewer")
        batch.of_topic[topic] = brokers
        self._metadata.change(
            ("sink_spreads", query_id, topic),
            "insert or replace into sink_spreads values (?, ?, ?, ?)",
            *(query_id, topic, batch_id, msgpack.packb([now_ms, brokers])),
        )
        return brokers

    def _make_room(self, now_ms: int) -> None:
        if len(self._batches) < MAX_SINK_QUERIES:
            return
        before_ms = now_ms - LAST_BATCH_KEPT_S * 1000
        for query_id in [query_id for query_id, batch in self._batches.items() if batch.noted_ms < before_ms]:
            self._forget(query_id)
        if len(self._batches) >= MAX_SINK_QUERIES:
            raise SystemBusy(f"this broker remembers {MAX_SINK_QUERIES} queries already")

    def _forget(self, query_id: str) -> None:
        for topic in self._batches.pop(query_id).of_topic:
            self._metadata.change(
                ("sink_spreads", query_id, topic),
                "delete from sink_spreads where query_id = ? and topic = ?",
                *(query_id, topic),
            )
