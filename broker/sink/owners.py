"""Stores which user owns a query that writes through a sink; only that user stages, commits and drops its batches.

The owner is stored for as long as the broker may remember the last batch of the query. Otherwise a batch that another
user commits would count as published, and the query's own batch would be dropped. Without access control nothing is
kept.

    used("q", "user etl")    q is etl's from now on, over restarts of the broker
    owner_of("query q")   -> "user etl"
"""

from __future__ import annotations

from collections.abc import Callable

from broker.durability.metadata import MetadataStore, Table
from model.access_limits import MAX_QUERIES_OF_USER
from model.limits import LAST_BATCH_KEPT_S
from model.names import query_name

_SCHEMA = """
create table if not exists sink_owners (
    query_id text primary key, owner text not null, used_ms integer not null
) without rowid;
"""
_RECORD_INTERVAL_MS = 3_600_000
"""Least time between two stored uses, because each use would otherwise cost a row for each chunk that is staged."""


class QueryOwners:
    """The owners of the queries of one broker."""

    def __init__(self, metadata: MetadataStore, clock_ms: Callable[[], float], *, is_kept: bool) -> None:
        self._is_kept = is_kept
        self._clock_ms = clock_ms
        metadata.add_tables(_SCHEMA)
        self._rows = Table(metadata, "sink_owners", replicated=True)
        # name of the query -> (query id, owner, time of a use in wall clock ms), the oldest first
        self._owners: dict[str, tuple[str, str, int]] = {}
        for query_id, owner, used_ms in self._rows.rows("used_ms"):
            self._owners[query_name(query_id)] = (query_id, owner, used_ms)

    def owner_of(self, name: str) -> str | None:
        """The owner of a query; None of one that is forgotten, or that an earlier version of the broker stored."""
        return self._owners[name][1] if name in self._owners else None

    def used(self, query_id: str, owner: str) -> None:
        """Record that a user, which the gate has admitted, uses a query; stored with the next commit."""
        name, now_ms = query_name(query_id), int(self._clock_ms())
        known = self._owners.get(name)
        if not self._is_kept or (known is not None and known[1] == owner and now_ms < known[2] + _RECORD_INTERVAL_MS):
            return
        self._forget_old(now_ms)
        own = [other for other, (_, user, _) in self._owners.items() if user == owner and other != name]
        if len(own) >= MAX_QUERIES_OF_USER:
            self._forget(own[0])
        self._owners.pop(name, None)
        self._owners[name] = (query_id, owner, now_ms)
        self._rows.put(query_id, owner, now_ms)

    def _forget_old(self, now_ms: int) -> None:
        before_ms = now_ms - LAST_BATCH_KEPT_S * 1000 - _RECORD_INTERVAL_MS
        for name in [name for name, (_, _, used_ms) in self._owners.items() if used_ms < before_ms]:
            self._forget(name)

    def _forget(self, name: str) -> None:
        query_id, *_ = self._owners.pop(name)
        self._rows.delete(query_id)
