"""Group commit: one sync for everybody who waits for one. RocketMQ: GroupCommitService.

One sync runs at a time, in a thread. Whoever comes meanwhile waits for the next one, which begins the moment the first
has ended; so nobody waits for more than two, and a lone producer for no timer:

    wait a    sync 1 begins
    wait b    wait c
    sync 1 ends: sync 2 begins for b and c, then a is called back
    sync 2 fails: b and c are told, and so is whoever came meanwhile: nothing is durable any more

What waits is bounded by what is unanswered: connections bound that (`MAX_IN_FLIGHT_REQUESTS`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from broker.store.message_store import MessageStore
from broker.store.store_errors import StoreError, StoreSyncFailed
from broker.store.sync_job import SyncJob
from model.errors import RlabError

Written = Callable[[RlabError | None], None]
"""Called with None, or with what went wrong; must not raise."""


class GroupCommit:
    """Syncs the store for whoever waits.

    Invariant: a job runs, or nobody waits.

    Args:
        loop: the running loop.
        store: what is synced; nobody else begins a job, except to end one of these.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, store: MessageStore) -> None:
        self._loop = loop
        self._store = store
        self._job: SyncJob | None = None
        self._served: list[Written] = []
        self._waiting: list[Written] = []

    def wait(self, callback: Written) -> None:
        """Call back once everything written so far is durable, or cannot be known to be."""
        self._waiting.append(callback)
        if self._job is None:
            self._begin()

    def close(self) -> None:
        """Sync and call back for everybody who waits, now; blocks for as long as the disk takes."""
        while self._job is not None:
            self._job.run()  # waits for the thread that does
            self._ended(self._job)

    def _begin(self) -> None:
        served, self._waiting = self._waiting, []
        try:
            self._job = job = self._store.begin_sync()
        except StoreError as error:
            failure = _indefinite(error)
            for callback in served:
                callback(failure)
            return
        self._served = served
        self._loop.run_in_executor(None, job.run).add_done_callback(lambda _: self._ended(job))

    def _ended(self, job: SyncJob) -> None:
        if job is not self._job:
            return  # `close` did not wait for the loop to bring this
        self._job = None
        served, self._served = self._served, []
        failure: RlabError | None = None
        try:
            self._store.finish_sync(job)
        except StoreSyncFailed as error:
            failure = error
            served += self._waiting
            self._waiting = []
        if self._waiting:
            self._begin()  # before anybody is answered: the disk works meanwhile
        for callback in served:
            callback(failure)


def _indefinite(error: StoreError) -> RlabError:
    """An error that does not claim, as `StoreReadOnly` does, that nothing was stored: it is in the file."""
    return error if isinstance(error, StoreSyncFailed) else StoreSyncFailed(f"written, but not synced: {error}")
