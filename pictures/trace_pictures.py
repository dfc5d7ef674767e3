"""The pictures of all groups of a trace. Pure.

pictures = TracePictures(base_ms)
pictures.take(events)          # as they arrive; events of several nodes may be out of order by some seconds
pictures.advance(now_ms)       # draws the events that are old enough
pictures.groups["billing"].news()
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from model.events import Event
from model.limits import MAX_HELD_EVENTS, MAX_PICTURES, TRACE_FLUSH_INTERVAL_S
from pictures.group_picture import PICTURE_KINDS, GroupPicture
from traces.figures.changes import Changes
from traces.figures.records import order_of

SETTLE_MS = 2_500.0
"""How long an event is held, because earlier events of other nodes may arrive later: nodes send once a second, and the
trace is read twice a second. An event that arrives even later counts at the newest time seen.
"""

assert TRACE_FLUSH_INTERVAL_S * 1000 * 2 < SETTLE_MS, (
    "events of other nodes are still held when an event arrives that was sent at once"
)


class TracePictures:
    """Groups by name, at most `MAX_PICTURES`."""

    def __init__(self, base_ms: float, *, settle_ms: float = SETTLE_MS) -> None:
        self.groups: dict[str, GroupPicture] = {}
        self.base_ms = base_ms
        self.settled_ms = base_ms  # all events up to this time are drawn
        self._settle_ms = settle_ms
        self._changes = Changes()
        self._held: list[tuple[tuple[float, bool, str, int], Event]] = []

    def add(self, events: Iterable[Event]) -> None:
        """Hold events until they are old enough; beyond `MAX_HELD_EVENTS`, the oldest are drawn at once."""
        for event in events:
            if event.kind not in PICTURE_KINDS:
                continue
            heapq.heappush(self._held, (order_of(event), event))
            if len(self._held) > MAX_HELD_EVENTS:
                self._draw(heapq.heappop(self._held)[1])

    def advance(self, now_ms: float) -> None:
        """Draw the events that are old enough, and advance the time of all groups."""
        self.settled_ms = max(self.settled_ms, now_ms - self._settle_ms)
        while self._held and self._held[0][0][0] <= self.settled_ms:
            self._draw(heapq.heappop(self._held)[1])
        for picture in self.groups.values():
            picture.advance(self.settled_ms)

    def _draw(self, event: Event) -> None:
        if event.group:
            picture = self.groups.get(event.group)
            if picture is None:
                if len(self.groups) >= MAX_PICTURES:
                    return
                picture = self.groups[event.group] = GroupPicture(event.group, self.base_ms, self._changes)
            picture.feed(event)
            return
        self._changes.of(event)
        for picture in self.groups.values():
            picture.feed(event)
