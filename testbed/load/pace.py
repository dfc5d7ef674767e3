"""Turns to send: at a steady rate, or at any time during a surge."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import anyio

MAX_LATE_S = 1.0
"""How far a stalled loop may fall behind the rate and catch up; after a longer stall there is no burst."""
TICK_S = 0.005
"""Sends that are due within this time begin together, so that they share their writes."""


class Pace:
    """Counts how many sends are due at a steady rate per second; the first is due at `now`. Pure."""

    def __init__(self, rate: float, now: float) -> None:
        self.next_at = now  # when the next one is due, in seconds
        self._interval_s = 1 / rate

    def count_due(self, now: float) -> int:
        """Number that became due since the last call; those that are later than `MAX_LATE_S` are skipped."""
        self.next_at = max(self.next_at, now - MAX_LATE_S)
        if now < self.next_at:
            return 0
        n = 1 + int((now - self.next_at) / self._interval_s)
        self.next_at += n * self._interval_s
        return n


class Turns:
    """Turns at a steady rate, of which up to `most` wait while all senders are busy; the others are skipped."""

    def __init__(self, max_turns: int) -> None:
        self._most = max_turns
        self._due = anyio.Semaphore(0)
        self._surges = 0

    async def run(self, rate: float) -> None:
        """Give turns at a rate until cancelled. Cancellation: harmless."""
        pace = Pace(rate, anyio.current_time())
        while True:
            await anyio.sleep_until(max(pace.next_at, anyio.current_time() + TICK_S))
            # While sends are blocked, those that are due do not add up.
            for _ in range(min(pace.count_due(anyio.current_time()), self._most - self._due.value)):
                self._due.release()

    async def wait_turn(self) -> None:
        """Wait for a turn; during a surge there is always one. Cancellation: harmless."""
        if not self._surges:
            await self._due.acquire()

    @contextmanager
    def surge(self) -> Iterator[None]:
        """Let all senders send without pauses while the block runs."""
        self.open()
        try:
            yield
        finally:
            self._surges -= 1

    def open(self) -> None:
        """Begin a surge that has no end, so that no sender waits."""
        self._surges += 1
        for _ in range(self._due.statistics().tasks_waiting):
            self._due.release()
