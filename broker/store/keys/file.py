"""Maps each term to the records of a segment that have it: sorted hashes, in memory and then in a file. Pure.

A *term* is what a record can be found by: bytes, which this module only hashes. Nothing is lost with such a file:
a file that is missing or damaged is built again from the segment. Hashes collide, so a position from the table is a
candidate; its reader checks that the record has the term.

    header     magic 8s, base position u64, bytes of the segment it covers u64, entries u32,
               CRC of the directory u32, CRC of the header so far u32                                   36 bytes
    directory  per bucket: index after its last entry u32, CRC of its entries u32                        8 bytes
    entries    hash u32, position in the segment u32; sorted                                             8 bytes

The bucket of an entry is given by the highest bits of its hash, so a search reads the header, the directory and one
bucket, whatever the size of the file, and everything it reads is under a checksum. Buckets are also why the table can
be sorted in short steps: a list of a million numbers sorted at once would keep Python's lock for half a second.

    >>> table = KeyTable()
    >>> table.add(b"k1", 40), table.add(b"k2", 120), table.add(b"k1", 300)
    (None, None, None)
    >>> data = encode_keys(table, base_position=0, covered_bytes=400)
    >>> KeyFile(lambda length, position: data[position : position + length], 0, 400).positions(b"k1")
    [300, 40]
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left
from zlib import crc32

from broker.store.disk.errors import StoreError
from broker.store.segments.index_file import Read

_MAGIC = b"rlabkey1"
_HEADER = struct.Struct(">8sQQII")
_CRC = struct.Struct(">I")
_HEADER_BYTES = _HEADER.size + _CRC.size
_BUCKET = struct.Struct(">II")
_BUCKET_BITS = 10
_BUCKETS = 1 << _BUCKET_BITS
_ENTRY_BYTES = 8
_TO_BUCKET = 64 - _BUCKET_BITS

MAX_ENTRIES = 4_000_000
"""Entries of one table, 32 MB of memory: eight keys for each of half a million messages."""


class KeyFileCorrupt(StoreError):
    """The file is damaged, or of another state of its segment. It is built again; nothing is lost."""


class KeyTable:
    """The entries of one segment, as they are found."""

    __slots__ = ("_buckets", "count", "end", "overfull")

    def __init__(self) -> None:
        self.end = 0  # position in the segment up to which its records are in the table
        self.count = 0
        self.overfull = False  # more than `MAX_ENTRIES` were added; the table is useless, and empty
        self._buckets: list[array[int]] = [array("Q") for _ in range(_BUCKETS)]

    def add(self, term: bytes, position: int) -> None:
        """Add a term of the record at a position of the segment."""
        if self.count >= MAX_ENTRIES:
            self.overfull = True
            self._buckets = [array("Q")] * _BUCKETS
            return
        entry = crc32(term) << 32 | position
        self._buckets[entry >> _TO_BUCKET].append(entry)
        self.count += 1

    def positions(self, term: bytes) -> list[int]:
        """Return where records may have a term, the newest first."""
        hashed = crc32(term)
        bucket = self._buckets[hashed >> (_TO_BUCKET - 32)]
        return sorted((entry & 0xFFFFFFFF for entry in bucket if entry >> 32 == hashed), reverse=True)

    def sorted_bucket(self, number: int) -> bytes:
        """Return the entries of one bucket in the form of the file."""
        entries = array("Q", sorted(self._buckets[number]))
        if sys.byteorder == "little":
            entries.byteswap()
        return entries.tobytes()


def encode_keys(table: KeyTable, *, base_position: int, covered_bytes: int) -> bytes:
    """Return the content of the file of a finished segment of `covered_bytes`, whose records are all in the table."""
    assert not table.overfull, "a table without its entries must not be written"
    directory = bytearray()
    buckets = []
    end = 0
    for number in range(_BUCKETS):
        entries = table.sorted_bucket(number)
        end += len(entries) // _ENTRY_BYTES
        directory += _BUCKET.pack(end, crc32(entries))
        buckets.append(entries)
    header = _HEADER.pack(_MAGIC, base_position, covered_bytes, table.count, crc32(directory))
    return b"".join([header, _CRC.pack(crc32(header)), directory, *buckets])


class KeyFile:
    """Reads the file of one segment. Memory: the directory, 8 KiB, and one bucket."""

    def __init__(self, read: Read, base_position: int, covered_bytes: int) -> None:
        """Open a file of the segment at `base_position`, which has `covered_bytes` bytes now.

        Raises:
            KeyFileCorrupt: damaged, or of another state of the segment.
            OSError: the file cannot be read.
        """
        self._read = read
        length = _HEADER_BYTES + _BUCKETS * _BUCKET.size
        data = read(length, 0)
        if len(data) < length or not data.startswith(_MAGIC):
            raise KeyFileCorrupt("not a key file")
        if _CRC.unpack_from(data, _HEADER.size)[0] != crc32(data[: _HEADER.size]):
            raise KeyFileCorrupt("the checksum of the header does not match")
        _, base, covered, _, directory_crc = _HEADER.unpack_from(data)
        if (base, covered) != (base_position, covered_bytes):
            raise KeyFileCorrupt(f"it is about {covered} bytes at {base}, not {covered_bytes} at {base_position}")
        self._directory = data[_HEADER_BYTES:]
        if crc32(self._directory) != directory_crc:
            raise KeyFileCorrupt("the checksum of the directory does not match")

    def positions(self, term: bytes) -> list[int]:
        """Return where records may have a term, the newest first. Raises as the constructor does."""
        hashed = crc32(term)
        number = hashed >> (_TO_BUCKET - 32)
        start = _BUCKET.unpack_from(self._directory, (number - 1) * _BUCKET.size)[0] if number else 0
        end, crc = _BUCKET.unpack_from(self._directory, number * _BUCKET.size)
        length = (end - start) * _ENTRY_BYTES
        data = self._read(length, _HEADER_BYTES + len(self._directory) + start * _ENTRY_BYTES)
        if len(data) != length or crc32(data) != crc:
            raise KeyFileCorrupt(f"bucket {number} is damaged")
        entries = array("Q", data)
        if sys.byteorder == "little":
            entries.byteswap()
        first = bisect_left(entries, hashed << 32)
        stop = bisect_left(entries, (hashed + 1) << 32)
        return [entry & 0xFFFFFFFF for entry in reversed(entries[first:stop])]
