"""RouteWatchers: which connections are notified of which changed routes, and when. Pure.

A client that wants notifications asks for a route with `notify`; from then on its connection watches the topic. All
changes of a window are one round, in which each connection gets at most one notification:

    watch(7, "orders")                 connection 7 has asked for the route of orders
    changed(["orders", "x"])           at 10.0; no round was shortly before, so one is due at once
    collect_due(10.0)                  -> [(7, ("orders",))]
    changed(["orders"])                at 10.1; next_deadline() 10.5: at most one round in 0.5 s
    closed(7)                          connection 7 is forgotten

So a thousand changes within a second cost two notifications for each client. They are never sent in one burst: a round
handles 256 connections in each event-loop iteration. If a notification is lost, the next poll of its client gets the
new route. RocketMQ's clients only poll, every 30 s.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from model.replica_limits import (
    MAX_NOTICE_TOPICS,
    MAX_WATCHED_TOPICS,
    MAX_WATCHED_TOPICS_OF_ONE,
    ROUTE_NOTICE_WINDOW_S,
    ROUTE_NOTICES_AT_ONCE,
)


class RouteNotice(NamedTuple):
    """A notification for one connection, by its number; it watches all of these topics, which have changed."""

    connection: int
    topics: tuple[str, ...]


class RouteWatchers:
    """See the module header; times are loop times in seconds."""

    def __init__(self, max_of_one: int = MAX_WATCHED_TOPICS_OF_ONE, max_of_all: int = MAX_WATCHED_TOPICS) -> None:
        self.refused = 0  # watches that found no place
        self._max_of_one = max_of_one
        self._max_of_all = max_of_all
        self._watched: dict[int, dict[str, None]] = {}  # by connection
        self._n = 0  # all of these topics together
        self._changed: dict[str, None] = {}  # for the next round
        self._round: dict[str, None] = {}
        self._to_do: list[int] = []  # the connections that the round has not come to, the next one last
        self._not_before = 0.0  # when the next round may begin

    def __len__(self) -> int:
        return len(self._watched)

    def watch(self, connection: int, topic: str) -> bool:
        """Notify a connection of changes of a topic from now on; False if there is no place for one more."""
        topics = self._watched.get(connection, {})
        if topic in topics:
            return True
        if len(topics) >= self._max_of_one or self._n >= self._max_of_all:
            self.refused += 1
            return False
        topics[topic] = None
        self._watched[connection] = topics
        self._n += 1
        return True

    def closed(self, connection: int) -> None:
        """Forget a connection; harmless if it watches nothing."""
        self._n -= len(self._watched.pop(connection, ()))

    def changed(self, topics: Iterable[str]) -> None:
        """Record that the routes of these topics have changed."""
        if self._watched:
            self._changed.update(dict.fromkeys(topics))

    def collect_due(self, now: float) -> list[RouteNotice]:
        """The notifications due now, for a limited number of connections; `next_deadline` is 0 while more wait."""
        if not self._to_do:
            if not self._changed or now < self._not_before:
                return []
            self._round, self._changed = self._changed, {}
            self._to_do = list(reversed(self._watched))
            self._not_before = now + ROUTE_NOTICE_WINDOW_S
        due, self._to_do = self._to_do[-ROUTE_NOTICES_AT_ONCE:], self._to_do[:-ROUTE_NOTICES_AT_ONCE]
        notices = []
        for connection in reversed(due):
            if topics := self._watched.get(connection, {}).keys() & self._round.keys():
                notices.append(RouteNotice(connection, tuple(sorted(topics))))
        return notices

    def next_deadline(self) -> float | None:
        """When to call `collect_due` next; None if nothing has changed."""
        if self._to_do:
            return 0.0
        return self._not_before if self._changed else None


def named_topics(topics: tuple[str, ...]) -> list[str] | None:
    """The topics that a notification names; None for more than it may name, and the client asks for all of its own."""
    return list(topics) if len(topics) <= MAX_NOTICE_TOPICS else None
