"""Looks up the time and duration of the same step in the recorded trace. Pure.

A replay computes which queues members revoke and request. With the lookups of this module it copies times from the
trace if the same member did the same at the same time there; if a lookup finds nothing, it uses a median.
"""

from __future__ import annotations

from bisect import bisect_left

from client.trigger import Trigger
from model.message_queue import MessageQueue
from pipeline.replay.recorded import RecordedGroup

NEAR_MS = 100.0
"""An event within this time after a trigger is attributed to that trigger."""
SAME_MS = 1.5
"""Times that differ by at most this count as equal, because the clocks of a trace are rounded to milliseconds."""


class TraceLookup:
    """Looks up steps of a trace; times are milliseconds, as in `RecordedGroup`."""

    def __init__(self, recorded: RecordedGroup) -> None:
        self._recorded = recorded

    def pass_begin(self, client: str, trigger: Trigger, due_ms: float, within_ms: float = NEAR_MS) -> float | None:
        """Return the time of the member's first pass with this trigger from `due_ms` to `within_ms` later, or None."""
        passes = self._recorded.passes.get(client, [])
        index = bisect_left(passes, due_ms - SAME_MS, key=lambda each: each.begin_ms)
        while index < len(passes) and passes[index].begin_ms <= due_ms + within_ms:
            if trigger in passes[index].triggers:
                return passes[index].begin_ms
            index += 1
        return None

    def drain_end(self, client: str, queue: MessageQueue, stopped_ms: float) -> float | None:
        """Return the release time of a lease that a member stopped using at `stopped_ms`.

        Infinite if the trace has no release of it, None if the member did not stop in the trace.
        """
        near = [
            drain
            for drain in self._recorded.drains.get((client, queue), ())
            if stopped_ms - SAME_MS <= drain[0] <= stopped_ms + NEAR_MS
        ]
        if not near:
            return None
        # A queue may be lost, leased again and revoked within milliseconds: the nearest drain counts.
        return max(stopped_ms, min(near, key=lambda drain: abs(drain[0] - stopped_ms))[1])

    def was_released(self, client: str, queue: MessageQueue, at_ms: float) -> bool:
        """Return whether this member's lease of a queue was released at this time."""
        return any(abs(at_ms - end_ms) <= SAME_MS for _, end_ms in self._recorded.drains.get((client, queue), ()))

    def was_refused(self, client: str, queue: MessageQueue, at_ms: float) -> bool:
        """Return whether a broker refused this member the lease of a queue at this time."""
        refusals = self._recorded.refusals.get((client, queue), [])
        index = bisect_left(refusals, at_ms - SAME_MS)
        return index < len(refusals) and refusals[index] <= at_ms + SAME_MS

    def loss_noticed(self, client: str, queue: MessageQueue, back_ms: float) -> float:
        """Return the time at which a member that reconnected at `back_ms` noticed that its lease of a queue had ended.

        If the trace does not have it, this is `back_ms`.
        """
        drains = self._recorded.drains.get((client, queue), [])
        index = bisect_left(drains, back_ms - SAME_MS, key=lambda drain: drain[0])
        return drains[index][0] if index < len(drains) and drains[index][0] <= back_ms + NEAR_MS else back_ms
