"""Reads from the ROUTE_CHANGED events of a trace the queues of each topic that every client knew over time. Pure.

A broker reports the queues that it serves; a client reports only the number of queues in its route, over all brokers. A
client that reports n queues is assumed to have the newest state of the topic with n queues.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

from model.events import Event, EventKind
from model.message_queue import MessageQueue

Queues = tuple[MessageQueue, ...]
_MOST_DOWN = 2
"""Brokers of a topic that may be missing from a client's route at the same time."""


class SeenRoute(NamedTuple):
    """The queues of a topic in a client's route from `at_ms` on."""

    at_ms: float
    topic: str
    queues: Queues


@dataclass(frozen=True, slots=True)
class Routes:
    """Routes of a trace.

    Attributes:
        of_topic: topic -> (time, all queues), in order; an entry at 0 belongs to a topic older than the trace.
    """

    of_client: Mapping[str, list[SeenRoute]]  # client -> its routes, in order
    of_topic: Mapping[str, list[tuple[float, Queues]]]

    def at(self, topic: str, at_ms: float) -> Queues:
        """Return the queues of a topic on all brokers at a time; empty if the topic does not exist yet."""
        states = self.of_topic.get(topic, [])
        index = bisect_right(states, at_ms, key=lambda state: state[0])
        return states[index - 1][1] if index else ()


def read_routes(timed: Sequence[tuple[float, Event]]) -> Routes:
    """Read the routes of all topics from events with their times in milliseconds, in order."""
    of_topic = _of_topics(timed)
    of_client: dict[str, list[SeenRoute]] = defaultdict(list)
    for at_ms, event in timed:
        if event.kind == EventKind.ROUTE_CHANGED and event.client:
            queues = _state_with(of_topic.get(event.topic, []), at_ms, max(event.n, 0))
            of_client[event.client].append(SeenRoute(at_ms, event.topic, queues))
    return Routes(dict(of_client), of_topic)


def _of_topics(timed: Sequence[tuple[float, Event]]) -> dict[str, list[tuple[float, Queues]]]:
    reported: set[tuple[str, str]] = set()
    used: dict[tuple[str, str], int] = {}
    for _, event in timed:
        if event.kind == EventKind.ROUTE_CHANGED and event.broker and not event.client:
            reported.add((event.topic, event.broker))
        elif event.queue_id >= 0:
            key = (event.topic, event.broker)
            used[key] = max(used.get(key, 0), event.queue_id + 1)
    counts: dict[str, dict[str, int]] = defaultdict(dict)
    of_topic: dict[str, list[tuple[float, Queues]]] = {}
    # A topic older than the trace has no event that reports its queues; events about its queues show the highest id.
    for (topic, broker), queues in used.items():
        if (topic, broker) not in reported:
            counts[topic][broker] = queues
    for topic, of_brokers in counts.items():
        of_topic[topic] = [(0.0, _queues(topic, of_brokers))]
    for at_ms, event in timed:
        if event.kind == EventKind.ROUTE_CHANGED and event.broker and not event.client:
            counts[event.topic][event.broker] = max(event.n, 0)
            of_topic.setdefault(event.topic, []).append((at_ms, _queues(event.topic, counts[event.topic])))
    return of_topic


def _queues(topic: str, counts: Mapping[str, int]) -> Queues:
    return tuple(sorted(MessageQueue(topic, broker, n) for broker, queues in counts.items() for n in range(queues)))


def _state_with(states: Sequence[tuple[float, Queues]], at_ms: float, n: int) -> Queues:
    index = bisect_right(states, at_ms, key=lambda state: state[0])
    for _, queues in reversed(states[:index]):
        if len(queues) == n:
            return queues
    newest = states[index - 1][1] if index else ()
    brokers = sorted({queue.broker_name for queue in newest})
    # A broker that is down has no queues in the client's route.
    for down in range(1, min(len(brokers), _MOST_DOWN + 1)):
        for names in combinations(brokers, down):
            left = tuple(queue for queue in newest if queue.broker_name not in names)
            if len(left) == n:
                return left
    return newest if n else ()
