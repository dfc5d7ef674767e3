"""The metrics of groups of a whole cluster, computed from the events of its trace. Pure.

    counts = TraceCounts(on_rebalance=...)
    counts.add(events)               # as they arrive; events of several nodes may be out of order by some seconds
    counts.advance(now_ms)           # counts the events that are old enough
    for family, samples in counts.metrics(): ...

`traces/figures/` computes the figures, so a report of the same trace has the same ones.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator

from metrics.families import (
    GROUP_DOUBLE_TIME,
    GROUP_DUPLICATES,
    GROUP_HANDED_OUT,
    GROUP_MEMBERS,
    GROUP_MOVES,
    GROUP_NEEDED,
    GROUP_ORPHAN_TIME,
    GROUP_ORPHANS,
    GROUP_PAUSE_TIME,
    GROUP_REBALANCES,
    TRACE_LATE,
    TRACE_MISSING,
    TRACE_READ,
    Family,
    Samples,
)
from model.events import Event
from model.missing_trace import NOTHING_MISSING
from traces.figures.records import GroupTotals, Rebalance, order_of
from traces.figures.trace import TraceFigures

SETTLE_MS = 3_000.0
"""How long an event is held, because older events of other nodes may arrive later: nodes send once a second."""
MAX_HELD = 1_000_000
"""Maximum number of held events; beyond it, the oldest are counted at once."""

_FIGURES: dict[Family, Callable[[GroupTotals], float]] = {
    GROUP_MEMBERS: lambda totals: totals.members,
    GROUP_ORPHANS: lambda totals: totals.orphans,
    GROUP_REBALANCES: lambda totals: totals.rebalances,
    GROUP_MOVES: lambda totals: totals.moves,
    GROUP_NEEDED: lambda totals: totals.needed,
    GROUP_HANDED_OUT: lambda totals: totals.handed_out,
    GROUP_DUPLICATES: lambda totals: totals.duplicates,
    GROUP_ORPHAN_TIME: lambda totals: totals.orphan_ms / 1000,
    GROUP_DOUBLE_TIME: lambda totals: totals.double_ms / 1000,
    GROUP_PAUSE_TIME: lambda totals: totals.pause_ms / 1000,
}


class TraceCounts:
    """Counts the events of a trace; calls `on_rebalance` with each completed rebalance that moved a queue."""

    def __init__(
        self, *, settle_ms: float = SETTLE_MS, on_rebalance: Callable[[Rebalance], object] = lambda rebalance: None
    ) -> None:
        self._figures = TraceFigures()
        self._settle_ms = settle_ms
        self._on_rebalance = on_rebalance
        self._held: list[tuple[tuple[float, bool, str, int], Event]] = []
        self._newest: tuple[float, bool, str, int] | None = None
        self._read = self._late = 0
        self.missing = NOTHING_MISSING  # as of the last read

    def add(self, events: Iterable[Event]) -> None:
        """Hold events until they are old enough."""
        for event in events:
            self._read += 1
            heapq.heappush(self._held, (order_of(event), event))
            if len(self._held) > MAX_HELD:
                self._count_oldest()

    def advance(self, now_ms: float) -> None:
        """Count the events that are old enough, and advance the time of all groups."""
        until_ms = now_ms - self._settle_ms
        while self._held and self._held[0][0][0] <= until_ms:
            self._count_oldest()
        for figures in self._figures.groups.values():
            figures.advance(until_ms)

    def _count_oldest(self) -> None:
        key, event = heapq.heappop(self._held)
        if self._newest is not None and key < self._newest:
            self._late += 1
        else:
            self._newest = key
        for row in self._figures.feed(event):
            if isinstance(row, Rebalance) and row.moves:
                self._on_rebalance(row)

    def metrics(self) -> Iterator[Samples]:
        """Yield the metrics of all counted events."""
        yield TRACE_READ, [((), self._read)]
        yield TRACE_LATE, [((), self._late)]
        yield TRACE_MISSING, [((), len(self.missing.parts))]
        totals = {group: figures.totals() for group, figures in sorted(self._figures.groups.items())}
        # Producer groups have events as well, and no queues.
        totals = {group: each for group, each in totals.items() if each.members_joined or each.acquisitions}
        for family, figure in _FIGURES.items():
            yield family, [((group,), figure(each)) for group, each in totals.items()]
