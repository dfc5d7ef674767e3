"""What a stored message can be found by: its id, and each of its keys together with its topic. Pure.

A copy for a retry and a dead letter keep the payload of the message, so they are found by the same id and, under the
name of their own topic and under that of the message, by the same keys. A parked message (`broker/retry/delays.py`) is
found as if it stood already where it will be delivered.

This is the only code of a broker that looks into payloads, and no send comes by here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgpack

from model.limits import MAX_KEYS
from model.names import SCHEDULE_TOPIC

_PAYLOAD_TYPES = (str, bytes, str, list, dict, int, str)
_PARKED_TYPES = (int, str, int, int, int, bytes)
_NOTHING: frozenset[bytes] = frozenset()


class Parked(NamedTuple):
    """A delayed message, as it lies in queue 0 of the schedule topic.

    Attributes:
        due_ms: when it is delivered, wall clock in milliseconds.
        topic, queue_id: where to.
        tag_hash: of its tag.
        times_delivered: failed deliveries before.
        payload: the producer's bytes.
    """

    due_ms: int
    topic: str
    queue_id: int
    tag_hash: int
    times_delivered: int
    payload: bytes


def id_term(message_id: str) -> bytes:
    """The term of a message id."""
    return b"i" + message_id.encode("utf-8", "surrogatepass")


def key_term(topic: str, key: str) -> bytes:
    """The term of a key in a topic; topic names have no zero byte."""
    return f"k{topic}\0{key}".encode("utf-8", "surrogatepass")


class MessageTerms:
    """Gives the terms of stored records.

    Args:
        names: topic id -> topic, of the topics that exist.
    """

    def __init__(self, names: Mapping[int, str]) -> None:
        self._names = names

    def __call__(self, topic_id: int, queue_id: int, payload: bytes) -> frozenset[bytes]:
        """The terms of one record; none if it is not a message."""
        stored_in = self._names.get(topic_id)
        if stored_in == SCHEDULE_TOPIC:
            parked = unpack_parked(payload) if queue_id == 0 else None
            if parked is None:
                return _NOTHING
            stored_in, payload = parked.topic, parked.payload
        fields = _unpack(payload, _PAYLOAD_TYPES)
        if fields is None or not all(isinstance(key, str) for key in fields[3]):
            return _NOTHING
        topic, _, _, keys, _, _, message_id = fields
        terms = {id_term(message_id)}
        for name in {topic, topic if stored_in is None else stored_in}:
            terms.update(key_term(name, key) for key in keys[:MAX_KEYS])
        return frozenset(terms)


def unpack_parked(payload: bytes) -> Parked | None:
    """Read a parked message; None if these bytes are none."""
    fields = _unpack(payload, _PARKED_TYPES)
    return None if fields is None else Parked(*fields)


def _unpack(payload: bytes, types: tuple[type, ...]) -> list[Any] | None:
    try:
        fields = msgpack.unpackb(payload)
    except (ValueError, TypeError, OverflowError, msgpack.UnpackException):
        return None  # a broker stores whatever bytes a producer sends
    return fields if isinstance(fields, list) and tuple(map(type, fields)) == types else None
