"""Stored records to messages: the only place that decodes a payload, and the hot path of every consumer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import msgpack

from model.message import MessageExt
from model.message_queue import MessageQueue
from model.record import iter_records

_unpack = msgpack.unpackb


def decode_messages(queue: MessageQueue, body: bytes) -> list[MessageExt]:
    """Decode the body of a pull.

    Args:
        queue: the queue that was pulled.
        body: stored records back to back.

    Returns:
        The messages, in offset order.

    Raises:
        RecordCorrupt: the body is damaged.
    """
    messages: list[MessageExt] = []
    add = messages.append
    for offset, stored_ms, _, _, times_delivered, payload in iter_records(body):
        topic, content, tags, keys, properties, born_ms, message_id = cast("Iterable[Any]", _unpack(payload))
        add(
            MessageExt(
                queue, offset, stored_ms, times_delivered, topic, content, tags, keys, properties, born_ms, message_id
            )
        )
    return messages
