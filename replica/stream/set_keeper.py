"""SetKeeper: makes the compare-and-sets of a master that `in_sync.py` decides, and reads the row now and then.

One write is under way at a time, and no event of the stream waits for it. A write whose answer is lost is followed by
reads until the register answers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import NoReturn

import anyio

from model.errors import IllegalOperation, RegisterUnavailable
from model.log_lines import LogLines
from model.replica_limits import REGISTER_POLL_S, REGISTER_RETRY_S
from model.replica_set import ReplicaSet, SetChanged
from replica.register import Register
from replica.stream.in_sync import InSyncSet, SetWrite

logger = logging.getLogger(__name__)


class SetKeeper:
    """See the module header.

    `decide` returns the next write that is due, and is called again after each event; `changed` is called with the
    replicas that have left the in-sync set, after each read and write.
    """

    def __init__(
        self,
        register: Register,
        in_sync: InSyncSet,
        decide: Callable[[float], SetWrite | None],
        changed: Callable[[tuple[int, ...]], None],
    ) -> None:
        self._register = register
        self._in_sync = in_sync
        self._decide = decide
        self._changed = changed
        self._next: SetWrite | None = None
        self._wake = anyio.Event()
        self._lines = LogLines()
        self.reason = ""  # of the last write that was made

    def consider(self, now: float) -> None:
        """Make a write soon, if one is due now."""
        if self._next is None:
            self._next = self._decide(now)
            if self._next is not None:
                self._wake.set()

    async def run(self) -> NoReturn:
        """Make the writes that are due, and read the row regularly. Cancellation: a write may be made or not."""
        while True:
            if self._next is not None:
                await self._write(self._next)
            else:
                with anyio.move_on_after(REGISTER_RETRY_S if self._in_sync.must_read else REGISTER_POLL_S):
                    await self._wake.wait()
                if self._next is None:
                    await self._read()
            self._wake = anyio.Event()
            self.consider(asyncio.get_running_loop().time())

    async def read_now(self) -> ReplicaSet | None:
        """Read the row, and return it.

        Raises:
            RegisterUnavailable: the register did not answer.

        Cancellation: harmless.
        """
        row = await self._register.read(self._in_sync.row.name)
        if row is not None:
            self._changed(self._in_sync.saw(row, asyncio.get_running_loop().time()))
        return row

    async def _write(self, write: SetWrite) -> None:
        in_sync, loop = self._in_sync, asyncio.get_running_loop()
        name = write.row.name
        try:
            row = await self._register.write(write.row, in_sync.row.version)
        except SetChanged as error:
            logger.info("%s: %s", name, error)
            self._changed(in_sync.refused(error.current, loop.time()))
        except (RegisterUnavailable, IllegalOperation) as error:
            self._lines.warning(logger, loop.time(), "%s: not recorded yet that %s: %s", name, write.reason, error)
            in_sync.lost()
            self._changed(())
        else:
            self.reason = write.reason
            logger.warning("%s: %s; in sync: %s", name, write.reason, list(row.in_sync))
            self._changed(in_sync.written(row, loop.time()))
        finally:
            self._next = None

    async def _read(self) -> None:
        in_sync, loop = self._in_sync, asyncio.get_running_loop()
        try:
            row = await self._register.read(in_sync.row.name)
        except RegisterUnavailable as error:
            self._lines.warning(logger, loop.time(), "%s: the register cannot be read: %s", in_sync.row.name, error)
            return
        self._changed(in_sync.read(row, loop.time()))
