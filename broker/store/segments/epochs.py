"""The epochs of a log: which master wrote it from which position on, and where the logs of two replicas diverge. Pure.

A set of replicas numbers its masterships: each change of the master, and each restart of it, is a new epoch. A master
begins with a new segment. The head of that segment, and of each later one, repeats the history of epochs in one record
of the store's own kind, which older versions pass over:

    |0: table, epochs 1@0|r r r|900: table, epochs 1@0|r r|1400: table, epochs 1@0 2@1400|r r

One epoch has one master, so two logs have equal bytes in a common epoch up to the end of the shorter one. That gives
the position at which a replica has to cut its log before it follows another master:

    master     1@0 ........ 2@1400 ............ 4@2000 ....
    replica    1@0 ........ 2@1400 ................... 3@2300 ...     equal up to 2000: 2 is the newest common epoch

A position within an epoch proves nothing, and neither does a longer log (Kafka: KIP-101; RocketMQ: EpochFileCache).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from broker.store.segments.index_file import Read
from broker.store.segments.scan import walk
from model.record import CONTROL_FLAG, encode_record

EPOCHS = CONTROL_FLAG | 4
MAX_EPOCHS = 1_000
"""Epochs that a head repeats, the newest ones: 20 KB. A replica without any of them copies the whole log."""

_ROW = struct.Struct(">QQI")


class Epoch(NamedTuple):
    """One mastership: the log from `start_position` on, up to the next epoch, was written by this replica."""

    number: int
    start_position: int
    replica_id: int


class LogHistory(NamedTuple):
    """The epochs of a log, the oldest first, and the position up to which its bytes belong to them."""

    epochs: tuple[Epoch, ...]
    end_position: int


class SegmentHead(NamedTuple):
    """The part of a segment that decides about the history of a log."""

    epochs: tuple[Epoch, ...]  # empty if the segment does not repeat the history
    has_messages: bool  # not looked for if there are epochs


def with_epoch(epochs: Sequence[Epoch], new: Epoch) -> tuple[Epoch, ...]:
    """Add an epoch to a history. Epochs without a byte of the log are left out."""
    return (*[each for each in epochs if each.start_position < new.start_position][1 - MAX_EPOCHS :], new)


def encode_epochs(epochs: Sequence[Epoch], stored_ms: int) -> bytes:
    """Return the record that repeats a history; nothing for a log without epochs."""
    if not epochs:
        return b""
    return encode_record(0, 0, 0, stored_ms, 0, EPOCHS, 0, b"".join([_ROW.pack(*each) for each in epochs]))


def read_head(read: Read, size: int) -> SegmentHead:
    """Read the first `size` bytes of a segment up to its history, or else up to its first message.

    Raises what `read` does.
    """
    for _, _, _, _, _, _, _, flags, payload in walk(read, size):
        if flags == EPOCHS and len(payload) % _ROW.size == 0:
            return SegmentHead(tuple(Epoch(*row) for row in _ROW.iter_unpack(payload)), False)
        if not flags & CONTROL_FLAG:
            return SegmentHead((), True)
    return SegmentHead((), False)


def common_epoch(own_epochs: Sequence[Epoch], own_end: int, masters: Sequence[Epoch], masters_end: int) -> int | None:
    """Return the position at which a replica cuts its log, so that it is a beginning of the master's log.

    It is the end of the newest common epoch, in the log in which that epoch ends first. `own_end` and `masters_end` are
    the ends of both histories. None without a common epoch: the replica has to copy the whole log.
    """
    master_set = set(masters)
    common = next((each for each in reversed(own_epochs) if each in master_set), None)
    if common is None:
        return None
    # The history of a copy that was interrupted is that of the whole log, so epochs may begin behind its end.
    return min(_end_of(common, own_epochs, own_end), _end_of(common, masters, masters_end), own_end, masters_end)


def _end_of(epoch: Epoch, epochs: Sequence[Epoch], end_position: int) -> int:
    """The end of an epoch in a log; an unfinished copy may end before the epoch begins, and has the whole history."""
    later = epochs[epochs.index(epoch) + 1 :]
    return min(later[0].start_position, end_position) if later else end_position
