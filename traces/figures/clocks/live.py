"""The clocks of a growing trace: gives a tool that follows the trace the right time of each event. Pure.

    clocks = LiveClocks()
    events = clocks.correct(await trace.read(), now_s)
    clocks.faults                        the wrong clocks, by the newest events
    clocks.news()                        the same, each once

Every `COMPARE_S`, the clocks are compared again by the newest `MAX_COMPARED` events. Until then an event is corrected
by the last offset of its node, and an event of a new node keeps its time.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

from model.events import Event
from traces.figures.clocks.clocks import RIGHT_CLOCKS, ClockFault, find_clocks

COMPARE_S = 10.0
"""Interval of comparisons: a wrong clock is detected at most this long after the first events of its node."""
MAX_COMPARED = 5_000
"""Number of compared events: they take a tenth of a second if a clock is wrong, and far less if all are right."""


class LiveClocks:
    """The clocks of the nodes of one trace, by its newest events."""

    def __init__(self) -> None:
        self._clocks = RIGHT_CLOCKS
        self._newest: deque[Event] = deque(maxlen=MAX_COMPARED)
        self._due_s = -math.inf
        self._known: dict[tuple[str, bool], None] = {}

    @property
    def faults(self) -> tuple[ClockFault, ...]:
        """Clocks that were wrong at the last comparison."""
        return self._clocks.faults

    def news(self) -> list[ClockFault]:
        """Return the faults that are new since the last call."""
        old_faults, self._known = self._known, {(fault.node, fault.is_corrected): None for fault in self.faults}
        return [fault for fault in self.faults if (fault.node, fault.is_corrected) not in old_faults]

    def correct(self, events: Sequence[Event], now_s: float) -> Sequence[Event]:
        """Return the events with corrected times, if they are known; `now_s` is any clock that never goes back."""
        self._newest.extend(events)
        if events and now_s >= self._due_s:
            self._due_s = now_s + COMPARE_S
            self._clocks = find_clocks(self._newest)
        return events if self._clocks.are_right else [self._clocks.correct(event) for event in events]
