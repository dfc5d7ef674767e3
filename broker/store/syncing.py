"""Runs the syncs of the log, and makes the first one that fails final; and so the loss of the directory's lock.

After a failed sync the system may report success for the next one although the data is gone: it marks the pages it
could not write as clean. So nothing after it is called durable, and nothing more is written, until the broker is
restarted and recovery has read the files. Reads go on.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.store.disk.directory import DirectoryLock
from broker.store.disk.errors import StoreLockLost, StoreReadOnly, StoreSyncFailed
from broker.store.segments.commit_log import CommitLog
from broker.store.segments.sync_job import SyncJob


class Durability:
    """Runs the sync jobs of one log, one at a time; `on_synced` is called when one has succeeded."""

    def __init__(self, log: CommitLog, lock: DirectoryLock, on_synced: Callable[[], None]) -> None:
        self._log = log
        self._lock = lock
        self._lost: StoreLockLost | None = None
        self._job: SyncJob | None = None
        self._error: OSError | None = None
        self._on_synced = on_synced

    def check_lock(self) -> None:
        """Check that the directory is still locked by this store; once it is not, every write is refused.

        Raises:
            StoreLockLost: another broker may write there.
        """
        try:
            self._lock.check()
        except StoreLockLost as error:
            self._lost = error
            raise

    @property
    def is_lost(self) -> bool:
        """Whether another broker may write to the directory, so that this one must not."""
        return self._lost is not None

    def check_writable(self) -> None:
        """Raise `StoreReadOnly` if a sync has failed, or if another broker may write to the directory."""
        if self._lost is not None:
            raise StoreLockLost(str(self._lost)) from self._lost
        if self._error is not None:
            raise StoreReadOnly(
                f"{self._log.directory} takes no more writes since a sync failed ({self._error.strerror}): "
                "check the disk, then restart the broker"
            ) from self._error

    def begin_sync(self, *, finish_active: bool = False) -> SyncJob:
        """See `MessageStore.begin_sync`; `finish_active`, before closing, includes the index of the active segment."""
        self.check_writable()
        self._settle()
        try:
            self._job = self._log.begin_sync(finish_active=finish_active)
        except OSError as error:
            raise StoreSyncFailed(f"cannot prepare a sync of {self._log.directory}: {error}") from error
        return self._job

    def finish_sync(self, job: SyncJob) -> None:
        """See `MessageStore.finish_sync`."""
        if job is self._job:
            self._job = None
            self._error = job.error
            if job.error is None:
                self._log.finish_sync(job)
                self._on_synced()
        if job.error is not None:
            raise StoreSyncFailed(
                f"sync of {self._log.directory} failed ({job.error.strerror}): records after position "
                f"{self._log.synced_position} are perhaps not durable; check the disk, then restart the broker"
            ) from job.error

    def sync(self, *, finish_active: bool = False) -> None:
        """Begin, run and finish a job; see `MessageStore.sync`."""
        job = self.begin_sync(finish_active=finish_active)
        job.run()
        self.finish_sync(job)

    def close(self) -> None:
        """Make everything durable and write the last index, unless a sync has failed.

        Without the lock only the records are synced: a file that is opened by its name may be another broker's.

        Raises:
            StoreSyncFailed: it could not be done.
        """
        if self._lost is not None:
            job = self._log.begin_sync(indexes=False)
            job.run()
            self._log.finish_sync(job)
        elif self._error is None:
            self.sync(finish_active=True)

    def _settle(self) -> None:
        """Run and finish the job of a caller that went away before it did."""
        if self._job is not None:
            self._job.run()
            self.finish_sync(self._job)
