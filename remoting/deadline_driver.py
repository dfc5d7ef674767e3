"""The one timer of a pure core: waits for its next deadline or a wake-up, then lets it act.

driver = DeadlineDriver(table.next_deadline, lambda now: table.expire(now))
tasks.start_soon(driver.run)
table.add(...); driver.wake_by(deadline_of_what_was_added)
"""

from __future__ import annotations

from collections.abc import Callable

import anyio


class DeadlineDriver:
    """Drives one or several pure cores.

    Args:
        next_deadline: when to act next, loop time in seconds, or None when nothing is pending.
        act: called with the current loop time once a deadline has come; must not raise.
    """

    def __init__(self, next_deadline: Callable[[], float | None], act: Callable[[float], None]) -> None:
        self._next_deadline = next_deadline
        self._act = act
        self._waits_until = float("inf")
        self._woken = anyio.Event()

    def wake_by(self, deadline: float) -> None:
        """Make sure that the driver looks no later than this; cheap when it would anyway."""
        if deadline < self._waits_until:
            self._waits_until = deadline
            self._woken.set()

    async def run(self) -> None:
        """Run until cancelled. Cancellation: harmless at any point."""
        while True:
            self._woken = anyio.Event()
            deadline = self._next_deadline()
            self._waits_until = float("inf") if deadline is None else deadline
            with anyio.CancelScope(deadline=self._waits_until):
                await self._woken.wait()
            self._act(anyio.current_time())
