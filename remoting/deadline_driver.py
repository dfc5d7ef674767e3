"""The one timer of a pure core: waits for its next deadline or a wake-up, then lets it act.

Example::

    driver = DeadlineDriver(table.next_deadline, lambda now: table.expire(now))
    tasks.start_soon(driver.run)
    table.add(...)
    driver.wake_by(deadline_of_what_was_added)

A timer of the loop and not a task that waits for an event: thousands of wake-ups a second go through here in a busy
group, and a task with a cancel scope costs ten times as much for each.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable

import anyio


class DeadlineDriver:
    """Drives one or several pure cores.

    `next_deadline` returns loop time in seconds, or None when nothing is pending; `act` gets the current loop time once
    a deadline has come, and must not raise.
    """

    def __init__(self, next_deadline: Callable[[], float | None], act: Callable[[float], None]) -> None:
        self._next_deadline = next_deadline
        self._act = act
        self._loop: asyncio.AbstractEventLoop | None = None
        self._context: contextvars.Context | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._waits_until = float("inf")

    def wake_by(self, deadline: float | None) -> None:
        """Make sure that the driver acts no later than this, if it is a time.

        Cheap when it would anyway; does nothing while it does not run.
        """
        if deadline is not None and deadline < self._waits_until and self._loop is not None:
            if self._timer is not None:
                self._timer.cancel()
            self._waits_until = deadline
            self._timer = self._loop.call_at(deadline, self._fire, context=self._context)

    async def run(self) -> None:
        """Run until cancelled. Cancellation: harmless at any point."""
        self._loop = asyncio.get_running_loop()
        # A caller of `wake_by` lends no part of its context to the work that the core starts.
        self._context = contextvars.copy_context()
        try:
            self.wake_by(self._next_deadline())
            await anyio.sleep_forever()
        finally:
            self._loop = None
            self._waits_until = float("inf")
            if self._timer is not None:
                self._timer.cancel()

    def _fire(self) -> None:
        self._timer, self._waits_until = None, float("inf")
        if self._loop is not None:
            self._act(self._loop.time())
            self.wake_by(self._next_deadline())
