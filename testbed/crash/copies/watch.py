"""Watch of a step: its effects on producers and consumers, in seconds of any clock. Pure.

watch.begin(10.0)
watch.acknowledged(9.99, 10.0)      sent at 9.99, acknowledged at 10.0
watch.acknowledged(10.0, 10.3)      held for 0.3 s, and no send was acknowledged in the 0.3 s between the two
watch.end(10.31, ...)               gap 0.3 s, held 0.3 s
"""

from __future__ import annotations

from typing import NamedTuple

from model.events import Event, EventKind
from testbed.crash.ledger import GROUP
from traces.figures.group import GroupFigures


class Effects(NamedTuple):
    """The effects of a step."""

    gap_s: float  # the longest time without an acknowledged send
    held_s: float  # the longest time from a send to its acknowledgement
    failed: int  # sends that failed for good
    moved: int  # queues that a member got
    two_owners_ms: float  # time for which queues had two owners, summed
    twice: int  # messages that were processed again


class Counts(NamedTuple):
    """Counts since the begin of the run."""

    failed: int
    twice: int


class StepWatch:
    """Watches one step after the other; `moved` counts the queues that members got, since the begin of the run.

    Every start of ownership counts, also if the same member owned the queue before: its messages waited in between.
    """

    def __init__(self) -> None:
        self.moved = 0
        self._owners = GroupFigures(GROUP)
        self._moved_before, self._two_owners_before_ms = 0, 0.0
        self._counts = Counts(0, 0)
        self._last_s = self._gap_s = self._held_s = 0.0

    def note(self, event: Event) -> None:
        """Record an event of a member."""
        if event.kind in (EventKind.QUEUE_ACQUIRED, EventKind.QUEUE_DROPPED):
            self._owners.feed(event)
            self.moved += event.kind == EventKind.QUEUE_ACQUIRED

    def begin(self, now: float, counts: Counts) -> None:
        """Begin a step."""
        self._moved_before, self._counts = self.moved, counts
        self._two_owners_before_ms = self._owners.totals().double_ms
        self._last_s, self._gap_s, self._held_s = now, 0.0, 0.0

    def acknowledged(self, sent_at: float, now: float) -> None:
        """Record a send and its acknowledgement."""
        self._gap_s = max(self._gap_s, now - self._last_s)
        self._held_s = max(self._held_s, now - sent_at)
        self._last_s = now

    def end(self, now: float, counts: Counts) -> Effects:
        """End the step."""
        return Effects(
            gap_s=max(self._gap_s, now - self._last_s),
            held_s=self._held_s,
            failed=counts.failed - self._counts.failed,
            moved=self.moved - self._moved_before,
            two_owners_ms=self._owners.totals().double_ms - self._two_owners_before_ms,
            twice=counts.twice - self._counts.twice,
        )
