"""DeadlineDriver: the one timer of a pure core; it waits for the next deadline or a wake-up, then lets the core act.

Example::

    driver = DeadlineDriver(table.next_deadline, lambda now: table.expire(now))
    tasks.start_soon(driver.run)
    table.add(...)
    driver.wake_by(deadline_of_what_was_added)

A server whose process did not run for a while has read nothing in that time; the requests of its peers are still in its
sockets. If it acted on its deadlines first, members would expire because of its own lateness. So a driver with
`reads_first` that is late by more than `LATE_S` waits a little while the loop reads.

It uses a timer of the loop and not a task that waits for an event: a busy group causes thousands of wake-ups a second,
and a task with a cancel scope costs ten times as much for each.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable

import anyio

from model.limits import LATE_S, MAX_READ_FIRST, READ_FIRST_S


class DeadlineDriver:
    """Drives one or several pure cores.

    `next_deadline` returns loop time in seconds, or None when nothing is pending; `act` gets the current loop time once
    a deadline has passed, and must not raise. With `reads_first` it is called later after a time without reading.
    """

    def __init__(
        self, next_deadline: Callable[[], float | None], act: Callable[[float], None], *, reads_first: bool = False
    ) -> None:
        self._next_deadline = next_deadline
        self._act = act
        self._loop: asyncio.AbstractEventLoop | None = None
        self._context: contextvars.Context | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._waits_until = float("inf")
        self._armed_for = 0.0
        self._readings_left = MAX_READ_FIRST if reads_first else 0
        self._max_readings = self._readings_left

    def wake_by(self, deadline: float | None) -> None:
        """Make sure that the driver acts no later than this, if it is a time.

        Cheap when the driver would act no later anyway; does nothing while it does not run.
        """
        if deadline is not None and deadline < self._waits_until and self._loop is not None:
            if self._timer is not None:
                self._timer.cancel()
            self._waits_until = deadline
            self._armed_for = max(deadline, self._loop.time())
            self._timer = self._loop.call_at(deadline, self._fire, context=self._context)

    async def run(self) -> None:
        """Run until cancelled. Cancellation: harmless at any point."""
        self._loop = asyncio.get_running_loop()
        # The work that the core starts must not run in the context of the caller of `wake_by`.
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
        self._timer, self._waits_until = None, float("inf")  # first: `act` may call `wake_by`
        if self._loop is not None:
            now = self._loop.time()
            if self._readings_left and now - self._armed_for > LATE_S:
                self._readings_left -= 1
                self.wake_by(now + READ_FIRST_S)
                return
            self._readings_left = self._max_readings
            self._act(now)
            self.wake_by(self._next_deadline())
