"""Counts the costs of a replay with the figures of `traces/figures/`: it converts the replay to events. Pure.

    span c1 16 .. 1004 revoked      QUEUE_ACQUIRED at 16, QUEUE_DROPPED at 1004
    span c1 10 .. 15000 silent      QUEUE_ACQUIRED at 10; LOCK_EXPIRED at 20000, when its broker removes c1

A member that hangs owns its queues until their leases end, so its silence is not orphan time and is counted separately.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator

from model.events import Event, EventKind
from model.message_queue import MessageQueue
from pipeline.replay.recorded import RecordedGroup
from pipeline.replay.replay import ReplayOutcome
from traces.figures.records import GroupTotals
from traces.figures.trace import compute_figures

_CAUSE = "replay/0"
"""The cause of all events: to divide them into rebalances would take as long as to count the costs."""
_MEMBERS = "members"
"""Node of events about members, on behalf of all brokers."""


def replay_figures(recorded: RecordedGroup, outcome: ReplayOutcome) -> GroupTotals:
    """Return the figures of a replay up to the end of the trace, without duplicates, and as one rebalance."""
    parts = [*_of_members(recorded, outcome), *_of_routes(recorded), *_of_queues(outcome)]
    events = (
        event._replace(seq=seq, cause=_CAUSE, group="" if event.kind == _ROUTE else recorded.group)
        for seq, event in enumerate(parts, 1)
    )
    figures = compute_figures(events, recorded.group)
    figures.advance(recorded.end_ms)
    return figures.totals()


def silent_ms(recorded: RecordedGroup, outcome: ReplayOutcome) -> float:
    """Return the time for which queues belonged to members that were dead or hung, summed over the queues."""
    ends: dict[tuple[MessageQueue, str], list[float]] = defaultdict(list)
    for each in outcome.expired:
        ends[each.queue, each.from_client].append(each.at_ms)
    for span in outcome.spans:
        ends[span.queue, span.client].append(span.from_ms)  # the member is back before its lease has ended
    for times in ends.values():
        times.sort()
    total = 0.0
    for span in outcome.spans:
        if span.ended == "silent":
            times = ends[span.queue, span.client]
            index = bisect_left(times, span.to_ms)
            total += (times[index] if index < len(times) else recorded.end_ms) - span.to_ms
    return total


_ROUTE = EventKind.ROUTE_CHANGED


def _of_members(recorded: RecordedGroup, outcome: ReplayOutcome) -> Iterator[Event]:
    subscribed: dict[str, list[tuple[float, tuple[str, ...]]]] = defaultdict(list)
    for change in recorded.changes:
        if change.topics is not None:  # leaves are in `outcome.alive`
            subscribed[change.client].append((change.at_ms, change.topics))
    for since, until, client in outcome.alive:
        for (begin, topics), (end, _) in itertools.pairwise([*subscribed[client], (float("inf"), ())]):
            if begin < until and end > since:
                at_ms, detail = max(since, begin), " ".join(f"{topic}=*" for topic in topics)
                yield Event(at_ms, _MEMBERS, 0, EventKind.MEMBER_JOIN, broker=_MEMBERS, client=client, detail=detail)
        if until < recorded.end_ms:
            yield Event(until, _MEMBERS, 0, EventKind.MEMBER_LEAVE, broker=_MEMBERS, client=client)


def _of_routes(recorded: RecordedGroup) -> Iterator[Event]:
    for topic, states in recorded.routes.of_topic.items():
        brokers: set[str] = set()
        for at_ms, queues in states:
            brokers.update(queue.broker_name for queue in queues)
            for broker in sorted(brokers):
                yield Event(at_ms, broker, 0, _ROUTE, topic=topic, broker=broker, n=_queues_of(broker, queues))


def _queues_of(broker: str, queues: Iterable[MessageQueue]) -> int:
    return max((queue.queue_id + 1 for queue in queues if queue.broker_name == broker), default=0)


def _of_queues(outcome: ReplayOutcome) -> Iterator[Event]:
    # Each lease gets a new, higher token, because the figures let no ownership begin after the end of its lease.
    leases: dict[tuple[MessageQueue, str], list[tuple[float, int]]] = defaultdict(list)
    for token, span in enumerate(sorted(outcome.spans, key=lambda span: span.from_ms), 1):
        leases[span.queue, span.client].append((span.from_ms, token))
        yield _of_queue(span.from_ms, span.client, EventKind.QUEUE_ACQUIRED, span.queue, span.client, token)
        if span.ended not in ("silent", "open"):
            yield _of_queue(span.to_ms, span.client, EventKind.QUEUE_DROPPED, span.queue, span.client, token)
    for each in outcome.expired:
        leases_begun = leases[each.queue, each.from_client]
        token = max((lease for lease in leases_begun if lease[0] <= each.at_ms), default=(0.0, 0))[1]
        node = each.queue.broker_name
        yield _of_queue(each.at_ms, node, EventKind.LOCK_EXPIRED, each.queue, each.from_client, token)


def _of_queue(at_ms: float, node: str, kind: EventKind, queue: MessageQueue, client: str, token: int) -> Event:
    topic, broker, queue_id = queue
    return Event(
        at_ms,
        node,
        0,
        kind,
        topic=topic,
        broker=broker,
        queue_id=queue_id,
        client=client,
        version=token,
        detail="replay",
    )
