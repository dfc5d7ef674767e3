"""The records of half messages and of their ends, and the order that survives a loss of power. Pure.

Queue 0 holds the half messages, queue 1 a mark for each write that ended or counted some of them:

    half    msgpack [producer group, topic, queue id, tag hash, first check after ms or -1, cause, payload]
    mark    msgpack [kind, offsets in queue 0, where their messages were published: topic id, queue id, offset, each]

A mark stands before the messages that it publishes, in the same write. What a loss of power leaves of a write is its
beginning. So a message is never published without its mark, and the last mark of all shows which messages are missing:
they are published again, and no message is published twice.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import msgpack

from model.transaction import HalfMessage

HALVES, MARKS = 0, 1
"""Queues of the half topic."""

_pack = msgpack.Packer(autoreset=True).pack
_new_tuple = tuple.__new__  # the constructor of a named tuple is Python code
_HALF_TYPES = (str, str, int, int, int, str, bytes)
_NO_TARGETS: tuple[tuple[int, int, int], ...] = ()


class MarkKind(IntEnum):
    """What became of the half messages that a mark names."""

    COMMITTED = 0
    ROLLED_BACK = 1
    ABANDONED = 2
    CHECKED = 3


class Mark(NamedTuple):
    """A mark; `targets` are (topic id, queue id, offset) of the published messages, one for each offset, or none."""

    kind: MarkKind
    offsets: tuple[int, ...]
    targets: tuple[tuple[int, int, int], ...] = _NO_TARGETS


def encode_half(half: HalfMessage) -> bytes:
    """The record of a half message."""
    packed: bytes = _pack(half)
    return packed


def decode_half(record: bytes) -> HalfMessage | None:
    """Decode the record of a half message; None if the bytes are something else."""
    fields = _unpacked(record)
    if type(fields) is not tuple or tuple(map(type, fields)) != _HALF_TYPES:
        return None
    return _new_tuple(HalfMessage, fields)


def encode_mark(mark: Mark) -> bytes:
    """The record of a mark."""
    packed: bytes = _pack(mark)
    return packed


def decode_mark(record: bytes) -> Mark | None:
    """Decode a mark; None if the bytes are something else."""
    fields = _unpacked(record)
    try:
        kind, offsets, targets = fields
        return Mark(MarkKind(kind), offsets, targets)
    except (TypeError, ValueError):
        return None


def _unpacked(record: bytes) -> Any:
    try:
        return msgpack.unpackb(record, use_list=False)
    except (ValueError, TypeError, OverflowError, msgpack.UnpackException):
        return None
