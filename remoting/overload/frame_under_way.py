"""The frame of which one connection has received a part: when it is due, and whether there is room for it.

Silence is no sign of a vanished peer (`probe.py`), but within a frame it is. A frame that is not whole
`FRAME_TIMEOUT_S` after its first byte is overdue, and the large frames of a server share a budget (`frame_budget.py`):
a peer that sends the first half of a frame, by mistake or on purpose, would otherwise hold its memory for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from model.errors import ProtocolError
from model.limits import FRAME_TIMEOUT_S, MAX_UNCOUNTED_FRAME_BYTES
from remoting.overload.frame_budget import FrameBudget

_ASLEEP_S = 1.0
"""A timer that fires this late was delayed by a process that did not run, and what has come meanwhile is not read."""


class FrameUnderWay:
    """The frame under way of one connection; there is none at first.

    `on_change` is called when the frame begins or ceases to wait for room, `on_overdue` with the reason to close the
    connection.

    Attributes:
        length: the bytes that the frame announced; 0 while there is none.
        waits: whether it waits for room: its connection is not read.
    """

    __slots__ = ("_budget", "_due", "_is_counted", "_loop", "_on_change", "_on_overdue", "_timer", "length", "waits")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        budget: FrameBudget[FrameUnderWay] | None,
        on_change: Callable[[], None],
        on_overdue: Callable[[ProtocolError], None],
    ) -> None:
        self.length = 0
        self.waits = False
        self._loop = loop
        self._budget = budget
        self._on_change = on_change
        self._on_overdue = on_overdue
        self._is_counted = False  # whether the budget has admitted it, or is asked to
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def received(self, length: int, owner: str, *, is_new: bool) -> None:
        """Record the frame of which a part has come, or with length 0 that there is none; `owner` is for the budget."""
        if is_new or not self.length:
            if self._is_counted:
                self._release()
            self._due = self._loop.time() + FRAME_TIMEOUT_S
            if length and self._timer is None:
                # One timer for many frames: when it fires, it looks when the frame of that moment is due.
                self._timer = self._loop.call_at(self._due, self._look)
        self.length = length
        if length > MAX_UNCOUNTED_FRAME_BYTES and self._budget is not None and not self._is_counted:
            self._is_counted = True
            self.waits = not self._budget.admit(self, length, owner)
            self._on_change()

    def give_up(self) -> bool:
        """Give back its room, and return whether there was one: the connection closes. Idempotent."""
        was_under_way, self.length = self.length > 0, 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._is_counted:
            self._release()
        return was_under_way

    def _release(self) -> None:
        assert self._budget is not None, "a frame is counted by a budget"
        self._is_counted = self.waits = False
        for admitted in self._budget.release(self):
            admitted.waits = False
            admitted._due = self._loop.time() + FRAME_TIMEOUT_S
            admitted._on_change()
        self._on_change()

    def _look(self) -> None:
        self._timer = None
        if not self.length:
            return
        now = self._loop.time()
        if self.waits or now > self._due + _ASLEEP_S:
            self._due = now + FRAME_TIMEOUT_S
        if now + 1e-6 < self._due:
            self._timer = self._loop.call_at(self._due, self._look)
            return
        self._on_overdue(
            ProtocolError(f"a frame of {self.length} bytes is not whole {FRAME_TIMEOUT_S:g} s after its first byte")
        )


FramesUnderWay = FrameBudget[FrameUnderWay]
"""The budget that the connections of one server share."""
