"""Fixes, on the first run of a sink batch, the set of brokers it is written to, so that a retry uses the same set.

A row has to go to the same broker in every run of its batch; otherwise one broker takes it for published while another
publishes it again. The brokers may change between two runs: one is down, or one is new. So a task asks each broker of
the set that it wants to use, and names the whole set; each answers with the set that was first named to it. A task that
gets another set asks the brokers of that one, and it writes only when all brokers of a set have named this set.

    batch 7, first run    a, b are up    a stores [a, b], b stores [a, b]
    b is killed, the driver too
    batch 7, second run   a, c are up    a answers [a, b]: the batch waits for b

If a second run reaches none of the brokers of the first run, the repetition is not detected.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgpack

from broker.durability.metadata import MetadataStore, Table
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
    recorded_ms: int
    of_topic: dict[str, tuple[str, ...]] = field(default_factory=dict)


class SinkBrokerSets:
    """The broker sets of the newest batch of each query, as this broker was first asked for them."""

    def __init__(self, metadata: MetadataStore, clock_ms: Callable[[], float]) -> None:
        self._clock_ms = clock_ms
        self._batches: dict[str, _Batch] = {}
        metadata.add_tables(_SCHEMA)
        self._rows = Table(metadata, "sink_spreads", replicated=True)
        for query_id, topic, batch_id, data in self._rows.rows():
            stored: Any = msgpack.unpackb(data, use_list=False)
            recorded_ms, brokers = stored
            self._batches.setdefault(query_id, _Batch(batch_id, recorded_ms)).of_topic[topic] = brokers

    def fix(self, query_id: str, batch_id: int, topic: str, brokers: tuple[str, ...]) -> tuple[str, ...]:
        """Store the broker set of the rows for a topic, unless one is stored already; returns the one stored first.

        The set is durable with the next commit of the metadata. For a batch below the newest, which has ended, nothing
        is stored.

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
        fixed_set = batch.of_topic.get(topic)
        if fixed_set is not None:
            return fixed_set
        if len(batch.of_topic) >= MAX_SPREAD_TOPICS:
            raise SystemBusy(f"a batch of query {query_id!r} is for more than {MAX_SPREAD_TOPICS} topics: use fewer")
        batch.of_topic[topic] = brokers
        self._rows.put(query_id, topic, batch_id, msgpack.packb([now_ms, brokers]))
        return brokers

    def _make_room(self, now_ms: int) -> None:
        if len(self._batches) < MAX_SINK_QUERIES:
            return
        before_ms = now_ms - LAST_BATCH_KEPT_S * 1000
        for query_id in [query_id for query_id, batch in self._batches.items() if batch.recorded_ms < before_ms]:
            self._forget(query_id)
        if len(self._batches) >= MAX_SINK_QUERIES:
            raise SystemBusy(f"this broker remembers {MAX_SINK_QUERIES} queries already")

    def _forget(self, query_id: str) -> None:
        for topic in self._batches.pop(query_id).of_topic:
            self._rows.delete(query_id, topic)
