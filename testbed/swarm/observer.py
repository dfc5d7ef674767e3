"""Observes a swarm: counts its messages, and the figures of its group. Pure.

`traces/figures/` computes the figures, so a report of the same run has the same figures. The events must keep the rules
of `rlab check` (`traces/check`), except rules that need the events of brokers. The group has converged when each queue
has the owner that the strategy assigns (`testbed/simulation/checks/ownership.py`). The time from the first change until
then is one *convergence*, which may have several rebalances: if eight members start together, there are eight
rebalances and one convergence.

The members are known only from the swarm's own clients (CLIENT_START, CLIENT_STOP), so the group must have no other
members. Events of several processes arrive in bunches. Each is held for `settle_ms`, and then counted in order of time.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from enum import StrEnum

from client.allocate import AllocateMessageQueueStrategy
from model.events import Event, EventKind
from model.message_queue import MessageQueue
from testbed.simulation.checks.ownership import OwnershipTracker
from traces.check.check import HistoryCheck
from traces.check.delivery import DeliveryCheck
from traces.check.limits import HistoryLimits
from traces.check.words import headline
from traces.figures.records import GroupTotals, Rebalance, order_of

TARGETS_AT_ONCE = 100_000
"""Members times queues up to which the targets of all members are computed at each join and leave: some 10 ms."""
TARGETS_PER_MS = 4_000
"""Above it they are computed so seldom that they take a small part of the time, even while a thousand members join."""
MAX_TIMES = 10_000
"""Rebalances whose times the percentiles are computed from; the oldest are forgotten."""

LIMITS = HistoryLimits(flap_moves=10_000, needless_passes=10_000)
"""The churn causes any number of moves and passes, so these limits are out of reach: only the other rules apply."""

_MOVES = frozenset({EventKind.QUEUE_ACQUIRED, EventKind.QUEUE_DROPPED})
_JUDGED = _MOVES | {EventKind.CLIENT_START, EventKind.CLIENT_STOP}
"""Kinds of events that change whether a group has converged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Convergence:
    """A time after which the group had converged again.

    Attributes:
        what: as in `2 joined, 1 left`.
        trigger: of the passes in it, joined by `+`.
        converged_ms: from its begin; None if it did not converge.
    """

    what: str
    trigger: str
    members: int
    rebalances: int  # that moved a queue
    moves: int
    needed: int
    converged_ms: float | None


class SwarmVerdict(StrEnum):
    """The result of a swarm. UNREAD and UNKNOWN: nothing failed, and not everything was received."""

    PASSED = "passed"
    UNREAD = "unread"
    UNKNOWN = "unknown"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class SwarmSummary:
    """Result of a swarm.

    Attributes:
        lost: messages acknowledged, not received, and not in a queue for the group. During a run it is the lag.
        unread: messages acknowledged and not received, which are in a queue for the group.
        unknown: messages acknowledged and not received, whose queues could not be read: they may be unread or lost.
        rebalances, queues_moved, needed: see `traces/figures/records.py`, also for the figures below. They count up to
            now; at the end they are the figures of `in_all`, for the whole run with the leaves of all consumers.
        balance_ms_p50, balance_ms_p95: time to balance of a rebalance that moved a queue; None without one. The leaves
            at the end do not count.
        double_owner_ms, orphan_ms: time that queues had two owners, or no owner, summed over the queues.
        broken: a line for each anomaly of the history, as `rlab check` prints it.
        in_all: figures of the whole run; None until its consumers have left. `rlab report` has the same figures.
        converged: whether the group had converged before its consumers left.
    """

    ok: bool  # everything was received, nothing broke, and the group had converged at the end
    sent: int  # messages acknowledged to a producer
    failed_sends: int  # some of their messages may be stored
    received_unique: int  # messages received, each counted once
    lost: int
    duplicates: int  # receipts beyond the first of each message
    consumers: int  # members at the end
    queues: int  # queues of the topic at the end
    rebalances: int
    queues_moved: int
    needed: int
    balance_ms_p50: float | None
    balance_ms_p95: float | None
    double_owner_ms: float
    orphan_ms: float
    broken: tuple[str, ...] = ()
    in_all: GroupTotals | None = None
    unread: int = 0
    unknown: int = 0
    converged: bool = True

    @property
    def verdict(self) -> SwarmVerdict:
        """The result in a word."""
        if self.ok:
            return SwarmVerdict.PASSED
        if self.lost or self.broken or not self.converged or not (self.unread or self.unknown):
            return SwarmVerdict.FAILED
        return SwarmVerdict.UNKNOWN if self.unknown else SwarmVerdict.UNREAD


