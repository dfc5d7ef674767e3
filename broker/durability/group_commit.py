"""Group commit: one sync for all writes that wait for one. RocketMQ: GroupCommitService.

One sync runs at a time, in a thread. A write that arrives while it runs waits for the next one:

    wait a    sync 1 begins
    wait b    wait c
    sync 1 ends: a is called back; b and c wait for a's next message, or half as long as sync 1 took; sync 2 begins
    sync 2 fails: b and c get the error, and so does every write since: nothing more becomes durable

Beginning sync 2 at once would split the producers into two halves for ever, which take turns: each half sends its
messages while the other's sync runs, so each sync serves half of them, and all wait for two. The wait is for the
producers that were answered last, and ends when they have sent again. A lone producer never waits.

The number of waiting writes is bounded by the unanswered requests of all connections (`MAX_IN_FLIGHT_REQUESTS`).
"""

from __future__ import annotations

import asyncio

from broker.durability.answers import WriteCallback
from broker.store.disk.errors import StoreError, StoreSyncFailed
from broker.store.disk.watch import DiskWatch
from broker.store.message_store import MessageStore
from broker.store.segments.sync_job import SyncJob
from model.errors import RlabError

GATHER_MAX_S = 0.005
"""Upper bound of the wait for other producers, however slow the disk is."""


class GroupCommit:
    """Syncs the store; while it exists, no other object begins a sync job.

    Invariant: a job runs, or a timer does, or nothing waits.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, store: MessageStore, disk: DiskWatch) -> None:
        self._loop = loop
        self._store = store
        self._disk = disk
        self._job: SyncJob | None = None
        self._served: list[WriteCallback] = []
        self._waiting: list[WriteCallback] = []
        self._waiting_n = 0
        self._served_n = 0
        # How many were unanswered when the last sync ended, and how long it took: bounds of the next wait.
        self._expected_n = 0
        self._last_sync_s = 0.0
        self._began_at = 0.0
        self._gathering: asyncio.TimerHandle | None = None

    def wait(self, callback: WriteCallback, n: int = 1) -> None:
        """Call back, once, when everything written so far is durable or the sync has failed; for n producers."""
        self._waiting.append(callback)
        self._waiting_n += n
        if self._job is None:
            self._gather()

    def close(self) -> None:
        """Sync and call back for everything that waits, now; blocks for as long as the disk takes."""
        while self._job is not None or self._waiting:
            if self._job is None:
                self._begin()
            else:
                self._job.run()  # blocks until the thread that runs the job has finished it
                self._ended(self._job)

    def _gather(self) -> None:
        """Begin a sync, unless it should still wait for producers that will probably write again soon."""
        if self._waiting_n >= self._expected_n or not self._last_sync_s:
            self._begin()
        elif self._gathering is None:
            self._gathering = self._loop.call_later(min(self._last_sync_s / 2, GATHER_MAX_S), self._begin)

    def _begin(self) -> None:
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        served, self._waiting = self._waiting, []
        self._served_n, self._waiting_n = self._waiting_n, 0
        self._began_at = self._loop.time()
        try:
            self._job = job = self._store.begin_sync()
        except StoreError as error:
            failure = _indefinite(error)
            for callback in served:
                callback(failure)
            return
        self._served = served
        self._disk.sync_began()
        self._loop.run_in_executor(None, job.run).add_done_callback(lambda _: self._ended(job))

    def _ended(self, job: SyncJob) -> None:
        if job is not self._job:
            return  # `close` did not wait for the loop to bring this
        self._job = None
        self._disk.sync_ended()
        served, self._served = self._served, []
        failure: RlabError | None = None
        try:
            self._store.finish_sync(job)
        except StoreSyncFailed as error:
            failure = error
            served += self._waiting
            self._waiting, self._waiting_n = [], 0
        self._last_sync_s = self._loop.time() - self._began_at
        self._expected_n = self._served_n + self._waiting_n
        for callback in served:
            callback(failure)
        if self._waiting and self._job is None:
            self._gather()


def _indefinite(error: StoreError) -> RlabError:
    """An error that does not claim, as `StoreReadOnly` does, that nothing was stored: it is in the file."""
    return error if isinstance(error, StoreSyncFailed) else StoreSyncFailed(f"written, but not synced: {error}")
