"""The figures of all groups of a trace. Pure.

figures = TraceFigures()
for event in sorted(events, key=order_of):
    rows = figures.feed(event)
rows = figures.finish()
figures.groups["billing"].totals()
"""

from __future__ import annotations

from collections.abc import Iterable

from model.events import Event
from traces.figures.changes import Changes
from traces.figures.group import GroupFigures, Row
from traces.figures.records import order_of
from traces.figures.uses import KINDS


class TraceFigures:
    """Figures by group; with `only`, of that group alone."""

    def __init__(self, only: str | None = None) -> None:
        self.groups: dict[str, GroupFigures] = {}
        self._only = only
        self._changes = Changes()  # shared by all groups, because routes and brokers change for all of them

    def feed(self, event: Event) -> list[Row]:
        """Process an event, in the order of `order_of`, and return the finished rows; see `GroupFigures`."""
        if event.kind not in KINDS:
            return []
        if event.group:
            if self._only not in (None, event.group):
                return []
            figures = self.groups.get(event.group)
            if figures is None:
                figures = self.groups[event.group] = GroupFigures(event.group, self._changes)
            return figures.feed(event)
        self._changes.of(event)
        return [row for figures in self.groups.values() for row in figures.feed(event)]

    def finish(self, end_ms: float | None = None) -> list[Row]:
        """End all groups; see `GroupFigures`."""
        return [row for figures in self.groups.values() for row in figures.finish(end_ms)]


def compute_figures(events: Iterable[Event], group: str) -> GroupFigures:
    """Return the figures of one group after all events, given in any order, without ending its open rows."""
    figures = GroupFigures(group)
    for event in sorted(events, key=order_of):
        figures.feed(event)
    figures.advance(figures.now_ms)
    return figures
