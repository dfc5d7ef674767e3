"""FrameUnderWay: the incomplete frame of one connection, with its deadline and its place in the budget.

A silent peer has not necessarily vanished (`probe.py`), except within a frame. A frame that is not complete
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
"""A timer that fires this late: the process did not run, and has not read the bytes that arrived since."""


class IncompleteFrame:
    """The incomplete frame of one connection; there is none at first.

    `on_change` is called when the frame starts or stops waiting for the budget, `on_overdue` with the reason to close
    the connection.

    Attributes:
        length: the announced length of the frame; 0 while there is none.
        waits: whether it waits for the budget; if so, its connection is not read.
    """

    __slots__ = (
        *("_budget", "_counted_bytes", "_due", "_is_counted", "_loop", "_on_change", "_on_overdue", "_timer"),
        *("length", "waits"),
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        budget: FrameBudget[IncompleteFrame] | None,
        on_change: Callable[[], None],
        on_overdue: Callable[[ProtocolError], None],
    ) -> None:
        self.length = 0
        self.waits = False
        self._loop = loop
        self._budget = budget
        self._on_change = on_change
        self._on_overdue = on_overdue
        self._is_counted = False  # whether the budget has admitted it, or makes it wait
        self._counted_bytes = 0
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def received(self, length: int, owner: str, *, is_new: bool) -> None:
        """Record the incomplete frame, or with length 0 that there is none; `owner` is for the budget."""
        if is_new or not self.length:
            if self._is_counted:
                self._release()
            self._due = self._loop.time() + FRAME_TIMEOUT_S
            if length and self._timer is None:
                # One timer for many frames: when it fires, it checks when the current frame is due.
                self._timer = self._loop.call_at(self._due, self._look)
        self.length = length
        if length > max(MAX_UNCOUNTED_FRAME_BYTES, 2 * self._counted_bytes) and self._budget is not None:
            if self._is_counted:  # several messages that arrive side by side have become more
                self._release()
            self._is_counted, self._counted_bytes = True, length
            self.waits = not self._budget.admit(self, length, owner)
            self._on_change()

    def release_budget(self) -> bool:
        """Leave the budget, because the connection closes; returns whether there was a frame. Idempotent."""
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
        self._counted_bytes = 0
        for admitted in self._budget.release(self):
            admitted.waits = False
            # Its time begins now: while it waited for the budget, nothing was read.
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


PartialFrameBudget = FrameBudget[IncompleteFrame]
"""The budget that the connections of one server share."""
