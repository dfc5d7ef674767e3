"""Observes a swarm: counts its messages, and measures how long its group takes to converge each time. Pure.

A rebalance begins when a member joins or leaves, when the queues of the topic change, or when a queue of a converged
group changes its owner for another reason (a broker is down, a connection broke). It ends when the group has converged.
Further changes until then belong to it: eight members that start together are one rebalance.

Members are those that the swarm's own clients report (CLIENT_START, CLIENT_STOP), so no other members may be in the
group. Events of several processes arrive in bunches; each is held for `settle_ms`, and they pass in order of time.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from client.allocate import AllocateMessageQueueStrategy
from model.events import Event, EventKind
from model.message_queue import MessageQueue
from simulation.checks.delivery import DeliveryCheck
from simulation.checks.ownership import OwnershipTracker, RebalanceStep

MAX_TIMES = 10_000
"""Rebalances whose times the percentiles are computed from; the oldest are forgotten."""

_MOVES = frozenset({EventKind.QUEUE_ACQUIRED, EventKind.QUEUE_DROPPED})


@dataclass(frozen=True, slots=True, kw_only=True)
class SwarmCounts:
    """Counts from the first join to the last leave, which are those of a trace of the run."""

    members_joined: int
    members_left: int
    acquisitions: int  # times that a consumer got a queue of the topic
    moves: int  # acquisitions from another consumer, or of a queue without an earlier owner
    handed_out: int  # messages dispatched to listeners, duplicates included
    duplicates: int  # how many of them were duplicates


@dataclass(frozen=True, slots=True, kw_only=True)
class SwarmSummary:
    """Result of a swarm.

    Attributes:
        converged_ms_p50, converged_ms_p95: duration of a rebalance; None without one.
        double_owner_ms, orphan_ms: time that queues had two owners, or none, summed over the queues.
        in_all: counts of the whole run; None until its consumers have left. `rlab report` has the same ones.
    """

    ok: bool  # nothing was lost, and the group had converged at the end
    sent: int  # messages acknowledged to a producer
    failed_sends: int  # some of their messages may be stored
    received_unique: int  # messages received, each counted once
    lost: int  # messages acknowledged and not received
    duplicates: int  # receipts beyond the first of each message
    consumers: int  # members at the end
    queues: int  # queues of the topic at the end
    rebalances: int  # how many have ended
    queues_moved: int  # how often a queue went to another owner
    converged_ms_p50: float | None
    converged_ms_p95: float | None
    double_owner_ms: float
    orphan_ms: float
    in_all: SwarmCounts | None = None


class SwarmObserver:
    """A `SwarmSink` that counts and measures.

    `settle_ms` is how long events are held to be sorted, 0 if they come in order. `on_rebalance` is called with each
    rebalance that ended.
    """

    def __init__(
        self,
        group: str,
        topic: str,
        strategy: AllocateMessageQueueStrategy,
        *,
        settle_ms: float = 0.0,
        on_rebalance: Callable[[RebalanceStep], object] = lambda rebalance: None,
    ) -> None:
        self.check = DeliveryCheck()
        self.tracker = OwnershipTracker(group, topic, strategy)
        self.acknowledged = self.check.acknowledged
        self.failed = self.check.failed
        self.received = self.check.received
        self._group = group
        self._topic = topic
        self._settle_ms = settle_ms
        self._on_rebalance = on_rebalance
        self._held: list[tuple[float, str, int, Event]] = []
        self._members: dict[str, None] = {}
        self._queues: tuple[MessageQueue, ...] = ()
        self._rebalancing = False
        self._joined = self._left = 0
        self._times: deque[float] = deque(maxlen=MAX_TIMES)
        self._rebalances = self._moved = 0
        self._joined_in_all = self._left_in_all = 0

    # --- what happens ------------------------------------------------------------------------------------------------

    def event(self, event: Event) -> None:
        """Record an event; it counts at once, or when it is old enough for `advance`."""
        if self._settle_ms:
            heapq.heappush(self._held, (event.t_ms, event.node, event.seq, event))
        else:
            self._pass(event)

    def set_queues(self, queues: Iterable[MessageQueue], now_ms: float) -> None:
        """Set the queues of the topic; to be called with every route."""
        new = tuple(sorted(queues))
        if new == self._queues:
            return
        self._queues = new
        if self._members:
            self._begin(now_ms)
        self._expect(now_ms)
        self._look_for_end()

    def advance(self, now_ms: float) -> None:
        """Count the held events that are old enough, and update the times."""
        while self._held and self._held[0][0] <= now_ms - self._settle_ms:
            self._pass(heapq.heappop(self._held)[3])
        self.tracker.account(now_ms - self._settle_ms)

    def in_all(self) -> SwarmCounts:
        """Count all held events, and return the counts of the whole run; to be called once its consumers have left."""
        while self._held:
            self._pass(heapq.heappop(self._held)[3])
        return SwarmCounts(
            members_joined=self._joined_in_all,
            members_left=self._left_in_all,
            acquisitions=self.tracker.acquisitions,
            moves=self.tracker.moves,
            handed_out=self.check.received_unique + self.check.duplicates,
            duplicates=self.check.duplicates,
        )

    def _pass(self, event: Event) -> None:
        kind = event.kind
        if event.group == self._group and kind == EventKind.CLIENT_START and event.client not in self._members:
            self._begin(event.t_ms)
            self._joined += 1
            self._joined_in_all += 1
            self._members[event.client] = None
            self._expect(event.t_ms)
        elif event.group == self._group and kind == EventKind.CLIENT_STOP and event.client in self._members:
            self._begin(event.t_ms)
            self._left += 1
            self._left_in_all += 1
            del self._members[event.client]
            self._expect(event.t_ms)
        elif kind in _MOVES and event.topic == self._topic and event.group == self._group:
            self._begin(event.t_ms)
        self.tracker.take(event)
        self._look_for_end()

    def _expect(self, now_ms: float) -> None:
        self.tracker.expect(self._members, self._queues, now_ms)

    def _begin(self, now_ms: float) -> None:
        if not self._rebalancing:
            self._rebalancing = True
            self._joined = self._left = 0
            self.tracker.begin("", now_ms)

    def _look_for_end(self) -> None:
        if not self._rebalancing or not self.tracker.converged:
            return
        self._rebalancing = False
        ended = replace(self.tracker.end(), step=self._name())
        self._rebalances += 1
        self._moved += ended.queues_moved
        if ended.converged_ms is not None:
            self._times.append(ended.converged_ms)
        self._on_rebalance(ended)

    def _name(self) -> str:
        parts = [f"{n} {what}" for n, what in ((self._joined, "joined"), (self._left, "left")) if n]
        return ", ".join(parts) or "queues moved by themselves"

    # --- looking -----------------------------------------------------------------------------------------------------

    @property
    def balanced(self) -> bool:
        """Whether the group has converged, as far as events have passed."""
        return not self._rebalancing and not self._held

    def summary(self) -> SwarmSummary:
        """Everything so far."""
        check, times = self.check, sorted(self._times)
        return SwarmSummary(
            ok=check.lost == 0 and self.balanced,
            sent=check.sent,
            failed_sends=check.failed_sends,
            received_unique=check.received_unique,
            lost=check.lost,
            duplicates=check.duplicates,
            consumers=len(self._members),
            queues=len(self._queues),
            rebalances=self._rebalances,
            queues_moved=self._moved,
            converged_ms_p50=_percentile(times, 0.50),
            converged_ms_p95=_percentile(times, 0.95),
            double_owner_ms=round(self.tracker.double_owner_ms, 1),
            orphan_ms=round(self.tracker.orphan_ms, 1),
        )


def _percentile(ordered: list[float], share: float) -> float | None:
    """The nearest-rank percentile: a measured time, never one between two."""
    if not ordered:
        return None
    return round(ordered[max(0, math.ceil(share * len(ordered)) - 1)], 1)
