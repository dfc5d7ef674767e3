"""Search keys of a stored message, by which it is found: its id, and each of its keys with its topic. Pure.

A copy for a retry and a dead-letter message keep the payload of the message. So they are found by the same id and by
the same keys, under their own topic as well as under the topic of the message. A delayed message
(`broker/retry/delays.py`) is found under the queue to which it will be delivered, a half message
(`broker/transactions/records.py`) under the queue in which a commit publishes it.

This is the only code of a broker that reads payloads; sends do not use it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgpack

from broker.transactions.records import HALVES, decode_half
from model.limits import MAX_KEYS
from model.names import HALF_TOPIC, SCHEDULE_TOPIC

_PAYLOAD_TYPES = (str, bytes, str, list, dict, int, str)
_DELAYED_TYPES = (int, str, int, int, int, bytes)
_NOTHING: frozenset[bytes] = frozenset()


class DelayedRecord(NamedTuple):
    """A delayed message in queue 0 of the schedule topic: due at a wall clock time, for a topic and queue."""

    due_ms: int
    topic: str
    queue_id: int
    tag_hash: int
    times_delivered: int
    payload: bytes


def id_key(message_id: str) -> bytes:
    """The search key of a message id."""
    return b"i" + message_id.encode("utf-8", "surrogatepass")


def topic_key(topic: str, key: str) -> bytes:
    """The search key of a key in a topic; topic names have no zero byte."""
    return f"k{topic}\0{key}".encode("utf-8", "surrogatepass")


class SearchKeys:
    """Returns the search keys of stored records; `names` is topic id -> topic, of the topics that exist."""

    def __init__(self, names: Mapping[int, str]) -> None:
        self._names = names

    def __call__(self, topic_id: int, queue_id: int, payload: bytes) -> frozenset[bytes]:
        """The search keys of one record; empty if it is not a message."""
        stored_in = self._names.get(topic_id)
        if stored_in == SCHEDULE_TOPIC:
            delayed = unpack_delayed(payload) if queue_id == 0 else None
            if delayed is None:
                return _NOTHING
            stored_in, payload = delayed.topic, delayed.payload
        elif stored_in == HALF_TOPIC:
            half = decode_half(payload) if queue_id == HALVES else None
            if half is None:
                return _NOTHING
            stored_in, payload = half.topic, half.payload
        fields = _unpack(payload, _PAYLOAD_TYPES)
        if fields is None or not all(isinstance(key, str) for key in fields[3]):
            return _NOTHING
        topic, _, _, keys, _, _, message_id = fields
        terms = {id_key(message_id)}
        for name in {topic, topic if stored_in is None else stored_in}:
            terms.update(topic_key(name, key) for key in keys[:MAX_KEYS])
        return frozenset(terms)


def unpack_delayed(payload: bytes) -> DelayedRecord | None:
    """Decode a delayed message; None if the bytes are something else."""
    fields = _unpack(payload, _DELAYED_TYPES)
    return None if fields is None else DelayedRecord(*fields)


def _unpack(payload: bytes, types: tuple[type, ...]) -> list[Any] | None:
    try:
        fields = msgpack.unpackb(payload)
    except (ValueError, TypeError, OverflowError, msgpack.UnpackException):
        return None  # a broker stores any bytes that a producer sends, so they may not be a message
    return fields if isinstance(fields, list) and tuple(map(type, fields)) == types else None
