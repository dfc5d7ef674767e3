"""Applying: writes the frames that a replica gets, and acknowledges them.

Frames that come together are written together, at the end of the event-loop iteration. One that comes alone is written
at once: a send waits for it, and one more iteration takes as long as the write.

With `sync`, as the master demands it with flush=sync, an acknowledgement is sent once everything up to it is on the
disk: one sync at a time, in a thread, for all frames that came while the one before ran. Otherwise it is sent at once,
and written bytes are synced in the background, as those of a master are.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, suppress
from typing import Protocol

import anyio

from broker.durability.changes import SYNC, RowChange
from broker.durability.metadata_file import MetadataFile
from broker.durability.polled_tables import PolledTables
from broker.durability.snapshot import SnapshotLoad
from broker.store.disk.watch import DiskWatch
from broker.store.follower.follower_log import FollowerLog
from broker.store.segments.sync_job import SyncJob
from model.errors import RlabError
from model.replica_limits import REPLICA_SYNC_S
from replica.stream.following import Acknowledgement, Act, Following, LoadTables, MakeChanges, WriteLog
from replica.stream.frames import LogFrame, TableFrame, decode_changes


class Applied(Protocol):
    """Callbacks of `Applying`."""

    def acknowledge(self, done: Acknowledgement) -> None:
        """Acknowledge all frames up to this one: they are written, and synced if the master demands it."""

    def received(self) -> None:
        """Confirm that frames have arrived, which wait for the disk."""

    def failed(self, error: RlabError) -> None:
        """End the stream: the disk has failed, or a frame did not fit; nothing is applied after that. Called once."""

    def segment_finished(self, base_position: int) -> None:
        """Fetch the index of a finished segment: the log continues in the next one."""


class Applying:
    """See the module header."""

    def __init__(
        self,
        log: FollowerLog,
        metadata: MetadataFile | PolledTables,
        following: Following,
        applied: Applied,
        *,
        sync: bool,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._log = log
        self._metadata = metadata
        self._following = following
        self._applied = applied
        self._sync = sync
        self._scheduled: asyncio.Handle | None = None
        self._has_ended = False
        self._base: int | None = None  # of the segment that was written last
        self._loading: tuple[ExitStack, SnapshotLoad] | None = None
        self._unacknowledged: Acknowledgement | None = None  # applied, and not acknowledged, with `sync`
        self._job: SyncJob | None = None
        self._disk = DiskWatch(self._loop, str(log.directory))
        self._unsynced = anyio.Event()

    def accept(self, frame: LogFrame | TableFrame, crc: int, *, more: bool) -> None:
        """Apply a frame now, or if more have come with it, at the end of this iteration, together with them.

        Raises:
            FrameDamaged: it does not follow the one before it.
        """
        self._following.accept(frame, crc)
        if not more:
            self._apply()
        elif self._scheduled is None:
            self._scheduled = self._loop.call_soon(self._apply)

    def sync_soon(self) -> None:
        """Sync although no frame has come: there is an index file to write."""
        self._unsynced.set()

    def close(self) -> None:
        """Apply the frames that were accepted, and nothing more. Idempotent."""
        if self._scheduled is not None:
            self._apply()
        self._has_ended = True
        self._end_loading(keep=False)

    def _apply(self) -> None:
        if self._scheduled is not None:
            self._scheduled.cancel()
            self._scheduled = None
        if self._has_ended:
            return
        acts, done = self._following.collect()
        try:
            for act in acts:
                self._do(act)
            if self._following.min_position > self._log.min_position:
                self._log.drop_before(self._following.min_position)
        except RlabError as error:
            self._fail(error)
            return
        if not self._sync:
            self._applied.acknowledge(done)
            if acts:
                self._unsynced.set()
        else:
            self._unacknowledged = done
            if self._job is None:
                self._begin_sync(done)
            self._applied.received()

    def _do(self, act: Act) -> None:
        match act:
            case WriteLog(position, base, data):
                self._log.append(position, base, data)
                if self._base is not None and base != self._base:
                    self._applied.segment_finished(self._base)
                self._base = base
            case MakeChanges(parts):
                changes = decode_changes(parts)
                if self._sync:
                    changes.append(RowChange("", SYNC, ()))
                self._metadata.apply(changes)
            case LoadTables(chunk, is_first, is_last):
                if is_first:
                    self._end_loading(keep=False)
                    stack = ExitStack()
                    self._loading = (stack, stack.enter_context(self._metadata.load_snapshot()))
                assert self._loading is not None, "the first part came first"
                self._loading[1].add(chunk)
                if is_last:
                    self._end_loading(keep=True)

    def _end_loading(self, *, keep: bool) -> None:
        """Commit the loaded tables, or roll them back."""
        if self._loading is None:
            return
        (stack, _), self._loading = self._loading, None
        if keep:
            stack.close()
            return
        abandoned = _Abandoned()
        with suppress(_Abandoned):
            stack.__exit__(_Abandoned, abandoned, None)

    def _begin_sync(self, done: Acknowledgement) -> None:
        self._unacknowledged = None
        try:
            job = self._job = self._log.begin_sync()
        except RlabError as error:
            self._fail(error)
            return
        self._disk.sync_began()
        self._loop.run_in_executor(None, job.run).add_done_callback(lambda _: self._synced(job, done))

    def _synced(self, job: SyncJob, done: Acknowledgement) -> None:
        self._job = None
        self._disk.sync_ended()
        if self._has_ended:
            return
        try:
            self._log.finish_sync(job)
        except RlabError as error:
            self._fail(error)
            return
        self._applied.acknowledge(done)
        if self._unacknowledged is not None:
            self._begin_sync(self._unacknowledged)

    def _fail(self, error: RlabError) -> None:
        self._has_ended = True
        self._end_loading(keep=False)
        self._applied.failed(error)

    async def sync_regularly(self) -> None:
        """Sync the bytes that are written without a demand of the master, until one fails. Cancellation: harmless."""
        while not self._has_ended:
            await self._unsynced.wait()
            self._unsynced = anyio.Event()
            await anyio.sleep(REPLICA_SYNC_S)
            try:
                job = self._log.begin_sync()
                with self._disk.syncing():
                    await self._loop.run_in_executor(None, job.run)
                self._log.finish_sync(job)
            except RlabError as error:
                self._fail(error)


class _Abandoned(Exception):
    """Rolls a transaction back."""
