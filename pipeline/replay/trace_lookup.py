"""Looks up when the same step happened in the recorded trace, and how long it took. Pure.

A replay computes which queues members revoke and request. It copies times from the trace wherever the same member did
the same at the same time there, with the look-ups of this module; where they find nothing, it takes a median.
"""

from __future__ import annotations

from bisect import bisect_left

from client.trigger import Trigger
from model.message_queue import MessageQueue
from pipeline.replay.recorded import Recorded

NEAR_MS = 100.0
"""An event within this time after a trigger is attributed to that trigger."""
SAME_MS = 1.5
"""Two times that differ by no more are the same moment, on clocks that count milliseconds."""


class TraceLookup:
    """Looks up steps of a trace; times are milliseconds, as in `Recorded`."""

    def __init__(self, recorded: Recorded) -> None:
        """Take the trace, which is only read."""
        self._recorded = recorded

    def begin_of(self, client: str, trigger: Trigger, due_ms: float, within_ms: float = NEAR_MS) -> float | None:
        """Return when the member's first pass with this trigger after `due_ms` began, if within `within_ms`."""
        passes = self._recorded.passes.get(client, [])
        place = bisect_left(passes, due_ms - SAME_MS, key=lambda each: each.begin_ms)
        while place < len(passes) and passes[place].begin_ms <= due_ms + within_ms:
            if trigger in passes[place].triggers:
                return passes[place].begin_ms
            place += 1
        return None

    def drained(self, client: str, queue: MessageQueue, stopped_ms: float) -> float | None:
        """Return when the lease was released that a member stopped using at `stopped_ms`; infinite if it never was."""
        near = [
            drain
            for drain in self._recorded.drains.get((client, queue), ())
            if stopped_ms - SAME_MS <= drain[0] <= stopped_ms + NEAR_MS
        ]
        if not near:
            return None
        # A queue may be lost, leased again and revoked within a moment: the nearest drain counts.
        return max(stopped_ms, min(near, key=lambda drain: abs(drain[0] - stopped_ms))[1])

    def was_released(self, client: str, queue: MessageQueue, at_ms: float) -> bool:
        """Return whether this member's lease of a queue was released at this time."""
        return any(abs(at_ms - back_ms) <= SAME_MS for _, back_ms in self._recorded.drains.get((client, queue), ()))

    def was_refused(self, client: str, queue: MessageQueue, at_ms: float) -> bool:
        """Return whether a broker refused this member the lease of a queue at this time."""
        refusals = self._recorded.refusals.get((client, queue), [])
        place = bisect_left(refusals, at_ms - SAME_MS)
        return place < len(refusals) and refusals[place] <= at_ms + SAME_MS

    def heard_of_loss(self, client: str, queue: MessageQueue, back_ms: float) -> float:
        """Return when a reconnected member dropped a queue whose lease had ended; else when it was back."""
        drains = self._recorded.drains.get((client, queue), [])
        place = bisect_left(drains, back_ms - SAME_MS, key=lambda drain: drain[0])
        return drains[place][0] if place < len(drains) and drains[place][0] <= back_ms + NEAR_MS else back_ms
