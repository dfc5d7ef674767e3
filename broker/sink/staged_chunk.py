"""What one stage request carries, and one record of the stage topic holds: messages with where they are to go."""

from __future__ import annotations

from typing import Any

import msgpack

from model.limits import MAX_PAYLOAD_BYTES

StagedMessage = tuple[str, int, int, bytes]
"""(topic, queue id, tag hash, payload)."""


def staged_messages(body: bytes | None) -> list[StagedMessage]:
    """Unpack a chunk, without trust.

    Raises:
        ValueError, TypeError: it is not one.
    """
    chunk: Any = msgpack.unpackb(body or b"", use_list=False)
    if type(chunk) is not tuple or not chunk:
        raise ValueError("the body must be an array of messages, not empty")
    for message in chunk:
        if type(message) is not tuple or [type(part) for part in message] != [str, int, int, bytes]:
            raise ValueError("a message must be [topic, queue id, tag hash, payload]")
        if message[1] < 0 or not -(2**31) <= message[2] < 2**31 or len(message[3]) > MAX_PAYLOAD_BYTES:
            raise ValueError(
                f"a queue id is not negative, a tag hash has 32 bits, a payload at most {MAX_PAYLOAD_BYTES} bytes"
            )
    return list(chunk)
