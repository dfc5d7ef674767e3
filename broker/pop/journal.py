"""How changes of what is in flight are written down: one entry each, and a snapshot of each window. Pure.

The entries of one turn of the loop are one row of the metadata store, committed before anybody is answered. Played back
in order onto the windows of the last snapshot, they give the windows as they were, and with them what the groups have
committed: only when a window is forgotten is that stored by itself, in the same transaction. There is no entry for
time: what became due was delivered again, or becomes due after the start.

    [OPEN, window, group, topic, queue id, floor]
    [DELIVER, window, token, delivered ms, visible ms, client id, upto, offsets]
    [ACK, window, token, offsets]
    [EXTEND, window, offset, token, new token, now ms, visible ms]
    [GIVE_BACK, window, token, visible ms]
    [SKIP, window, offsets]
    [FORGET, window]

Times are wall clock in milliseconds. Offsets that follow one another are [first, how many], others [[...]].
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgpack

from broker.pop.window import PopQueue, shortened

OPEN, DELIVER, ACK, EXTEND, GIVE_BACK, SKIP, FORGET = range(7)

Entry = tuple[Any, ...]
"""One change: a tuple that msgpack takes."""


class WindowRow(NamedTuple):
    """A stored window.

    Attributes:
        number: by which entries name it.
        group, topic, queue_id: whose it is.
        data: what `encode_window` made.
    """

    number: int
    group: str
    topic: str
    queue_id: int
    data: bytes


class Times(NamedTuple):
    """Two clocks at one moment: those of the loop stop with the process, those on the wall go on.

    Attributes:
        now: loop time in seconds.
        now_ms: wall clock in milliseconds.
    """

    now: float
    now_ms: float

    def at(self, wall_ms: float) -> float:
        """Loop time of a moment on the wall."""
        return self.now + (wall_ms - self.now_ms) / 1000

    def wall_ms(self, at: float) -> int:
        """The moment on the wall of a loop time, rounded."""
        return round(self.now_ms + (at - self.now) * 1000)


def encode_offsets(offsets: Sequence[int]) -> list[Any]:
    """Write ascending offsets briefly."""
    if isinstance(offsets, range) or (offsets and offsets[-1] - offsets[0] == len(offsets) - 1):
        return [offsets[0], len(offsets)]
    return [list(offsets)]


def decode_offsets(wire: list[Any]) -> Sequence[int]:
    """Read what `encode_offsets` wrote."""
    if len(wire) == 2:
        return range(wire[0], wire[0] + wire[1])
    offsets: list[int] = wire[0]
    return offsets


def encode_window(queue: PopQueue, times: Times) -> bytes:
    """Write a window with what is in flight of it.

    Args:
        queue: the window.
        times: now.
    """
    floor, tokens, attempts = queue.window()
    batches = [
        [token, batch.client_id, times.wall_ms(batch.since), times.wall_ms(batch.visible_at)]
        for token, batch in queue.batches.items()
    ]
    data: bytes = msgpack.packb([sys.byteorder, floor, tokens, attempts, batches])
    return data


def decode_window(data: bytes, times: Times) -> PopQueue:
    """Read what `encode_window` wrote.

    Args:
        data: what it returned.
        times: now.
    """
    unpacked: Any = msgpack.unpackb(data)
    byteorder, floor, tokens, attempts, batches = unpacked
    if byteorder != sys.byteorder:
        tokens, attempts = _swapped("Q", tokens), _swapped("H", attempts)
    return PopQueue.of_window(
        floor,
        tokens,
        attempts,
        [(token, client_id, times.at(since), times.at(visible)) for token, client_id, since, visible in batches],
    )


def cut_window(queue: PopQueue, end: int) -> PopQueue:
    """Take from a window what lies at or behind the end of its queue: a power cut took those messages.

    Others will have their offsets, which nobody has acknowledged.
    """
    floor, tokens, attempts = queue.window()
    left = max(0, end - floor)
    batches = [(token, batch.client_id, batch.since, batch.visible_at) for token, batch in queue.batches.items()]
    return PopQueue.of_window(min(floor, end), tokens[: 8 * left], attempts[: 2 * left], batches)


def play(queue: PopQueue, entry: Entry, times: Times) -> None:
    """Change a window as an entry says; OPEN and FORGET are the caller's.

    Args:
        queue: the window that the entry names.
        entry: as it was read.
        times: now, on the clocks of this run.

    Raises:
        AssertionError: an entry of a kind that is not known.
    """
    kind = entry[0]
    if kind == DELIVER:
        _, _, token, since_ms, visible_ms, client_id, upto, wire = entry
        offsets = shortened(decode_offsets(wire)) if wire else ()
        since, visible_at = times.at(since_ms), times.at(visible_ms)
        queue.deliver(offsets, upto=upto, token=token, client_id=client_id, now=since, visible_at=visible_at)
    elif kind == ACK:
        queue.ack(entry[2], decode_offsets(entry[3]))
    elif kind == EXTEND:
        _, _, offset, token, new_token, now_ms, visible_ms = entry
        queue.extend(token, offset, new_token=new_token, now=times.at(now_ms), visible_at=times.at(visible_ms))
    elif kind == GIVE_BACK:
        queue.give_back(entry[2], times.at(entry[3]))
    elif kind == SKIP:
        queue.skip(decode_offsets(entry[2]))
    else:
        raise AssertionError(f"an entry of kind {kind}")


def _swapped(kind: str, data: bytes) -> bytes:
    numbers = array(kind)
    numbers.frombytes(data)
    numbers.byteswap()
    return numbers.tobytes()
