"""Writes a replica's copy of the log of its master, byte by byte.

Bytes come in order, in pieces of one segment each. The master decides where segments begin and which ones are deleted;
it also sends the index file of a segment that it has finished. So nothing is parsed here, and both logs are equal:

    append(900, 0, b"..")      900 to 950, in the segment that begins at 0
    append(950, 950, b"..")    the master has begun a segment at 950
    adopt_index(0, b"..")      written by the next sync, once the segment before is durable
    drop_before(950)           the master has deleted it

After a crash the log goes on in its last segment. A power cut may have left damage before its end: then only the bytes
before it are known to be a copy (`history`). The replica cuts its log there when it has a master that sends the rest
again; a replica that becomes the master keeps the records behind the damage, as every broker does.

Everything is synchronous and belongs to one thread, except `SyncJob.run`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Self

from broker.store.disk.directory import DirectoryLock, claim_directory, to_store_error
from broker.store.disk.errors import (
    StoreBytesRefused,
    StoreError,
    StoreFull,
    StoreLockLost,
    StoreReadFailed,
    StoreWriteFailed,
)
from broker.store.disk.files import Files
from broker.store.disk.options import StoreOptions
from broker.store.disk.reserve import DISK_FULL_ERRORS, Reserve
from broker.store.follower.cut import Cut, begin_cut, finish_cut, write_ends
from broker.store.follower.damage_check import SegmentCheck, check_segments
from broker.store.follower.recovery import FollowerRecovery, epochs_in
from broker.store.follower.repair import replace_file
from broker.store.follower.salvage import salvage_numbers
from broker.store.follower.syncing import FollowerSyncs
from broker.store.segments.commit_log import CommitLog
from broker.store.segments.epochs import Epoch, LogHistory
from broker.store.segments.index import MemoryIndex
from broker.store.segments.index_file import HEADER_BYTES, FileIndex, IndexFileCorrupt, decode_header, encode_index
from broker.store.segments.segment import Segment


class FollowerLog(FollowerSyncs):
    """The log of a replica in one data directory, which it locks. A context manager that closes it."""

    def __init__(self, directory: Path, options: StoreOptions, files: Files, lock: DirectoryLock) -> None:
        """Use `open` instead."""
        super().__init__(CommitLog(directory, files, options))
        self.directory = directory
        self.reserve = Reserve(directory, files, options.reserve_bytes)
        self._directory = directory
        self._options = options
        self._files = files
        self._lock = lock
        self._damaged: dict[int, int] = {}  # base position of a damaged segment -> log position of the damage
        self._copied: tuple[Epoch, ...] = ()  # the history of the log that is copied as a whole
        self._is_closed = False
        self.is_suspect = False  # whether damage was found in it before, as a master, that is to be repaired soon

    @classmethod
    def open(cls, directory: Path, options: StoreOptions, files: Files | None = None) -> Self:
        """Open the log of a replica; the directory may be one of a `MessageStore`, empty, or not exist yet.

        Finishes a cut that a crash came into, and cuts off a torn tail. `reserve` is free: take it once everything else
        is open.

        Raises:
            StoreUnusable: one of its kinds, saying what to change.
        """
        files = files or Files()
        lock = claim_directory(directory, files)
        log = cls(directory, options, files, lock)
        try:
            log.reserve.free()
            log._load()
        except BaseException:  # of any class: only this function can close the log yet
            log._log.close()
            lock.release()
            raise
        return log

    @staticmethod
    def epochs_in(directory: Path, files: Files) -> tuple[Epoch, ...]:
        """The epochs of the log in a directory, without opening it; none if there is no log.

        Raises:
            StoreUnusable: it cannot be read.
        """
        try:
            return epochs_in(directory, files)
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise to_store_error(directory, error) from error

    def _load(self) -> None:
        try:
            finish_cut(self._directory, self._files)
            self._log = CommitLog(self._directory, self._files, self._options)
            recovery = FollowerRecovery(self._log)
            recovery.run()
            self._damaged = recovery.damaged
            write_ends(self._directory, self._files, self._bases(), durable=False)
        except OSError as error:
            raise to_store_error(self._directory, error) from error

    def _bases(self) -> list[int]:
        return [segment.base_position for segment in self._log.segments]

    def close(self) -> None:
        """Make everything durable and release the directory. Idempotent.

        Raises:
            StoreSyncFailed: the newest bytes may not be durable. The log is closed nevertheless.
        """
        if self._is_closed:
            return
        self._is_closed = True
        try:
            if self._error is None:
                self.finish_sync(self.begin_sync())
        except StoreLockLost:
            pass  # another process writes there now: these bytes are no longer a part of a log
        finally:
            self._log.close()
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    # --- where it is -------------------------------------------------------------------------------------------------

    @property
    def min_position(self) -> int:
        """Log position of the oldest byte."""
        return self._log.min_position if self._log.segments else self._start

    @property
    def is_damaged(self) -> bool:
        """Whether some of its bytes cannot be read here, although the master has them."""
        return bool(self._damaged)

    @property
    def epochs(self) -> tuple[Epoch, ...]:
        """The masterships whose bytes are in this log, the oldest first. Raises as `history` does."""
        return self._read_history().epochs

    def history(self) -> LogHistory:
        """Return the epochs, and the position up to which this log is known to be the copy of a log with them.

        That position, and not `end_position`, is the one for `common_epoch`: damage, and the head of a segment that is
        not complete, lie behind it. A replica that follows a master cuts its log there at least. In the copy of a whole
        log, the last epochs may begin behind that position.

        Raises:
            StoreReadFailed: an I/O error.
        """
        epochs, end = self._read_history()
        if not epochs:
            epochs, end = self._copied, self.end_position
        return LogHistory(epochs, min([end, *self._damaged.values()]))

    def _read_history(self) -> LogHistory:
        try:
            return self._log.history()
        except OSError as error:
            raise StoreReadFailed(f"cannot read {self._directory} ({error}): check the disk") from error

    # --- writing -----------------------------------------------------------------------------------------------------

    def append(self, position: int, base_position: int, data: bytes) -> None:
        """Write bytes of one segment; it is begun if they are its first ones, at or behind the end of this log.

        Raises:
            StoreBytesRefused: they do not continue this log; nothing is written.
            StoreFull, StoreWriteFailed: an I/O error; nothing is written, and the call may be repeated.
            StoreReadOnly: a sync failed earlier; restart the replica.
            StoreLockLost: another process may write to the directory.
        """
        if not data:
            return
        self._check_writable()
        if self.reserve.is_missing:
            raise StoreFull(
                f"{self._directory} has only the room that is kept for the metadata: nothing was written; free space"
            )
        segments = self._log.segments
        try:
            if segments and base_position == segments[-1].base_position and position == self.end_position:
                self._reopen(segments[-1])
                self._log.append(data)
            elif base_position == position >= self.end_position:
                self._begin_segment(position, data)
            else:
                raise StoreBytesRefused(
                    f"bytes at {position} of the segment at {base_position} do not continue the log of "
                    f"{self._directory}, which ends at {self.end_position}"
                )
        except OSError as error:
            raise self._write_error(error) from error

    def _reopen(self, segment: Segment) -> None:
        """Continue to write to a segment; its index file, which would cover only a part of it, is removed."""
        if isinstance(segment.index, FileIndex):
            self._log.drop_index(segment)
            if segment.fd is None:
                segment.fd = self._files.open(self._directory / segment.name)

    def _begin_segment(self, position: int, data: bytes) -> None:
        self._lock.check()
        if self._log.segments:
            previous = self._log.active
            if position > self.end_position:
                self._seal(previous)
            if isinstance(previous.index, FileIndex):
                self._log.settle(previous)
        self._log.begin_segment(position, data, MemoryIndex({}), now_ms=0, durable=False)
        with contextlib.suppress(OSError):  # an older one is right as well
            write_ends(self._directory, self._files, self._bases(), durable=False)

    def _seal(self, segment: Segment) -> None:
        """Write the index file of a segment behind which the master's log has a gap.

        It proves that the segment is complete: otherwise the next opening takes the gap for a loss.
        """
        if isinstance(segment.index, FileIndex) or segment.base_position in self._damaged:
            return
        scan = self._log.scan(segment)
        assert segment.fd is not None
        self._files.sync(segment.fd)
        data = encode_index(
            scan.index,
            base_position=segment.base_position,
            covered_bytes=segment.size,
            last_stored_ms=scan.last_stored_ms,
        )
        self._files.replace(self._directory / segment.index_name, data, durable=True)
        self._log.load_index(segment)

    def without_index(self) -> list[int]:
        """The base positions of complete segments without an index, which the next opening would have to read."""
        return [
            segment.base_position
            for segment in self._log.segments[:-1]
            if not isinstance(segment.index, FileIndex) and segment.base_position not in self._indexes | self._damaged
        ]

    def adopt_index(self, base_position: int, data: bytes) -> None:
        """Take the index file of a segment from the master; the next sync writes it, once the segment is durable.

        The segment is complete here: the index is the proof of that for later openings, which do not read the segment.

        Raises:
            StoreBytesRefused: it is damaged, or of another segment, or of other bytes; nothing has changed.
        """
        segment = next((each for each in self._log.segments if each.base_position == base_position), None)
        try:
            header = decode_header(data[:HEADER_BYTES])
        except IndexFileCorrupt as error:
            raise StoreBytesRefused(f"index of the segment at {base_position}: {error}") from error
        expected = (base_position, segment.size if segment is not None else None)
        if (header.base_position, header.covered_bytes) != expected or base_position in self._damaged:
            raise StoreBytesRefused(
                f"index of {header.covered_bytes} bytes at {header.base_position}: the segment at {base_position} has "
                f"{expected[1]} whole bytes here"
            )
        assert segment is not None
        if not isinstance(segment.index, FileIndex):
            self._indexes[base_position] = data

    # --- cutting -----------------------------------------------------------------------------------------------------

    def cut(self, position: int, *, salvage: bool = False) -> None:
        """Remove everything from a log position on, and have that on the disk; with `salvage`, keep it in a folder.

        Reads the segments that have no index. An error leaves a cut that the next opening finishes: close this log.

        Raises:
            StoreBytesRefused: the log ends before that position; nothing has changed.
            StoreUnusable, StoreSyncFailed: an I/O error.
            StoreLockLost: another process may write to the directory.
        """
        if position == self.end_position:
            return
        if position > self.end_position:
            raise StoreBytesRefused(f"{self._directory} ends at {self.end_position}, so it cannot be cut at {position}")
        self._check_writable()
        self._lock.check()
        self._settle()
        self._error = StoreWriteFailed(f"the cut at {position} was not finished")
        try:
            number = max(salvage_numbers(self._directory, self._files), default=0) + 1 if salvage else 0
            self._log.close()
            self._indexes.clear()
            begin_cut(self._directory, self._files, Cut(position=position, salvage=number))
        except OSError as error:
            raise to_store_error(self._directory, error) from error
        self._start = position
        self._load()
        self._error = None

    def restart_at(self, position: int, *, salvage: bool = False, epochs: Sequence[Epoch] = ()) -> None:
        """Discard the whole log, and go on at a position with a copy of the master's. Raises as `cut` does.

        With the `epochs` of the master, a copy that is interrupted goes on where it was, also within the part of a log
        that is older than its set and so repeats no history. A new process does not know them: it begins again there.
        """
        self.cut(self.min_position, salvage=salvage)
        self._start = position
        self._copied = tuple(epochs)

    def drop_before(self, position: int) -> None:
        """Delete the oldest segments that end at or before a position, as the master has; the last one stays.

        Raises:
            StoreWriteFailed: an I/O error; the call may be repeated.
            StoreLockLost: another process may write to the directory.
        """
        bases = self._bases()
        kept_bases = [base for base, next_base in pairwise(bases) if next_base > position] + bases[-1:]
        if len(kept_bases) == len(bases):
            return
        self._lock.check()
        try:
            # Durably before the removal: otherwise a loss of power could keep the removal alone, and the next start
            # would miss the segments. On a full disk, the removal makes the room for it.
            with contextlib.suppress(OSError):
                write_ends(self._directory, self._files, kept_bases, durable=True)
                self._files.sync_directory(self._directory)
            for base in bases[: len(bases) - len(kept_bases)]:
                self._log.remove_oldest()
                self._damaged.pop(base, None)
                self._indexes.pop(base, None)
            write_ends(self._directory, self._files, kept_bases, durable=False)
        except OSError as error:
            raise self._write_error(error) from error

    def replace_segment(self, base_position: int, parts: Iterable[bytes]) -> None:
        """Replace a damaged segment, which is not the last one, by the bytes that the master has.

        The last one is not replaced: cut the log instead. Other segments and the log's positions stay as they are.

        Raises:
            StoreBytesRefused: the bytes are damaged as well, or too many for the segment; nothing has changed.
            StoreFull, StoreWriteFailed: an I/O error; the segment is damaged still, or replaced.
            StoreLockLost: another process may write to the directory.
        """
        number, segment = next(
            ((n, each) for n, each in enumerate(self._log.segments[:-1]) if each.base_position == base_position),
            (0, None),
        )
        if segment is None:
            raise StoreBytesRefused(f"{self._directory} has no finished segment at {base_position}")
        self._check_writable()
        self._lock.check()
        self._settle()
        try:
            max_bytes = self._log.segments[number + 1].base_position - base_position
            size = replace_file(self._log, segment, parts, max_bytes)
        except OSError as error:
            raise self._write_error(error) from error
        self._log.close_file(segment)
        segment.size = segment.synced_size = size
        self._damaged.pop(base_position, None)

    def check(self) -> Iterator[SegmentCheck]:
        """Read the segments one by one, in any thread; see `check_segments`."""
        return check_segments(self._directory, self._files)

    def check_lock(self) -> None:
        """Raise `StoreLockLost` if another process may write to the directory."""
        self._lock.check()

    def _write_error(self, error: OSError) -> StoreError:
        if error.errno in DISK_FULL_ERRORS:
            return StoreFull(f"no space in {self._directory} ({error.strerror}): free space, it works again at once")
        return StoreWriteFailed(f"cannot write to {self._directory} ({error}): check the disk")
