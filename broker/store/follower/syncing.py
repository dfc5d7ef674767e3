"""Makes the log of a replica durable, with the index files that the master has sent; the first failure is final.

See `broker/store/syncing.py` for the reason, and `segments/sync_job.py` for the order: first the records, then the
index of each segment.
"""

from __future__ import annotations

from broker.store.disk.errors import StoreReadOnly, StoreSyncFailed
from broker.store.segments.commit_log import CommitLog
from broker.store.segments.sync_job import SyncJob


class FollowerSyncs:
    """The part of `FollowerLog` that syncs."""

    def __init__(self, log: CommitLog) -> None:
        self._log = log
        self._start = 0  # where a log without segments begins
        self._indexes: dict[int, bytes] = {}  # index files that wait for the next sync, by base position
        self._job: SyncJob | None = None
        self._error: Exception | None = None  # of the first sync, or cut, that failed

    @property
    def end_position(self) -> int:
        """Log position at which the next bytes are appended."""
        return self._log.written_position if self._log.segments else self._start

    @property
    def synced_position(self) -> int:
        """Log position before which everything that was appended since the opening is durable."""
        return self._log.synced_position

    def begin_sync(self) -> SyncJob:
        """Begin to make everything durable that was appended. Run the job in a thread, then pass it to `finish_sync`.

        `job.position` is the log position that it reaches. A job that was not finished is waited for.

        Raises:
            StoreReadOnly: a sync failed earlier.
            StoreSyncFailed: the job could not be prepared, or the one before has failed.
        """
        self._check_writable()
        self._settle()
        if not self._log.segments:
            return SyncJob(self._log.files, self._start, [], None)
        try:
            self._job = self._log.begin_sync(copied=self._indexes)
        except OSError as error:
            raise StoreSyncFailed(f"cannot prepare a sync of {self._log.directory}: {error}") from error
        return self._job

    def finish_sync(self, job: SyncJob) -> None:
        """Record the outcome of a job; runs it, if it has not run.

        Raises:
            StoreSyncFailed: the newest bytes may not be durable. The log takes no more bytes.
        """
        job.run()
        if job is not self._job:
            return
        self._job = None
        if job.error is not None:
            self._error = job.error
            raise StoreSyncFailed(
                f"sync of {self._log.directory} failed ({job.error.strerror}): bytes after position "
                f"{self.synced_position} are perhaps not durable; check the disk, then restart the replica"
            ) from job.error
        self._log.finish_sync(job)
        for synced in job.work:
            if synced.header is not None:
                self._indexes.pop(synced.segment.base_position, None)
            if synced.segment is not self._log.active and synced.segment.synced_size == synced.segment.size:
                self._log.close_file(synced.segment)

    def _settle(self) -> None:
        if self._job is not None:
            self.finish_sync(self._job)

    def _check_writable(self) -> None:
        if self._error is not None:
            raise StoreReadOnly(
                f"{self._log.directory} takes no more writes since a sync or a cut failed ({self._error}): check the "
                "disk, then restart the replica"
            ) from self._error
