"""The handle by which a producer recalls a delayed message: broker, place and id of the message, as a text. Pure.

    v1 TOPIC BROKER DUE_MS MESSAGE_ID OFFSET     as base64url

The first five words are those of RocketMQ, whose clients read the broker's name. The offset is the place among the
delayed messages of a broker of this project.

RocketMQ: RecallMessageHandle.
"""

from __future__ import annotations

from base64 import b64decode, urlsafe_b64encode
from binascii import Error
from collections.abc import Mapping
from typing import Any, NamedTuple

from model.errors import InvalidParameter
from model.limits import MAX_FIELD_CHARS
from model.message_queue import MessageQueue

_VERSION = "v1"
_WORDS = 5
_UNKNOWN = -1


class RecallHandle(NamedTuple):
    """A delayed message; `offset` is -1 in a handle of RocketMQ's brokers, or if the place is not known."""

    topic: str
    broker: str
    due_ms: int
    message_id: str
    offset: int

    def text(self) -> str:
        """The form for clients; RocketMQ's, without the offset, if that is unknown."""
        words = self if self.offset >= 0 else self[:-1]
        return urlsafe_b64encode(" ".join((_VERSION, *map(str, words))).encode()).decode()


def parse_recall_handle(text: str) -> RecallHandle:
    """Read a handle.

    Raises:
        InvalidParameter: the text is not a handle.
    """
    try:
        if len(text) > MAX_FIELD_CHARS:
            raise ValueError
        version, topic, broker, due_ms, message_id, *offset_text = (
            b64decode(text, b"-_", validate=True).decode().split(" ")
        )
        handle = RecallHandle(topic, broker, int(due_ms), message_id, int(offset_text[0]) if offset_text else _UNKNOWN)
        if version != _VERSION or not message_id or handle.due_ms < 0 or (offset_text and handle.offset < 0):
            raise ValueError
    except (ValueError, Error):
        text = f"not a recall handle: {text[:100]!r}; take the one of the result of a delayed send"
        raise InvalidParameter(text) from None
    return handle


def handle_in(answer: Mapping[str, Any], queue: MessageQueue, message_id: str) -> str:
    """The handle of a message from the answer to its send; empty if it cannot be recalled.

    A server of RocketMQ answers with the whole handle, and a broker of this project with the place of the message.
    """
    if "delayed_offset" not in answer:
        return str(answer.get("recall_handle", ""))
    values = answer["due_ms"], message_id, answer["delayed_offset"]
    return RecallHandle(queue.topic, queue.broker_name, *values).text()
