"""Replaces a damaged segment by the bytes of another replica, so that a crash leaves the old or the new file."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from functools import partial

from broker.store.disk.errors import StoreBytesRefused
from broker.store.disk.files import TEMPORARY_SUFFIX
from broker.store.segments.commit_log import CommitLog
from broker.store.segments.scan import measure
from broker.store.segments.segment import Segment


def replace_file(log: CommitLog, segment: Segment, parts: Iterable[bytes], max_bytes: int) -> int:
    """Replace the file of a segment by other bytes, at most `max_bytes`, and return their number.

    Durable when this returns. The segment no longer has an index.

    Raises:
        StoreBytesRefused: the bytes are damaged, or too many; nothing has changed.
        OSError: the file is the old or the new one.
    """
    files, path = log.files, log.directory / segment.name
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    fd = files.open(temporary, create=True)
    try:
        files.truncate(fd, 0)
        size = 0
        for part in parts:
            files.write_all(fd, part, size)
            size += len(part)
        sizes = measure(partial(files.pread, fd), size)
        if not 0 < size == sizes.whole_bytes <= max_bytes:
            raise StoreBytesRefused(
                f"the {size} bytes for the segment at {segment.base_position} are damaged behind "
                f"{sizes.whole_bytes}, or more than {max_bytes}"
            )
        files.sync(fd)
        # Without an index a later opening reads the segment, whichever of both it is.
        log.drop_index(segment)
        files.sync_directory(log.directory)
        files.rename(temporary, path)
        files.sync_directory(log.directory)
    except BaseException:  # of any class: the segment stays as it was, and the unfinished copy is removed
        with contextlib.suppress(OSError):
            files.remove(temporary)
        raise
    finally:
        files.close(fd)
    return size
