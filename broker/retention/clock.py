"""Jumps of the wall clock, which make no message older. Pure.

Messages have the time of the wall clock at which they were stored. If that clock jumps ahead by 90 days, all of them
look 90 days older, and retention would delete them. So the clock is compared with one that cannot be set; the
difference is a jump, and a message that was stored before it is younger than it looks by that difference:

    wall clock   8:00  8:10  +90 d 8:20  +90 d 8:30     a jump of 90 d before +90 d 8:20
    stored at    8:05          looks 90 d old, is 25 minutes old
    stored at    +90 d 8:25    is 5 minutes old

A clock that is set back by as much takes the jump back. Between two runs of a broker there is no other clock: if it was
away for longer than a day, or seems to have been, the time away counts as a jump.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from model.limits import CLOCK_AWAY_MS, CLOCK_JUMP_MS, MAX_CLOCK_JUMPS


class ClockJump(NamedTuple):
    """The clock went ahead by `size_ms` when it showed `before_ms`, or a little earlier."""

    before_ms: int
    size_ms: int


class WallClock:
    """The jumps of one wall clock, oldest first."""

    def __init__(self, jumps: Iterable[ClockJump] = ()) -> None:
        self.jumps = sorted(jumps)
        self._seen: tuple[int, float] | None = None

    def start(self, seen_ms: int, now_ms: int, elapsed_ms: float) -> int:
        """Begin to watch, in a run whose predecessor saw the clock at `seen_ms` last; returns the jump, see `check`."""
        self._seen = now_ms, elapsed_ms
        return self._moved(now_ms - seen_ms, now_ms, CLOCK_AWAY_MS)

    def check(self, now_ms: int, elapsed_ms: float) -> int:
        """Compare the wall clock with one that cannot be set, both in milliseconds.

        Returns:
            How far the wall clock has jumped since the last check: 0 mostly, negative if it was set back.
        """
        assert self._seen is not None, "not started"
        seen_ms, seen_elapsed_ms = self._seen
        self._seen = now_ms, elapsed_ms
        return self._moved(int(now_ms - seen_ms - (elapsed_ms - seen_elapsed_ms)), now_ms, CLOCK_JUMP_MS)

    def stored_ms(self, stored_ms: int) -> int:
        """When a message was stored, on the clock as it is set now."""
        return stored_ms + sum(jump.size_ms for jump in self.jumps if stored_ms <= jump.before_ms)

    def forget_before(self, oldest_ms: int) -> None:
        """Forget the jumps before the oldest message."""
        self.jumps = [jump for jump in self.jumps if jump.before_ms >= oldest_ms]

    def _moved(self, difference_ms: int, now_ms: int, limit_ms: int) -> int:
        if difference_ms > limit_ms:
            self.jumps.append(ClockJump(now_ms - difference_ms, difference_ms))
            if len(self.jumps) > MAX_CLOCK_JUMPS:
                # As one at the later moment: messages stored between them are kept for longer, not for less.
                first, second, *later_jumps = self.jumps
                self.jumps = [ClockJump(second.before_ms, first.size_ms + second.size_ms), *later_jumps]
            return difference_ms
        if difference_ms < -CLOCK_JUMP_MS:
            back_ms = -difference_ms
            while back_ms and self.jumps:
                before_ms, size_ms = self.jumps.pop()
                if size_ms > back_ms:
                    self.jumps.append(ClockJump(before_ms, size_ms - back_ms))
                back_ms -= min(back_ms, size_ms)
            return difference_ms
        return 0
