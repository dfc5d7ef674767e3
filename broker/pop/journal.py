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

from broker.pop.window import PopWindow, shortened

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


def encode_window(window: PopWindow, times: Times) -> bytes:
    """Encode a window with its invisible messages."""
    committed, tokens, attempts = window.columns()
    batches = [
        [token, batch.client_id, times.wall_ms(batch.since), times.wall_ms(batch.visible_at)]
        for token, batch in window.batches.items()
    ]
    data: bytes = msgpack.packb([sys.byteorder, committed, tokens, attempts, batches])
    return data


def decode_window(data: bytes, times: Times) -> PopWindow:
    """Read what `encode_window` wrote."""
    unpacked: Any = msgpack.unpackb(data)
    byteorder, committed, tokens, attempts, batches = unpacked
    if byteorder != sys.byteorder:
        tokens, attempts = _swapped("Q", tokens), _swapped("H", attempts)
    return PopWindow.restored(
        committed,
        tokens,
        attempts,
        [(token, client_id, times.at(since), times.at(visible)) for token, client_id, since, visible in batches],
    )


def cut_window(window: PopWindow, end: int) -> PopWindow:
    """Take from a window what lies at or behind the end of its queue: a power cut took those messages.

    Others will have their offsets, which nobody has acknowledged.
    """
    committed, tokens, attempts = window.columns()
    left = max(0, end - committed)
    batches = [(token, batch.client_id, batch.since, batch.visible_at) for token, batch in window.batches.items()]
    return PopWindow.restored(min(committed, end), tokens[: 8 * left], attempts[: 2 * left], batches)


def play(window: PopWindow, entry: Entry, times: Times) -> None:
    """Apply an entry to the window that it names; OPEN and FORGET are the caller's. `times` is now, in this run.

    Raises:
        AssertionError: an entry of a kind that is not known.
    """
    kind = entry[0]
    if kind == DELIVER:
        _, _, token, since_ms, visible_ms, client_id, upto, wire = entry
        offsets = shortened(decode_offsets(wire)) if wire else ()
        since, visible_at = times.at(since_ms), times.at(visible_ms)
        window.deliver(offsets, upto=upto, token=token, client_id=client_id, now=since, visible_at=visible_at)
    elif kind == ACK:
        window.ack(entry[2], decode_offsets(entry[3]))
    elif kind == EXTEND:
        _, _, offset, token, new_token, now_ms, visible_ms = entry
        window.extend(token, offset, new_token=new_token, now=times.at(now_ms), visible_at=times.at(visible_ms))
    elif kind == GIVE_BACK:
        window.give_back(entry[2], times.at(entry[3]))
    elif kind == SKIP:
        window.skip(decode_offsets(entry[2]))
    else:
        raise AssertionError(f"an entry of kind {kind}")


def _swapped(kind: str, data: bytes) -> bytes:
    numbers = array(kind)
    numbers.frombytes(data)
    numbers.byteswap()
    return numbers.tobytes()
