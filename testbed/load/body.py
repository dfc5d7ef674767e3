"""Message bodies that begin with their number. Pure.

A body has the lane and the number of its message, then the number of the run, and all of that again until its size is
reached. So every byte follows from the message, and a changed one is detected by comparison:

    body = make_body(SentMessage(3, 17), 256, run=7)
    read_number(body), read_run_number(body)         SentMessage(3, 17), 7
    body == make_body(read_number(body), 256, run=7)   False, if a byte has changed
"""

from __future__ import annotations

import struct

from traces.check.ledger import SentMessage

_HEAD = struct.Struct(">IQ")
_RUN = struct.Struct(">Q")
BARE_BYTES = _HEAD.size
"""Size of the shortest body."""
MARKED_BYTES = _HEAD.size + _RUN.size
"""Size of the shortest body that has the number of its run."""


def make_body(message: SentMessage, size: int = BARE_BYTES, *, run: int = 0) -> bytes:
    """The body of a message, of this size in bytes."""
    head = _HEAD.pack(*message) + _RUN.pack(run)
    return (head * (size // len(head) + 1))[:size]


def read_number(body: bytes) -> SentMessage:
    """The message of a body.

    Raises:
        struct.error: it has fewer than `BARE_BYTES`.
    """
    return SentMessage(*_HEAD.unpack_from(body))


def read_run_number(body: bytes) -> int | None:
    """The number of the run; None if the body is too short for one."""
    if len(body) < MARKED_BYTES:
        return None
    run: int = _RUN.unpack_from(body, _HEAD.size)[0]
    return run
