"""What a trace has of the same thing that a replay comes to: when did it happen, how long did it take? Pure.

A replay computes who gives up and asks for what, and copies times from the trace wherever the same member did the same
thing at the same time there. These are the look-ups; what is not found has no precedent, and the replay takes a median.
"""

from __future__ import annotations

from bisect import bisect_left

from client.trigger import Trigger
from model.message_queue import MessageQueue
from pipeline.replay.recorded import Recorded

NEAR_MS = 100.0
"""What the trace has so much later than whatever set it off is what this set off."""
SAME_MS = 1.5
"""Two times are of the same moment, on clocks that count milliseconds."""


class Precedents:
    """Looks up what happened in a trace; times are milliseconds, as in `Recorded`."""

    def __init__(self, recorded: Recorded) -> None:
        """Look things up in `recorded`, which is not changed."""
        self._recorded = recorded

    def begin_of(self, client: str, trigger: Trigger, due_ms: float, within_ms: float = NEAR_MS) -> float | None:
        """Return when the member's next pass with this trigger began, if it did within so long."""
        passes = self._recorded.passes.get(client, [])
        place = bisect_left(passes, due_ms - SAME_MS, key=lambda each: each.begin_ms)
        while place < len(passes) and passes[place].begin_ms <= due_ms + within_ms:
            if trigger in passes[place].triggers:
                return passes[place].begin_ms
            place += 1
        return None

    def drained(self, client: str, queue: MessageQueue, given_up_ms: float) -> float | None:
        """Return when a broker had a queue back that a member gave up now; infinite if it never had."""
        near = [
            drain
            for drain in self._recorded.drains.get((client, queue), ())
            if given_up_ms - SAME_MS <= drain[0] <= given_up_ms + NEAR_MS
        ]
        if not near:
            return None
        # A queue may be lost, taken again and given up within a moment.
        return max(given_up_ms, min(near, key=lambda drain: abs(drain[0] - given_up_ms))[1])

    def was_released(self, client: str, queue: MessageQueue, at_ms: float) -> bool:
        """Return whether a broker had a queue back from this member at this time."""
        return any(abs(at_ms - back_ms) <= SAME_MS for _, back_ms in self._recorded.drains.get((client, queue), ()))

    def was_refused(self, client: str, queue: MessageQueue, at_ms: float) -> bool:
        """Return whether a broker refused the lease of a queue to this member at this time."""
        refusals = self._recorded.refusals.get((client, queue), [])
        place = bisect_left(refusals, at_ms - SAME_MS)
        return place < len(refusals) and refusals[place] <= at_ms + SAME_MS

    def heard_of_loss(self, client: str, queue: MessageQueue, back_ms: float) -> float:
        """Return when a member that is back dropped a queue whose lease had ended; else when it was back."""
        drains = self._recorded.drains.get((client, queue), [])
        place = bisect_left(drains, back_ms - SAME_MS, key=lambda drain: drain[0])
        return drains[place][0] if place < len(drains) and drains[place][0] <= back_ms + NEAR_MS else back_ms
