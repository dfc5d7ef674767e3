"""Makes the log durable, away from the event loop.

`MessageStore.begin_sync` collects the work on the loop; `SyncJob.run` does it, in a worker thread; then
`MessageStore.finish_sync` takes note, on the loop. In between the store can be used freely: the job has descriptors
of its own and touches only index rows that no longer change.

Order inside a job: first the records, then the index of each finished segment. So an index file that exists proves
that its segment is complete on the disk, and recovery need not read it.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path

from broker.store.disk.files import Files
from broker.store.segments.index import MemoryIndex
from broker.store.segments.index_file import HEADER_BYTES, IndexHeader, decode_header, encode_index
from broker.store.segments.segment import Segment


@dataclass(slots=True, kw_only=True)
class SegmentSync:
    """The work of a job on one segment."""

    segment: Segment  # the job does not look inside, because it may be changing
    fd: int | None  # descriptor to sync, the job's own; None if the records are durable already
    size: int  # bytes of the segment when the job began
    # Write its index file from this; None if the segment is still being written, or has one.
    index: MemoryIndex | bytes | None
    index_path: Path
    last_stored_ms: int
    header: IndexHeader | None = None  # set by the job once the index file is there

    def close(self, files: Files) -> None:
        """Close the descriptor."""
        if self.fd is not None:
            files.close(self.fd)
            self.fd = None


class SyncJob:
    """One round of syncing. Read the results only after `run` has returned."""

    def __init__(self, files: Files, position: int, work: list[SegmentSync], new_names_in: Path | None) -> None:
        """`new_names_in`: the directory, if files were made since the last job: their names must be durable, too."""
        self.position = position  # everything before this log position is durable if the job succeeds
        self.work = work  # the work on each segment, the oldest first
        self.error: OSError | None = None  # why the records may not be durable; None if they are
        self.index_error: OSError | None = None  # why an index file could not be written; the next job tries again
        self._files = files
        self._new_names_in = new_names_in
        self._lock = threading.Lock()
        self._ran = False

    def run(self) -> None:
        """Do the work: blocking, in any thread. Never raises; a second call waits for the first and does nothing."""
        with self._lock:
            if not self._ran:
                self._sync_records()
                if self.error is None:
                    self._write_indexes()
                self._ran = True

    def _sync_records(self) -> None:
        for item in self.work:
            if item.fd is None:
                continue
            try:
                if self.error is None:
                    self._files.sync(item.fd)
            except OSError as error:
                self.error = error
            finally:
                item.close(self._files)
        try:
            if self.error is None and self._new_names_in is not None:
                self._files.sync_directory(self._new_names_in)
        except OSError as error:
            self.error = error

    def _write_indexes(self) -> None:
        try:
            for item in self.work:
                if item.index is not None:
                    data = _content(item, item.index)
                    self._files.replace(item.index_path, data, durable=True)
                    item.header = decode_header(data[:HEADER_BYTES])
        except OSError as error:
            self.index_error = error


def _content(item: SegmentSync, index: MemoryIndex | bytes) -> bytes:
    if isinstance(index, bytes):
        return index
    return encode_index(
        index,
        base_position=item.segment.base_position,
        covered_bytes=item.size,
        last_stored_ms=item.last_stored_ms,
    )
