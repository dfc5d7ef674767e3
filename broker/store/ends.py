"""The file `ENDS`: both limits of the log and of its queues, which make a lost end visible.

The log alone cannot show that its last bytes are gone, or its first file: the rest looks like a log that ends
earlier, or that retention has shortened. So this file has the limits. It is a small journal:

    magic       8 bytes
    block       CRC of the rest u32, kind u8, bytes of rows u32, log position u64, then its rows     17 bytes
    row         topic_id u32, queue_id u32, offset u64                                               16 bytes

    FIRSTS      the oldest position of the log, and the oldest offset of each queue
    ENDS        the position up to which readers may see the log, and the ends of queues that have grown to there
    DROPPED     queues of a deleted topic

A batch of sends appends one block behind its write to the log and before its answers. So every
message that was acknowledged to its producer is in both files, and a crash in between leaves only records beyond the
stored ends, which are kept. The file is never synced for a send: a loss of power may leave an older end, and then hides
a loss that happens in the same moment.
With `flush = sync` a block is written when its messages are durable, so it never claims what the disk did not have.

The whole file is rewritten when the store is opened or begins a segment, or when the file has grown.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from zlib import crc32

from broker.store.disk.files import Files
from broker.store.segments.index import LogKey

FILE_NAME = "ENDS"
GROWN_BYTES = 1024 * 1024
"""The file is rewritten when it has grown by this much; so it costs the start of a broker a few milliseconds."""

_MAGIC = b"rlabend1"
_BLOCK = struct.Struct(">BIQ")
_CRC = struct.Struct(">I")
_ROW = struct.Struct(">IIQ")
_HEAD_BYTES = _CRC.size + _BLOCK.size
_FIRSTS, _ENDS, _DROPPED = range(1, 4)

_pack_row = _ROW.pack
_pack_block = _BLOCK.pack


@dataclass(slots=True, kw_only=True)
class KnownEnds:
    """The content of the file."""

    min_position: int = 0  # log position of the oldest byte
    position: int = 0  # log position after the newest byte that a reader may see
    firsts: dict[LogKey, int] = field(default_factory=dict)  # oldest offset of each queue
    ends: dict[LogKey, int] = field(default_factory=dict)  # offset after the newest message of each queue
    flaw: str = ""  # why the file is not complete; "" if it is


def decode_ends(data: bytes) -> KnownEnds:
    """Read the content of the file, up to the first block that is damaged."""
    result = KnownEnds()
    if not data.startswith(_MAGIC):
        result.flaw = "is not a file of ends" if data else "is empty"
        return result
    block_at = len(_MAGIC)
    while block_at + _HEAD_BYTES <= len(data):
        (crc,) = _CRC.unpack_from(data, block_at)
        kind, size, position = _BLOCK.unpack_from(data, block_at + _CRC.size)
        rows_at, stop = block_at + _HEAD_BYTES, block_at + _HEAD_BYTES + size
        if stop > len(data) or size % _ROW.size or crc32(data[block_at + _CRC.size : stop]) != crc:
            break
        rows = {(topic, queue): offset for topic, queue, offset in _ROW.iter_unpack(data[rows_at:stop])}
        if kind == _FIRSTS:
            result.min_position, result.firsts = position, rows
        else:
            result.position = max(result.position, position)
        if kind == _ENDS:
            result.ends.update(rows)
        elif kind == _DROPPED:
            result.ends = {key: end for key, end in result.ends.items() if key not in rows}
        block_at = stop
    if block_at < len(data):
        result.flaw = f"is damaged from byte {block_at} on"
    return result


def encode_ends(min_position: int, firsts: Mapping[LogKey, int], position: int, ends: Mapping[LogKey, int]) -> bytes:
    """Return the content of a whole file."""
    return b"".join(
        [
            _MAGIC,
            _block(_FIRSTS, min_position, ((*key, first) for key, first in firsts.items())),
            _block(_ENDS, position, ((*key, end) for key, end in ends.items())),
        ]
    )


def _block(kind: int, position: int, rows: Iterable[tuple[int, int, int]]) -> bytes:
    packed = b"".join([_pack_row(*row) for row in rows])
    body = _pack_block(kind, len(packed), position) + packed
    return _CRC.pack(crc32(body)) + body


class EndsFile:
    """The file of one store. Only `load` may raise `OSError`.

    A block that cannot be written is written with the next one, because the whole file is rewritten then: a send that
    is stored is not refused for it.
    """

    def __init__(self, directory: Path, files: Files) -> None:
        self.is_stale = True  # whether it has to be rewritten: it is incomplete, or it has grown
        self._directory = directory
        self._path = directory / FILE_NAME
        self._files = files
        self._fd: int | None = None
        self._size = 0
        self._full_bytes = 0

    def load(self) -> KnownEnds | None:
        """Read the file; None if there is none.

        Raises:
            OSError: it cannot be read.
        """
        try:
            fd = self._files.open(self._path)
        except FileNotFoundError:
            return None
        try:
            return decode_ends(self._files.pread(fd, self._files.size(fd), 0))
        finally:
            self._files.close(fd)

    def rewrite(
        self,
        min_position: int,
        firsts: Mapping[LogKey, int],
        position: int,
        ends: Mapping[LogKey, int],
        *,
        durable: bool = False,
    ) -> None:
        """Rewrite the whole file."""
        data = encode_ends(min_position, firsts, position, ends)
        with contextlib.suppress(OSError):
            fd = self._files.create(self._path, data, durable=durable)
            self._close_file()
            self._fd, self._size, self._full_bytes, self.is_stale = fd, len(data), len(data), False

    def append_ends(self, position: int, rows: Iterable[tuple[int, int, int]]) -> None:
        """Append the ends of queues that have grown, as (topic id, queue id, end)."""
        self._append(_block(_ENDS, position, rows))

    def append_dropped(self, position: int, keys: Iterable[LogKey]) -> None:
        """Append that queues are gone with their topic."""
        self._append(_block(_DROPPED, position, ((*key, 0) for key in keys)))

    def append_first(self, min_position: int, firsts: Mapping[LogKey, int]) -> None:
        """Append where the log begins once its oldest segments are removed, and make that durable.

        Otherwise a loss of power could keep the removal and not its block, and the next start would report the removed
        files as lost. On a full disk the removal goes on all the same, because it makes room for the block.
        """
        self._append(_block(_FIRSTS, min_position, ((*key, first) for key, first in firsts.items())))
        if self._fd is not None:
            with contextlib.suppress(OSError):
                self._files.sync(self._fd)
                self._files.sync_directory(self._directory)

    def _append(self, data: bytes) -> None:
        if self.is_stale or self._fd is None:
            return
        try:
            self._files.write_all(self._fd, data, self._size)
        except OSError:
            self.is_stale = True
            return
        self._size += len(data)
        self.is_stale = self._size > 2 * self._full_bytes + GROWN_BYTES

    def close(self) -> None:
        """Make it durable and close it. Idempotent."""
        if self._fd is not None:
            with contextlib.suppress(OSError):
                self._files.sync(self._fd)
        self._close_file()

    def _close_file(self) -> None:
        if self._fd is not None:
            self._files.close(self._fd)
            self._fd = None