class SwarmObserver:
    """A `SwarmSink` that counts and measures.

    `settle_ms` is the time for which events are held to be sorted, 0 if they come in order. `on_converged` is called
    each time that the group has converged.
    """

    def __init__(
        self,
        group: str,
        topic: str,
        strategy: AllocateMessageQueueStrategy,
        *,
        settle_ms: float = 0.0,
        on_converged: Callable[[Convergence], object] = lambda convergence: None,
    ) -> None:
        self.check = DeliveryCheck()
        self.history = HistoryCheck(LIMITS, only=group)
        self.tracker = OwnershipTracker(group, topic, strategy)
        self.acknowledged = self.check.acknowledged
        self.failed = self.check.failed
        self.received = self.check.received
        self._group = group
        self._topic = topic
        self._settle_ms = settle_ms
        self._on_converged = on_converged
        self._held: list[tuple[tuple[float, bool, str, int], Event]] = []
        self._members: dict[str, None] = {}
        self._queues: tuple[MessageQueue, ...] = ()
        self._expect_due = False  # members or queues have changed since the last update of the tracker
        self._expected_ms = -math.inf
        self._converging = False
        self._joined = self._left = 0
        self._before = GroupTotals(group=group)
        self._times: deque[float] = deque(maxlen=MAX_TIMES)  # of rebalances that are over

    # --- events ------------------------------------------------------------------------------------------------------

    def event(self, event: Event) -> None:
        """Record an event; it counts at once, or when it is old enough for `advance`."""
        if self._settle_ms:
            heapq.heappush(self._held, (order_of(event), event))
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
        self._find_end()

    def advance(self, now_ms: float) -> None:
        """Count the held events that are old enough, and update the times."""
        while self._held and self._held[0][0][0] <= now_ms - self._settle_ms:
            self._pass(heapq.heappop(self._held)[1])
        self.tracker.figures.advance(now_ms - self._settle_ms)
        if self._expect_due and now_ms - self._expected_ms >= self._targets / TARGETS_PER_MS:
            self._expected_ms = now_ms
            self._update_tracker(now_ms - self._settle_ms)
            self._find_end()

    def in_all(self) -> GroupTotals:
        """Count all held events, and return the figures of the whole run; to be called once its consumers have left."""
        while self._held:
            self._pass(heapq.heappop(self._held)[1])
        return round_times(self.tracker.figures.totals())

    def _pass(self, event: Event) -> None:
        self.history.feed(event)
        kind = event.kind
        if event.group == self._group and kind == EventKind.CLIENT_START and event.client not in self._members:
            self._begin(event.t_ms)
            self._joined += 1
            self._members[event.client] = None
            self._expect(event.t_ms)
        elif event.group == self._group and kind == EventKind.CLIENT_STOP and event.client in self._members:
            self._begin(event.t_ms)
            self._left += 1
            del self._members[event.client]
            self._expect(event.t_ms)
        elif kind in _MOVES and event.topic == self._topic and event.group == self._group:
            self._begin(event.t_ms)
        for row in self.tracker.process(event):
            if isinstance(row, Rebalance) and row.moves:
                self._times.append(row.balance_ms)
        self._find_end()

    @property
    def _targets(self) -> int:
        return len(self._members) * len(self._queues)

    def _expect(self, now_ms: float) -> None:
        if self._targets <= TARGETS_AT_ONCE:
            self._update_tracker(now_ms)
        else:
            self._expect_due = True  # for `advance`

    def _update_tracker(self, now_ms: float) -> None:
        self._expect_due = False
        self.tracker.expect(self._members, self._queues, now_ms)

    def _begin(self, now_ms: float) -> None:
        if not self._converging:
            self._converging = True
            self._joined = self._left = 0
            self.tracker.begin("", now_ms)
            self._before = self.tracker.figures.totals()

    def _find_end(self) -> None:
        if not self._converging or self._expect_due or not self.tracker.converged:
            return
        self._converging = False
        step, old_totals, new_totals = self.tracker.end(), self._before, self.tracker.figures.totals()
        self._on_converged(
            Convergence(
                what=self._name(),
                trigger=step.trigger,
                members=step.members,
                rebalances=new_totals.rebalances - old_totals.rebalances,
                moves=new_totals.moves - old_totals.moves,
                needed=max(0, new_totals.needed - old_totals.needed),
                converged_ms=step.converged_ms,
            )
        )

    def _name(self) -> str:
        parts = [f"{n} {change}" for n, change in ((self._joined, "joined"), (self._left, "left")) if n]
        return ", ".join(parts) or "queues moved by themselves"

    # --- results -----------------------------------------------------------------------------------------------------

    @property
    def balanced(self) -> bool:
        """Whether the group has converged, and no held event can change that."""
        return not self._converging and not any(event.kind in _JUDGED for _, event in self._held)

    def summary(self) -> SwarmSummary:
        """The counts and figures so far."""
        check, totals = self.check, round_times(self.tracker.figures.totals())
        open_times = [row.balance_ms for row in self.tracker.figures.rebalances() if row.moves]
        times = sorted([*self._times, *open_times])
        broken = tuple(headline(anomaly) for anomaly in self.history.anomalies if not anomaly.doubt)
        return SwarmSummary(
            ok=check.lost == 0 and self.balanced and not broken,
            converged=self.balanced,
            sent=check.sent,
            failed_sends=check.failed_sends,
            received_unique=check.received_unique,
            lost=check.lost,
            duplicates=check.duplicates,
            consumers=len(self._members),
            queues=len(self._queues),
            rebalances=totals.rebalances,
            queues_moved=totals.moves,
            needed=totals.needed,
            balance_ms_p50=_percentile(times, 0.50),
            balance_ms_p95=_percentile(times, 0.95),
            double_owner_ms=totals.double_ms,
            orphan_ms=totals.orphan_ms,
            broken=broken,
        )

    def final(self, summary: SwarmSummary, *, unread: int = 0, unknown: int = 0) -> SwarmSummary:
        """The summary of the whole run, once its consumers have left.

        Args:
            summary: the summary before they left; `converged` and `broken` are taken from it.
            unread: number of messages that were not received and are in queues for the group.
            unknown: number of messages that were not received and whose queues could not be read. The others are lost.
        """
        check, totals = self.check, self.in_all()
        return replace(
            summary,
            ok=check.lost == 0 and summary.converged and not summary.broken,
            sent=check.sent,
            failed_sends=check.failed_sends,
            received_unique=check.received_unique,
            lost=check.lost - unread - unknown,
            unread=unread,
            unknown=unknown,
            duplicates=check.duplicates,
            rebalances=totals.rebalances,
            queues_moved=totals.moves,
            needed=totals.needed,
            double_owner_ms=totals.double_ms,
            orphan_ms=totals.orphan_ms,
            in_all=totals,
        )


def round_times(totals: GroupTotals) -> GroupTotals:
    """The figures with times as they are printed: to a tenth of a millisecond."""
    times = [field.name for field in fields(totals) if field.name.endswith("_ms")]
    return replace(totals, **{name: round(getattr(totals, name), 1) for name in times})


def _percentile(ordered: list[float], share: float) -> float | None:
    """The nearest-rank percentile: always a measured time, without interpolation."""
    if not ordered:
        return None
    return round(ordered[max(0, math.ceil(share * len(ordered)) - 1)], 1)
