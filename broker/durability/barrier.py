"""The write at the end of each event-loop iteration; only after it are the requests of that iteration answered.

A pipelined burst of sends arrives in one read of the socket; its records go to the file with one write, and its answers
leave with one write each connection. An error of that write reaches every send of the burst, so nothing is ever
acknowledged that was not written. With `FlushMode.SYNC` it is synced as well, together with what other iterations
wrote (`broker/durability/group_commit.py`): the answers of an iteration leave later, together, in their order.

Commits of offsets and leases do not depend on the write to the log: they continue while the log is full.

A broker that has other replicas answers only when these have the flush too (`replication.py`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import anyio

from broker.durability.answers import NO_HEADER, Response, Sends, WriteCallback, answer_sends
from broker.durability.group_commit import GroupCommit
from broker.durability.metadata import MetadataStore
from broker.durability.replication import Queues, Replication, WaitingForReplicas
from broker.durability.replicator import Replicator
from broker.store.disk.errors import StoreError, StoreReadOnly
from broker.store.disk.watch import DiskWatch
from broker.store.message_store import MessageStore
from model.errors import NotMaster, RlabError, StorageFull
from model.record import FlushMode
from remoting.command import Command
from remoting.connection import Connection

logger = logging.getLogger(__name__)


class WriteBarrier:
    """The write at the end of an event-loop iteration.

    It calls `on_new_messages` with (topic, queue id) of every queue that has something new to read.

    Attributes:
        disk: finds writes and syncs that hang.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        store: MessageStore,
        metadata: MetadataStore,
        on_new_messages: Callable[[str, int], None],
        flush: FlushMode = FlushMode.ASYNC,
    ) -> None:
        self._loop = loop
        self._store = store
        self._metadata = metadata
        self._on_new_messages = on_new_messages
        self._scheduled: asyncio.Handle | None = None
        is_sync = flush is FlushMode.SYNC
        self.disk = DiskWatch(loop, str(metadata.path.parent), self._sync_hangs_or_ends if is_sync else None)
        self._group_commit = GroupCommit(loop, store, self.disk) if is_sync else None
        self._sends: Sends = []
        self._queues: Queues = {}
        self._after_append: list[WriteCallback] = []
        self._failing_since: float | None = None  # loop time since which the disk takes no write
        self._fails = anyio.Event()
        self._after_commit: list[WriteCallback] = []
        self._commit_changes = self._commit
        self._unsynced = asyncio.Event()
        self.replication: Replication | None = None  # of a broker that has other replicas
        self._writes_fail = False

    def answer_send(
        self, connection: Connection, request: Command, topic: str, queue_id: int, offset: int | list[int]
    ) -> None:
        """Answer a send with its offset, or offsets, once its messages are stored."""
        self._sends.append((connection, request, offset))
        self._queues[(topic, queue_id)] = None
        if self._scheduled is None:
            self._schedule()

    def after_append(self, callback: WriteCallback, topic: str, queue_id: int) -> None:
        """Call back once the messages that this iteration appended to a queue are stored."""
        self._after_append.append(callback)
        self._queues[(topic, queue_id)] = None
        if self._scheduled is None:
            self._schedule()

    def after_commit(self, callback: WriteCallback) -> None:
        """Call back once the metadata that this iteration changed is written."""
        self._after_commit.append(callback)
        if self._scheduled is None:
            self._schedule()

    def respond_after_commit(
        self,
        connection: Connection,
        request: Command,
        header: Mapping[str, Any] = NO_HEADER,
        body: bytes | None = None,
    ) -> None:
        """Answer a request once the metadata that this iteration changed is written, or with the error of the write."""
        self.after_commit(Response(connection, request, header, body))

    def metadata_changed(self) -> None:
        """Write changed metadata at the end of this iteration although no request waits for it."""
        if self._scheduled is None:
            self._schedule()

    def _schedule(self) -> None:
        self._scheduled = self._loop.call_soon(self._flush)

    def flush_now(self) -> None:
        """Write everything that is pending now: nothing is buffered afterwards."""
        if self._scheduled is not None:
            self._scheduled.cancel()
        self._flush()

    def close(self) -> None:
        """Write all pending records now, and answer the requests that wait for them: connections are closed next."""
        self.flush_now()
        if self._group_commit is not None:
            self._group_commit.close()
        if self.replication is not None:
            self.replication.close()

    # --- replicas ----------------------------------------------------------------------------------------------------

    def replicate(self, replicator: Replicator) -> None:
        """Offer the present state to a replicator, and each flush from now on, and answer once they are committed."""
        self._metadata.record_changes()
        self.replication = Replication(self._loop, self._store, replicator, self._on_new_messages, self._group_commit)
        self.replication.begin(self._end)

    def refusal_of_parked(self) -> RlabError | None:
        """Why a request that has waited here is refused now: this broker may no longer be the master."""
        return None if self.replication is None else self.replication.refusal_of_parked()

    def _end(self, error: NotMaster) -> None:
        """End all writes: this broker is no longer the master, and from here on the new master's log may differ."""
        logger.warning("this broker no longer writes, because it is not the master: %s", error)
        self._commit_changes = lambda: error

    async def wait_committed(self, timeout_s: float) -> bool:
        """Wait until everything up to now is written, and committed by the replicator; returns whether it is.

        Cancellation: harmless.
        """
        outcomes: list[RlabError | None] = []
        committed = asyncio.Event()

        def written(failure: RlabError | None) -> None:
            outcomes.append(failure)
            committed.set()

        self.after_commit(written)
        with anyio.move_on_after(timeout_s):
            await committed.wait()
        return outcomes == [None]

    # --- writing -----------------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        self._scheduled = None
        began_at = self._loop.time()
        sends, self._sends = self._sends, []
        queues, self._queues = self._queues, {}
        after_append, self._after_append = self._after_append, []
        after_commit, self._after_commit = self._after_commit, []
        not_committed = self._commit_changes()
        written_before = self._store.written_position
        not_stored = self._store_messages(not_committed)
        self.disk.wrote(began_at)
        if not_stored is not None or self._writes_fail:
            self._log_write_failures(not_stored, has_written=self._store.written_position > written_before)
        if not_stored is not None or self._failing_since is not None:
            self._track_failure(not_stored, has_written=self._store.written_position > written_before)
        if self.replication is not None:
            wrote_log = self._store.written_position > written_before
            waiting = WaitingForReplicas(sends, after_append, after_commit, queues)
            self._replicate(self.replication, waiting, not_committed, not_stored, wrote_log=wrote_log)
            return
        if self._group_commit is None or not_stored is not None:
            self._answer(sends, after_append, queues, not_stored)
        elif queues or self._store.written_position > written_before:
            n = len(sends) + len(after_append)
            self._group_commit.wait(partial(self._answer, sends, after_append, queues), n)
        for callback in after_commit:
            callback(not_committed)

    def _replicate(
        self,
        replication: Replication,
        waiting: WaitingForReplicas,
        not_committed: RlabError | None,
        not_stored: RlabError | None,
        *,
        wrote_log: bool,
    ) -> None:
        """Offer the written part of a flush, and answer at once for the part that was not written."""
        if not_stored is not None:
            self._answer(waiting.sends, waiting.after_append, {}, not_stored)
            waiting.sends, waiting.after_append, waiting.queues = [], [], {}
        if not_committed is not None:
            for callback in waiting.after_commit:
                callback(not_committed)
            return
        changes = self._metadata.collect_changes()
        has_written = wrote_log or bool(changes)
        if has_written or waiting.sends or waiting.after_append or waiting.after_commit:
            replication.offer(waiting, changes, has_written=has_written, wrote_log=wrote_log)

    def _answer(
        self, sends: Sends, after_append: list[WriteCallback], queues: Queues, not_stored: RlabError | None
    ) -> None:
        answer_sends(sends, not_stored)
        for callback in after_append:
            callback(not_stored)
        if not_stored is None:
            for topic, queue_id in queues:
                self._on_new_messages(topic, queue_id)

    def _commit(self) -> RlabError | None:
        try:
            try:
                self._metadata.commit()
            except StorageFull:
                if not self._store.reserve.free_for_commits():
                    raise
                self._metadata.commit()
        except RlabError as error:
            return error
        return None

    def _store_messages(self, not_committed: RlabError | None) -> RlabError | None:
        if not_committed is not None:
            # A message whose topic is not stored would be lost with the next restart: refused now, and not written.
            self._store.discard()
            return not_committed
        try:
            self._store.flush()
        except RlabError as error:
            return error
        if self._store.written_position > self._store.synced_position:
            self._unsynced.set()
        return None

    def _log_write_failures(self, failure: RlabError | None, *, has_written: bool) -> None:
        """Log once that writes fail, and once that they succeed again."""
        if failure is None and has_written:
            self._writes_fail = False
            logger.warning("messages and changes are stored again")
        elif failure is not None and not self._writes_fail and not isinstance(failure, StoreReadOnly | NotMaster):
            self._writes_fail = True
            logger.error("sends are refused, reads go on: %s", failure)

    def _track_failure(self, failure: RlabError | None, *, has_written: bool) -> None:
        if isinstance(failure, StoreError | StorageFull):
            self._fail_since(self._loop.time())
        elif has_written and not self.disk.is_stuck:
            self._works_again()

    def _fail_since(self, since: float) -> None:
        if self._failing_since is None:
            self._failing_since = since
            self._fails.set()

    def _works_again(self) -> None:
        if self._failing_since is not None:
            self._failing_since = None
            self._fails = anyio.Event()

    def _sync_hangs_or_ends(self) -> None:
        if self.disk.is_stuck:
            self._fail_since(self._loop.time() - self.disk.running_s)
        else:
            self._works_again()

    async def wait_failing(self, patience_s: float) -> None:
        """Wait until all writes have failed for this long, and there were some, or a sync that sends wait for hangs.

        Cancellation: harmless.
        """
        while True:
            await self._fails.wait()
            if self._failing_since is not None:
                left_s = self._failing_since + patience_s - self._loop.time()
                if left_s <= 0:
                    return
                await anyio.sleep(left_s)

    async def wait_written(self) -> None:
        """Wait until something was written since the last call that is not synced yet. Cancellation: harmless."""
        await self._unsynced.wait()
        self._unsynced.clear()
