"""The frames of the stream from a master to a replica, and their checksum. Pure.

A `LogFrame` is REPLICATE on the wire: bytes of the log and changes of the tables, of one flush of the master or of
several, or a part of a large one. A `TableFrame` is REPLICA_SNAPSHOT: a part of the tables as they were at flush `n`.

    LogFrame(epoch=3, number=8, n=41, position=1_000, base=0, log=b"...", changes=b"...")

      flush 41 is complete with it; `log` begins at position 1,000 of the log, in the segment of position 0
      base -1: no log bytes; position is then where the log ends

The checksum covers every field and the body. So a frame that was corrupted in memory is not applied, and an
acknowledgement identifies its frame by the checksum.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar
from zlib import crc32

import msgpack

from broker.durability.changes import RowChange, check_changes
from model.errors import InvalidParameter, ProtocolError
from remoting.codec import encode_head
from remoting.command import ONE_WAY, Command
from remoting.request_code import RequestCode

NO_BASE = -1
_LENGTH_BYTES = 4
_LOG_FIELDS = struct.Struct(">QQqQqQqQQQ")
_TABLE_FIELDS = struct.Struct(">QQqQ?")


class FrameDamaged(ProtocolError):
    """A frame of the stream is not the one that the master sent, or does not follow the one before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFrame:
    """Bytes of the log, and changes of the tables.

    Attributes:
        epoch: of the master.
        number: 1 for the first frame of a connection, then one more each.
        n: newest flush that the replica has with this frame; -1 while it has no snapshot.
        position: log position of the first byte of `log`.
        base: position of the first byte of the segment that holds them; `NO_BASE` without log bytes.
        log: at most `REPLICA_FRAME_BYTES`, in one segment.
        changes: of the tables, encoded; they are made before `log` is written. Empty without any.
        committed, committed_position: newest flush that all replicas in sync have, and the log position of it.
        min_position, master_position: where the master's log begins and ends; older segments are removed.
    """

    code: ClassVar[RequestCode] = RequestCode.REPLICATE

    epoch: int
    number: int
    n: int
    position: int
    base: int
    log: bytes
    changes: bytes
    committed: int
    committed_position: int
    min_position: int
    master_position: int

    @property
    def end_position(self) -> int:
        """Log position that is reached with it."""
        return self.position + len(self.log)

    def _crc(self) -> int:
        fields = _LOG_FIELDS.pack(
            *(self.epoch, self.number, self.n, self.position, self.base, len(self.log)),
            *(self.committed, self.committed_position, self.min_position, self.master_position),
        )
        return crc32(self.changes, crc32(self.log, crc32(fields)))

    def encode(self) -> tuple[list[bytes], int]:
        """Return the frame in the parts that are sent, and its checksum; the log is not copied."""
        crc = self._crc()
        header = {
            "epoch": self.epoch,
            "number": self.number,
            "n": self.n,
            "position": self.position,
            "base": self.base,
            "log_bytes": len(self.log),
            "committed": self.committed,
            "committed_position": self.committed_position,
            "min_position": self.min_position,
            "master_position": self.master_position,
            "crc": crc,
        }
        head = encode_head(ONE_WAY, self.code, 0, header, len(self.log) + len(self.changes))
        return [head, self.log, self.changes], crc


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFrame:
    """A part of the replicated tables.

    Attributes:
        epoch, number: as those of a `LogFrame`.
        n: flush at which the tables were read; the replica has it when it has the last part.
        part: 0 for the first part.
        is_last: whether no more parts follow.
        chunk: the part, encoded.
    """

    code: ClassVar[RequestCode] = RequestCode.REPLICA_SNAPSHOT

    epoch: int
    number: int
    n: int
    part: int
    is_last: bool
    chunk: bytes

    def _crc(self) -> int:
        return crc32(self.chunk, crc32(_TABLE_FIELDS.pack(self.epoch, self.number, self.n, self.part, self.is_last)))

    def encode(self) -> tuple[list[bytes], int]:
        """Return the frame in the parts that are sent, and its checksum."""
        crc = self._crc()
        header = {
            "epoch": self.epoch,
            "number": self.number,
            "n": self.n,
            "part": self.part,
            "last": self.is_last,
            "crc": crc,
        }
        return [encode_head(ONE_WAY, self.code, 0, header, len(self.chunk)), self.chunk], crc


def decode_frame_of(command: Command) -> tuple[LogFrame | TableFrame, int]:
    """Read a frame, whose header was checked against the table of requests; returns its checksum, too.

    Raises:
        FrameDamaged: the checksum is another one.
    """
    header, body = command.header, command.body or b""
    frame = _log_frame(header, body) if command.code == LogFrame.code else _table_frame(header, body)
    crc = frame._crc()
    if crc != header["crc"]:
        raise FrameDamaged(f"frame {frame.number} has the checksum {crc:#x} and not {header['crc']:#x}")
    return frame, crc


def _log_frame(header: dict[str, Any], body: bytes) -> LogFrame:
    log_bytes = header["log_bytes"]
    if log_bytes > len(body):
        raise FrameDamaged(f"frame {header['number']} announces {log_bytes} bytes of log and has {len(body)}")
    return LogFrame(
        epoch=header["epoch"],
        number=header["number"],
        n=header["n"],
        position=header["position"],
        base=header["base"],
        log=body if log_bytes == len(body) else body[:log_bytes],
        changes=body[log_bytes:],
        committed=header["committed"],
        committed_position=header["committed_position"],
        min_position=header["min_position"],
        master_position=header["master_position"],
    )


def _table_frame(header: dict[str, Any], body: bytes) -> TableFrame:
    return TableFrame(
        epoch=header["epoch"],
        number=header["number"],
        n=header["n"],
        part=header["part"],
        is_last=header["last"],
        chunk=body,
    )


def encode_changes(changes: Sequence[RowChange]) -> bytes:
    """Encode the changes of one flush, behind their length; the changes of several flushes are joined."""
    if not changes:
        return b""
    encoded: bytes = msgpack.packb(changes)
    return len(encoded).to_bytes(_LENGTH_BYTES, "big") + encoded


def decode_changes(parts: Iterable[bytes]) -> list[RowChange]:
    """Read the changes of frames, in order.

    Raises:
        FrameDamaged: they are not changes.
    """
    changes: list[RowChange] = []
    try:
        for part in parts:
            start = 0
            while start < len(part):
                begin = start + _LENGTH_BYTES
                start = begin + int.from_bytes(part[start:begin], "big")
                flush: Any = msgpack.unpackb(part[begin:start])
                changes += check_changes(flush)
    except (ValueError, TypeError, msgpack.UnpackException, InvalidParameter) as error:
        raise FrameDamaged(f"the changes of a frame cannot be read: {error}") from error
    return changes
