"""Counts consumed messages, and the time from the first one on; the same for every system. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence


class Meter:
    """Counts bodies up to a number; `clock` gives seconds.

    The messages of the first call are not counted: they, and whatever was fetched with them, are there before the
    clock starts.
    """

    def __init__(self, count: int, clock: Callable[[], float]) -> None:
        self._count = count
        self._clock = clock
        self._before = 0
        self._began = 0.0
        self._ended = 0.0
        self.seen = 0

    def take(self, bodies: Sequence[bytes]) -> None:
        """Count the bodies of one call."""
        if not self.seen:
            self._began, self._before = self._clock(), len(bodies)
        self.seen += len(bodies)
        if self.seen >= self._count and not self._ended:
            self._ended = self._clock()

    @property
    def done(self) -> bool:
        """Whether all were counted."""
        return self._ended > 0

    def elapsed(self) -> float:
        """Seconds since the first call, or until the last message; 0 before the first."""
        return (self._ended or self._clock()) - self._began if self.seen else 0.0

    def rate(self) -> float:
        """Messages per second since the first call; 0 if there was no second one."""
        elapsed = self.elapsed()
        return (self.seen - self._before) / elapsed if elapsed > 0 else 0.0
