"""Stores the user of each query that writes through a sink; only that user stages, commits and drops its batches.

The user is stored for as long as the broker may remember the last batch of the query. Otherwise a batch that another
user commits would count as published, and the query's own batch would be dropped. Without access control nothing is
kept.

    record_use("q", "user etl")   q is etl's from now on, over restarts of the broker
    user_of_id("query q")      -> "user etl"
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


class QueryUsers:
    """The users of the queries of one broker."""

    def __init__(self, metadata: MetadataStore, clock_ms: Callable[[], float], *, has_access_control: bool) -> None:
        self._has_access_control = has_access_control
        self._clock_ms = clock_ms
        metadata.add_tables(_SCHEMA)
        self._rows = Table(metadata, "sink_owners", replicated=True)
        # name of the query -> (query id, user, time of a use in wall clock ms), the oldest first
        self._users: dict[str, tuple[str, str, int]] = {}
        for query_id, user, used_ms in self._rows.rows("used_ms"):
            self._users[query_name(query_id)] = (query_id, user, used_ms)

    def user_of_id(self, name: str) -> str | None:
        """The user of a query; None of one that is forgotten, or that an earlier version of the broker stored."""
        return self._users[name][1] if name in self._users else None

    def record_use(self, query_id: str, user: str) -> None:
        """Record that a user, which the gate has admitted, uses a query; stored with the next commit."""
        name, now_ms = query_name(query_id), int(self._clock_ms())
        recorded = self._users.get(name)
        if not self._has_access_control or (
            recorded is not None and recorded[1] == user and now_ms < recorded[2] + _RECORD_INTERVAL_MS
        ):
            return
        self._forget_old(now_ms)
        queries_of_user = [
            other for other, (_, known_user, _) in self._users.items() if known_user == user and other != name
        ]
        if len(queries_of_user) >= MAX_QUERIES_OF_USER:
            self._forget(queries_of_user[0])
        self._users.pop(name, None)
        self._users[name] = (query_id, user, now_ms)
        self._rows.put(query_id, user, now_ms)

    def _forget_old(self, now_ms: int) -> None:
        before_ms = now_ms - LAST_BATCH_KEPT_S * 1000 - _RECORD_INTERVAL_MS
        for name in [name for name, (_, _, used_ms) in self._users.items() if used_ms < before_ms]:
            self._forget(name)

    def _forget(self, name: str) -> None:
        query_id, *_ = self._users.pop(name)
        self._rows.delete(query_id)
