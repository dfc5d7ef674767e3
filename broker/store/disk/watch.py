"""DiskWatch: finds a disk that hangs: its writes and syncs neither fail nor end.

A sync runs in a thread, so the loop goes on while it hangs: a timer finds it, and `FlushMode.SYNC` answers no send. A
write blocks the loop, so it is reported when it has ended. With copies, another replica has become the master.

    sync begins at 5.0               at 7.0 it is stuck: a warning, and a master with `FlushMode.SYNC` hands over
    it ends at 15.3                  a warning: the disk has hung for 10.3 s
    a write takes 3 s                a warning when it has ended
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from model.replica_limits import STUCK_DISK_S

logger = logging.getLogger(__name__)


class DiskWatch:
    """See the module header; `place` names the directory in the log, and `changed` is called when a sync hangs or ends.

    Attributes:
        is_stuck: whether the sync that runs has taken longer than `STUCK_DISK_S`.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, data_dir: str, changed: Callable[[], None] | None = None
    ) -> None:
        self.is_stuck = False
        self._loop, self._place, self._changed = loop, data_dir, changed
        self._began_at: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def running_s(self) -> float:
        """How long the sync that runs has taken, in seconds; 0 without one."""
        return 0.0 if self._began_at is None else self._loop.time() - self._began_at

    def figures(self) -> dict[str, float]:
        """Figures for GET_BROKER_RUNTIME_INFO."""
        return {"sync_running_s": self.running_s}

    def sync_began(self) -> None:
        """Record that a sync begins; one at a time."""
        self._began_at = self._loop.time()
        self._timer = self._loop.call_later(STUCK_DISK_S, self._stuck)

    def sync_ended(self) -> None:
        """Record that it has ended, or has failed; harmless without one."""
        took_s, self._began_at = self.running_s, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.is_stuck:
            self.is_stuck = False
            logger.warning("%s: the sync that had hung took %.1f s", self._place, took_s)
            if self._changed is not None:
                self._changed()

    @contextmanager
    def syncing(self) -> Iterator[None]:
        """Watch the sync in the block."""
        self.sync_began()
        try:
            yield
        finally:
            self.sync_ended()

    def wrote(self, began_at: float) -> None:
        """Report a write, begun at a time of the loop, that has blocked the loop for long."""
        took_s = self._loop.time() - began_at
        if took_s >= STUCK_DISK_S:
            logger.warning("%s: a write took %.1f s, in which nothing was served: check the disk", self._place, took_s)

    def _stuck(self) -> None:
        self._timer, self.is_stuck = None, True
        logger.error(
            "%s: a sync has taken %.1f s and has not ended: the disk hangs, or is very slow; with --flush sync no send "
            "is answered before it ends",
            *(self._place, self.running_s),
        )
        if self._changed is not None:
            self._changed()
