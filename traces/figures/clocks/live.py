"""The clocks of a trace that grows: a tool that follows one gives each event its right time as it comes. Pure.

    clocks = LiveClocks()
    events = clocks.correct(await trace.read(), now_s)
    clocks.faults                        those that are wrong, by the newest events
    clocks.news()                        the same, each once

Clocks are compared again every `COMPARE_S`, by the newest `MAX_COMPARED` events. Until then an event has the offset
that its node had last, and one of a node that was not compared yet has the time of its node.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

from model.events import Event
from traces.figures.clocks.clocks import RIGHT_CLOCKS, ClockFault, clocks_of

COMPARE_S = 10.0
"""How often clocks are compared: a wrong clock is known so long after the first events of its node at most."""
MAX_COMPARED = 5_000
"""Events by which they are compared: a tenth of a second of work if a clock is wrong, and far less if none is."""


class LiveClocks:
    """The clocks of the nodes of one trace, by its newest events."""

    def __init__(self) -> None:
        self._clocks = RIGHT_CLOCKS
        self._newest: deque[Event] = deque(maxlen=MAX_COMPARED)
        self._due_s = -math.inf
        self._known: dict[tuple[str, bool], None] = {}

    @property
    def faults(self) -> tuple[ClockFault, ...]:
        """Clocks that were wrong when they were compared last."""
        return self._clocks.faults

    def news(self) -> list[ClockFault]:
        """Those of `faults` that are new since the last call."""
        known, self._known = self._known, {(fault.node, fault.is_corrected): None for fault in self.faults}
        return [fault for fault in self.faults if (fault.node, fault.is_corrected) not in known]

    def correct(self, events: Sequence[Event], now_s: float) -> Sequence[Event]:
        """The events, with their right times as far as they are known; `now_s` is any clock that never goes back."""
        self._newest.extend(events)
        if events and now_s >= self._due_s:
            self._due_s = now_s + COMPARE_S
            self._clocks = clocks_of(self._newest)
        return events if self._clocks.are_right else [self._clocks.correct(event) for event in events]
