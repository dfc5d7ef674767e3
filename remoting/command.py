"""Command: one frame, decoded. RocketMQ: RemotingCommand."""

from __future__ import annotations

from typing import Any, NamedTuple

REQUEST = 0
RESPONSE = 1
ONE_WAY = 2
"""Values of `flags`, as in RocketMQ: bit 0 marks a response, bit 1 a request that wants no answer."""

_SHOWN_CHARS = 80


class Command(NamedTuple):
    """One frame.

    Attributes:
        flags: REQUEST, RESPONSE or ONE_WAY.
        code: a request code, or in a response a response code.
        opaque: chosen by the sender of a request and returned in its response.
        header: short named fields; what they are stands in `remoting/wire/schema.py`.
        body: bytes, or None.
    """

    flags: int
    code: int
    opaque: int
    header: dict[str, Any]
    body: bytes | None


class Reply(NamedTuple):
    """What a request handler answers; the connection adds the opaque."""

    header: dict[str, Any]
    body: bytes | None = None
    code: int = 0


def shown(value: object) -> str:
    """Text of what a peer sent, for an error message: short, whatever it is.

    Not `repr`: a string of megabytes would come back as an error longer than a frame may be, and a list nested a
    thousand deep ends in a RecursionError.
    """
    if isinstance(value, str | bytes):
        return repr(value[:_SHOWN_CHARS]) + ("..." if len(value) > _SHOWN_CHARS else "")
    if value is None or isinstance(value, int | float):
        return "nothing" if value is None else repr(value)
    return f"a {type(value).__name__}"
