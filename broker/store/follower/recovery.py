"""Opens the log of a replica: trusts segments with an index, reads the others, and cuts off a torn tail."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from broker.store.disk.files import Files
from broker.store.segments.commit_log import CommitLog
from broker.store.segments.epochs import Epoch, read_head
from broker.store.segments.index import MemoryIndex
from broker.store.segments.scan import measure
from broker.store.segments.segment import Segment, segment_bases, segment_name


def epochs_in(directory: Path, files: Files) -> tuple[Epoch, ...]:
    """The epochs of the log in a directory, which is not opened for that; see `CommitLog.history`. Raises `OSError`."""
    for base in reversed(segment_bases(files.list_names(directory))):
        fd = files.open(directory / segment_name(base))
        try:
            head = read_head(partial(files.pread, fd), files.size(fd))
        finally:
            files.close(fd)
        if head.epochs or head.has_messages:
            return head.epochs
    return ()


class FollowerRecovery:
    """One opening; `run` fills `log.segments`.

    Attributes:
        damaged: base position of each damaged segment -> log position of the first byte that is wrong or missing.
    """

    def __init__(self, log: CommitLog) -> None:
        self.damaged: dict[int, int] = {}
        self._log = log

    def run(self) -> None:
        """Find the segments. Raises `OSError`."""
        bases = self._log.clean_up()
        for base, next_base in zip(bases, [*bases[1:], None], strict=False):
            self._add(base, next_base)

    def _add(self, base: int, next_base: int | None) -> None:
        log = self._log
        segment = Segment(base_position=base, size=0, index=MemoryIndex({}))
        log.add(segment)
        segment.fd = log.files.open(log.directory / segment.name)
        size = log.files.size(segment.fd)
        segment.size = size if next_base is None else min(size, next_base - base)
        header = log.load_index(segment)
        if header is not None and header.covered_bytes == segment.size:
            log.settle(segment)
            return
        segment.index = MemoryIndex({})
        sizes = measure(partial(log.read, segment), segment.size)
        if next_base is None:
            self._end_at(segment, size, sizes.valid_bytes)
            is_whole = sizes.whole_bytes == sizes.valid_bytes
        else:
            is_whole = base + sizes.whole_bytes == next_base
        if not is_whole:
            self.damaged[base] = base + sizes.whole_bytes

    def _end_at(self, segment: Segment, size: int, valid_bytes: int) -> None:
        """Cut off the bytes behind the last whole record, which a crash interrupted; the index covered more."""
        log = self._log
        if valid_bytes == 0:
            log.files.remove(log.directory / segment.name)
            log.drop(segment)
            return
        log.drop_index(segment)
        if size > valid_bytes:
            assert segment.fd is not None
            log.files.truncate(segment.fd, valid_bytes)
            segment.size = valid_bytes
