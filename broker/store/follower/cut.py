"""Cuts the end of a log atomically: after a crash the log is as before the cut, or the next start repeats the cut.

The file `CUT` has the position. It is durable before anything is removed, and is removed durably at the end. If the
directory is opened while the file exists, the whole cut is done again:

    CUT -> later segments, the newest first -> index of the one that is cut -> its end -> ENDS -> no CUT

The removed bytes may be kept in `salvage/`; see `salvage.py`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from broker.store.disk.errors import StoreCutUnreadable
from broker.store.disk.files import Files
from broker.store.ends import FILE_NAME as ENDS_NAME
from broker.store.ends import encode_ends
from broker.store.follower.salvage import SALVAGE_NAME, salvage_folder, salvage_segment, salvage_tail
from broker.store.segments.index import LogKey
from broker.store.segments.scan import read_queue_table
from broker.store.segments.segment import INDEX_SUFFIX, KEYS_SUFFIX, LOG_SUFFIX, segment_bases, segment_name

CUT_NAME = "CUT"
_MARKER_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """One cut of a log; 0 discards the whole log."""

    position: int  # log position of the first byte that goes
    salvage: int  # number of the folder that keeps the bytes; 0 to keep none


def begin_cut(directory: Path, files: Files, cut: Cut) -> None:
    """Write the marker: from here on `finish_cut` does the cut, now or at the next opening.

    Raises:
        OSError: the marker is perhaps there. The log is not to be written before it is opened again.
    """
    files.replace(directory / CUT_NAME, json.dumps(asdict(cut)).encode(), durable=True)
    files.sync_directory(directory)


def finish_cut(directory: Path, files: Files) -> Cut | None:
    """Do the cut that was begun, and return it; None without one. No file of the log may be open.

    Raises:
        StoreCutUnreadable: the marker is damaged; nothing has changed.
        OSError: the next opening does the cut again.
    """
    cut = _read_marker(directory, files)
    if cut is None:
        return None
    bases = segment_bases(files.list_names(directory))
    if cut.salvage:
        files.make_directory(salvage_folder(directory, cut.salvage))
        files.sync_directory(directory / SALVAGE_NAME)
    for base in [base for base in reversed(bases) if base >= cut.position]:
        if cut.salvage:
            salvage_segment(directory, files, cut.salvage, base)
        else:
            files.remove(directory / segment_name(base))
        _remove_beside(directory, files, base)
    if cut.salvage:
        files.sync_directory(salvage_folder(directory, cut.salvage))
    kept_bases = [base for base in bases if base < cut.position]
    if kept_bases:
        _cut_segment(directory, files, kept_bases[-1], cut)
    write_ends(directory, files, kept_bases, durable=True)
    files.sync_directory(directory)
    files.remove(directory / CUT_NAME)
    files.sync_directory(directory)  # a marker that came back would cut later bytes
    return cut


def _read_marker(directory: Path, files: Files) -> Cut | None:
    try:
        fd = files.open(directory / CUT_NAME)
    except FileNotFoundError:
        return None
    try:
        return Cut(**json.loads(files.pread(fd, _MARKER_BYTES, 0)))
    except (ValueError, TypeError) as error:
        raise StoreCutUnreadable(
            f"{directory / CUT_NAME} is damaged ({error}), so the end of the log is not known: let the replica copy "
            "the whole log into an empty directory"
        ) from error
    finally:
        files.close(fd)


def _cut_segment(directory: Path, files: Files, base: int, cut: Cut) -> None:
    path = directory / segment_name(base)
    fd = files.open(path)
    try:
        size = cut.position - base
        if files.size(fd) <= size:
            return
        if cut.salvage:
            salvage_tail(directory, files, cut.salvage, base, fd, size)
        # Durably before the cut: an index of more bytes than there are would report them as lost.
        _remove_beside(directory, files, base)
        files.sync_directory(directory)
        files.truncate(fd, size)
        files.sync(fd)
    finally:
        files.close(fd)


def _remove_beside(directory: Path, files: Files, base: int) -> None:
    stem = directory / segment_name(base).removesuffix(LOG_SUFFIX)
    files.remove(stem.with_suffix(INDEX_SUFFIX))
    files.remove(stem.with_suffix(KEYS_SUFFIX))


def write_ends(directory: Path, files: Files, bases: Sequence[int], *, durable: bool) -> None:
    """Write the file of ends for a log that consists of these segments; without a segment, remove it.

    It has the begin of the log and of its queues, so that segments which the master has deleted are not missed. It has
    no end of a queue: those come from the log itself, or from the master.

    Raises:
        OSError: the file is as before.
    """
    path = directory / ENDS_NAME
    if not bases:
        files.remove(path)
        return
    firsts: dict[LogKey, int] = {}
    fd = files.open(directory / segment_name(bases[0]))
    try:
        firsts = read_queue_table(partial(files.pread, fd), files.size(fd))
    finally:
        files.close(fd)
    files.replace(path, encode_ends(bases[0], firsts, bases[-1], {}), durable=durable)
