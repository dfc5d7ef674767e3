"""The properties of a stored message, as filters name them, read without the body. Pure.

    payload   97 | topic | body | tags | keys | properties | born_ms | message id      see `model/message.py`
                         ^ skipped: only its length is read

TAGS, KEYS and UNIQ_KEY are properties too, as in RocketMQ: the tag, the keys with a space between each two, and the
message id. A message without a tag or keys has no such property. RocketMQ: MessageDecoder, MessageConst.
"""

from __future__ import annotations

from typing import Any

import msgpack

_OF_SEVEN, _OF_FIVE = 0x97, b"\x95"  # arrays of msgpack
_FIXED_TEXT, _LAST_FIXED_TEXT, _TEXT_8 = 0xA0, 0xBF, 0xD9
_BODY_8, _BODY_16, _BODY_32 = 0xC4, 0xC5, 0xC6
_SHORTEST = 8
_TEXTS = frozenset((str,))

_unpack = msgpack.unpackb


def read_properties(buffer: bytes, start: int, stop: int) -> dict[str, str]:
    """Return the properties of the payload in a part of a buffer; none where it is not a message."""
    try:
        fields: Any = _unpack(_OF_FIVE + buffer[_after_body(buffer, start, stop) : stop])
    except (ValueError, TypeError, msgpack.UnpackException):
        return {}
    tags, keys, properties, _, message_id = fields
    if type(properties) is not dict or not _TEXTS.issuperset(map(type, properties.values())):
        return {}
    all_properties: dict[str, str] = properties
    if tags and type(tags) is str:
        all_properties["TAGS"] = tags
    if keys and type(keys) is list and _TEXTS.issuperset(map(type, keys)):
        all_properties["KEYS"] = " ".join(keys)
    if type(message_id) is str:
        all_properties["UNIQ_KEY"] = message_id
    return all_properties


def _after_body(buffer: bytes, start: int, stop: int) -> int:
    """Where the tag of a payload begins. Raises ValueError for bytes that `encode_payload` does not write."""
    if stop - start >= _SHORTEST and buffer[start] == _OF_SEVEN:
        kind = buffer[start + 1]
        if _FIXED_TEXT <= kind <= _LAST_FIXED_TEXT:
            position = start + 2 + kind - _FIXED_TEXT
        else:
            position = start + 3 + buffer[start + 2] if kind == _TEXT_8 else stop
        if position + 5 < stop:
            kind = buffer[position]
            if kind == _BODY_8:
                return position + 2 + buffer[position + 1]
            if kind == _BODY_16:
                return position + 3 + int.from_bytes(buffer[position + 1 : position + 3], "big")
            if kind == _BODY_32:
                return position + 5 + int.from_bytes(buffer[position + 1 : position + 5], "big")
    raise ValueError("not a message")
