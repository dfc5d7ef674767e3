"""Fetching: gets files of finished segments from the master: their indexes, and the log where this copy is damaged.

With the index of a segment, a promotion does not read the segment. Damage of a copy that is never read stays unnoticed,
so a replica that has followed for an hour reads all of its log, a segment a second, and each day again; one that found
damage while it was the master does so at once. The master's bytes replace a segment with damage.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable

import anyio

from broker.store.disk.errors import StoreBytesRefused
from broker.store.follower.damage_check import SegmentCheck
from broker.store.follower.follower_log import FollowerLog
from model.errors import ConnectionLost, NetworkError, QueryNotFound, RlabError
from model.replica_limits import (
    INDEX_RETRY_S,
    LOG_CHECK_FIRST_S,
    LOG_CHECK_INTERVAL_S,
    LOG_CHECK_PAUSE_S,
    MAX_INDEX_TRIES,
    SEGMENT_RANGE_BYTES,
)
from remoting.client import raise_for_code
from remoting.connection import Connection
from remoting.request_code import RequestCode

logger = logging.getLogger(__name__)


class Fetching:
    """See the module header; `name` is the broker's. `on_index` is called when an index waits for the next sync."""

    def __init__(self, connection: Connection, log: FollowerLog, name: str, on_index: Callable[[], None]) -> None:
        self._connection = connection
        self._log = log
        self._name = name
        self._on_index = on_index
        # Segments whose index is to be fetched; also those that were finished on an earlier connection.
        self._finished = deque(log.without_index())
        self._has_finished = anyio.Event()
        if self._finished:
            self._has_finished.set()

    def segment_finished(self, base_position: int) -> None:
        """Fetch the index of a segment soon."""
        self._finished.append(base_position)
        self._has_finished.set()

    async def fetch_indexes(self) -> None:
        """Fetch the index of each finished segment, until the connection is lost. Cancellation: harmless."""
        while True:
            await self._has_finished.wait()
            self._has_finished = anyio.Event()
            while self._finished:
                try:
                    await self._fetch_index(self._finished.popleft())
                except NetworkError:
                    return  # the stream ends as well
                except RlabError as error:
                    logger.warning("%s: a segment stays without its index: %s", self._name, error)

    async def _fetch_index(self, base_position: int) -> None:
        for _ in range(MAX_INDEX_TRIES):
            try:
                self._log.adopt_index(base_position, b"".join(await self._fetch(base_position, index=True)))
                self._on_index()
                return
            except QueryNotFound:
                await anyio.sleep(INDEX_RETRY_S)
            except StoreBytesRefused as error:
                logger.info("%s: %s", self._name, error)  # it was cut, or deleted, in between
                return

    async def repair_regularly(self) -> None:
        """Read the log now and then, and replace damaged segments, until the connection is lost.

        Cancellation: harmless; a segment is the old or the new one.
        """
        await anyio.sleep(LOG_CHECK_PAUSE_S if self._log.is_suspect else LOG_CHECK_FIRST_S)
        while True:
            try:
                await self._repair()
            except NetworkError:
                return  # the stream ends as well
            except (RlabError, OSError) as error:
                logger.error("%s: the copy of the log cannot be checked: %s", self._name, error)
            await anyio.sleep(LOG_CHECK_INTERVAL_S)

    async def _repair(self) -> None:
        checks = self._log.check()
        while True:
            check = await asyncio.get_running_loop().run_in_executor(None, next, checks, None)
            if check is None:
                self._log.is_suspect = False
                return
            if check.damaged_at is not None:
                await self._replace(check)
            await anyio.sleep(LOG_CHECK_PAUSE_S)

    async def _replace(self, check: SegmentCheck) -> None:
        base = check.base_position
        logger.error("%s: the copy of the log is damaged at %d: it is fetched again", self._name, check.damaged_at)
        try:
            self._log.replace_segment(base, await self._fetch(base, index=False))
        except (QueryNotFound, StoreBytesRefused) as error:
            # The last segment, which is cut at the next start, or one that the master has deleted.
            logger.error("%s: the damage at %d stays: %s", self._name, check.damaged_at, error)
            return
        logger.warning("%s: segment %d was replaced by the one of the master", self._name, base)
        self.segment_finished(base)

    async def _fetch(self, base_position: int, *, index: bool) -> list[bytes]:
        """Fetch a finished segment, or its index file, from the master.

        Raises:
            QueryNotFound: the master has no such file, or not yet.
            NetworkError, ServerError: the master did not answer.

        Cancellation: harmless.
        """
        parts: list[bytes] = []
        start = 0
        while True:
            file = {"base": base_position, "index": index, "start": start, "max_bytes": SEGMENT_RANGE_BYTES}
            request = self._connection.request(RequestCode.REPLICA_SEGMENT, {"broker_name": self._name, **file})
            answer = raise_for_code(await request)
            part = answer.body or b""
            parts.append(part)
            start += len(part)
            if start >= answer.header["size"]:
                return parts
            if not part:
                raise ConnectionLost(f"the file of segment {base_position} became shorter while it was read")
