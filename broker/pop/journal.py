"""The stored form of windows: a snapshot of each, and a journal entry for each change since. Pure.

The entries of one event-loop iteration are one row of the metadata, committed before a request of it is answered.
Applied in order to the windows of the last snapshot, they give the windows as they were, with the committed offsets of
the groups: these are stored by themselves only when a window is dropped, in the same transaction. There is no entry for
time: a message that became due was redelivered, or becomes due again after the start.

    [OPEN, window, group, topic, queue id, committed offset]
    [DELIVER, window, token, delivered ms, visible ms, client id, upto, offsets]
    [ACK, window, token, offsets]
    [EXTEND, window, offset, token, new token, now ms, visible ms]
    [UNDO_DELIVERY, window, token, visible ms]
    [SKIP, window, offsets]
    [FORGET, window]
    [RENEW, window, token, now ms, visible ms, ms by which it is extended again and again]
    [GIVE_BACK, window, token, offsets]

Times are wall clock in milliseconds. Consecutive offsets are written as [first, how many], others as [[...]].
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgpack

from broker.pop.window import BatchRow, PopWindow, compact_offsets

OPEN, DELIVER, ACK, EXTEND, UNDO_DELIVERY, SKIP, FORGET, RENEW, GIVE_BACK = range(9)

Entry = tuple[Any, ...]
"""One change: a tuple that msgpack takes."""


class WindowRow(NamedTuple):
    """A stored window: `number` names it in entries, `data` is made by `encode_window`."""

    number: int
    group: str
    topic: str
    queue_id: int
    data: bytes


class Times(NamedTuple):
    """One moment on two clocks: loop time in seconds, which ends with the process, and wall clock in milliseconds."""

    now: float
    now_ms: float

    def at(self, wall_ms: float) -> float:
        """Loop time of a moment on the wall clock."""
        return self.now + (wall_ms - self.now_ms) / 1000

    def until(self, since_ms: float, end_ms: float) -> float:
        """Loop time of the end of a span; one that begins in the future begins now, as the clock was set back."""
        return self.at(min(end_ms, self.now_ms + end_ms - since_ms))

    def wall_ms(self, time_s: float) -> int:
        """Wall clock of a loop time, rounded."""
        return round(self.now_ms + (time_s - self.now) * 1000)


def encode_offsets(offsets: Sequence[int]) -> list[Any]:
    """Encode ascending offsets."""
    if isinstance(offsets, range) or (offsets and offsets[-1] - offsets[0] == len(offsets) - 1):
        return [offsets[0], len(offsets)]
    return [list(offsets)]


def decode_offsets(wire: list[Any]) -> Sequence[int]:
    """Decode offsets of `encode_offsets`."""
    if len(wire) == 2:
        return range(wire[0], wire[0] + wire[1])
    offsets: list[int] = wire[0]
    return offsets


def encode_window(window: PopWindow, times: Times) -> bytes:
    """Encode a window with its invisible messages."""
    committed, tokens, attempts = window.columns()
    batches = [
        [token, client_id, times.wall_ms(since), times.wall_ms(visible_at), round(1000 * renew_s)]
        for token, client_id, since, visible_at, renew_s in window.batch_rows()
    ]
    data: bytes = msgpack.packb([sys.byteorder, committed, tokens, attempts, batches])
    return data


def decode_window(data: bytes, times: Times) -> PopWindow:
    """Decode a window of `encode_window`."""
    unpacked: Any = msgpack.unpackb(data)
    byteorder, committed, tokens, attempts, batches = unpacked
    if byteorder != sys.byteorder:
        tokens, attempts = _swapped("Q", tokens), _swapped("H", attempts)
    return PopWindow.restored(
        committed,
        tokens,
        attempts,
        [
            BatchRow(
                token, client_id, min(times.at(since), times.now), times.until(since, visible), sum(renew_ms) / 1000
            )
            for token, client_id, since, visible, *renew_ms in batches  # files of earlier commits have none
        ],
    )


def cut_window(window: PopWindow, end: int) -> PopWindow:
    """Remove the messages at or after the end of a queue from its window, because a power cut took them.

    Other messages will get their offsets, and are not acknowledged.
    """
    committed, tokens, attempts = window.columns()
    n_left = max(0, end - committed)
    return PopWindow.restored(min(committed, end), tokens[: 8 * n_left], attempts[: 2 * n_left], window.batch_rows())


def apply_entry(window: PopWindow, entry: Entry, times: Times) -> None:
    """Apply an entry to the window that it names; OPEN and FORGET are the caller's. `times` is now, in this run.

    Raises:
        AssertionError: the kind of the entry is unknown.
    """
    kind = entry[0]
    if kind == DELIVER:
        _, _, token, since_ms, visible_ms, client_id, upto, wire = entry
        offsets = compact_offsets(decode_offsets(wire)) if wire else ()
        since, visible_at = min(times.at(since_ms), times.now), times.until(since_ms, visible_ms)
        window.deliver(offsets, upto=upto, token=token, client_id=client_id, now=since, visible_at=visible_at)
    elif kind == ACK:
        window.ack(entry[2], decode_offsets(entry[3]))
    elif kind == EXTEND:
        _, _, offset, token, new_token, now_ms, visible_ms = entry
        together = window.batches.get(new_token)  # its messages were extended a moment before, to the same end
        visible_at = times.until(now_ms, visible_ms) if together is None else together.visible_at
        window.extend(token, offset, new_token=new_token, now=min(times.at(now_ms), times.now), visible_at=visible_at)
    elif kind == UNDO_DELIVERY:
        window.undo_delivery(entry[2], min(times.at(entry[3]), times.now))
    elif kind == RENEW:
        _, _, token, now_ms, visible_ms, renew_ms = entry
        window.renew(token, times.until(now_ms, visible_ms), renew_ms / 1000)
    elif kind == GIVE_BACK:
        window.give_back(entry[2], decode_offsets(entry[3]))
    elif kind == SKIP:
        window.skip(decode_offsets(entry[2]))
    else:
        raise AssertionError(f"an entry of kind {kind}")


def _swapped(kind: str, data: bytes) -> bytes:
    numbers = array(kind)
    numbers.frombytes(data)
    numbers.byteswap()
    return numbers.tobytes()
