"""The log of a store as bytes, which the master of a set of replicas sends to the others."""

from __future__ import annotations

from broker.store.disk.errors import StoreReadFailed
from broker.store.segments.commit_log import CommitLog
from broker.store.segments.epochs import Epoch


class LogSource:
    """The part of `MessageStore` that the stream to the replicas reads."""

    _log: CommitLog

    @property
    def epochs(self) -> tuple[Epoch, ...]:
        """The masterships that wrote this log, the oldest first; empty outside a set of replicas."""
        return self._log.epochs

    @property
    def min_position(self) -> int:
        """Log position of the oldest byte; replicas delete the segments before it."""
        return self._log.min_position

    def log_bytes(self, position: int, max_bytes: int) -> tuple[bytes, int]:
        """Read bytes of one segment from a log position on, and return them with the segment's base position.

        There are no bytes at `written_position`. Between two segments, and before the oldest one, they are the bytes
        from the next segment's base on, which is then larger than `position`.

        Raises:
            StoreReadFailed: an I/O error.
        """
        assert position <= self._log.written_position, f"{position} is beyond the end of the log"
        try:
            return self._log.bytes_at(position, max_bytes)
        except OSError as error:
            raise _read_error(self._log, error) from error

    def index_bytes(self, base_position: int) -> bytes | None:
        """Return the index file of a segment that is finished and durable; None as long as it is not, or is gone.

        Raises:
            StoreReadFailed: an I/O error.
        """
        try:
            return self._log.index_bytes(base_position)
        except OSError as error:
            raise _read_error(self._log, error) from error


def _read_error(log: CommitLog, error: OSError) -> StoreReadFailed:
    return StoreReadFailed(f"cannot read {log.directory} ({error}): check the disk")
