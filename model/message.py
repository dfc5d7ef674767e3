"""Messages as a producer sends them and as a consumer gets them, the payload bytes between, and delay levels.

The producer encodes a message once, with `encode_payload`; the broker stores those bytes behind a binary header and
never looks inside (`model/record.py`); only the consumer decodes it (`model/decode.py`).

    payload = msgpack [topic, body, tags, keys, properties, born_ms, message_id]

The topic inside is the one that the producer named. It stays when a record is moved to another topic (retry, dead
letter), so a consumer sees the original topic of a message.

A delay level determines how long a message waits before it is delivered. RocketMQ:
MessageStoreConfig.messageDelayLevel.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple, NoReturn

import msgpack

from model.arguments import check_text, short_repr
from model.errors import InvalidParameter, MessageIllegal
from model.limits import MAX_BATCH_MESSAGES, MAX_BODY_BYTES, MAX_KEYS, MAX_PAYLOAD_BYTES, MAX_PROPERTIES
from model.message_queue import MessageQueue


@dataclass(slots=True)
class Message:
    """A message to send.

    Attributes:
        body: 1 byte to 4 MiB; opaque.
        keys: names for searches.
        tags: one tag that consumers filter on, or an empty string.
    """

    topic: str
    body: bytes
    keys: Sequence[str] = ()
    tags: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)


class Properties(dict[str, str]):
    """The properties of a received message. They are read-only: the message may be dispatched or sent again."""

    __slots__ = ()

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("the properties of a received message cannot be changed: change a copy, dict(properties)")

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[type[dict[str, str]], tuple[dict[str, str]]]:
        """Copy and pickle as an ordinary dict."""
        return dict, (dict(self),)


MESSAGE_GROUP = "__SHARDINGKEY"
"""The property that holds the message group of a FIFO message. RocketMQ: MessageConst.PROPERTY_SHARDING_KEY."""

NO_PROPERTIES = Properties()
"""The properties of a message that has none."""


class MessageExt(NamedTuple):
    """A message as a consumer gets it. RocketMQ: MessageExt.

    A named tuple, because one is made for each consumed message, and no other immutable type costs as little.
    The fields from `topic` on are those of the payload, in its order: `model/decode.py` relies on it.

    Attributes:
        queue, offset: where it is stored; `queue.topic` differs from `topic` for a retried message.
        stored_ms: when the broker stored it, wall clock in milliseconds.
        times_delivered: how often it failed before (RocketMQ: reconsumeTimes).
        born_ms: when the producer made it, wall clock in milliseconds.
        message_id: unique; chosen by the producer.
    """

    queue: MessageQueue
    offset: int
    stored_ms: int
    times_delivered: int
    topic: str
    body: bytes
    tags: str
    keys: Sequence[str]
    properties: Mapping[str, str]
    born_ms: int
    message_id: str

    def __repr__(self) -> str:
        """Without the body, which may be large."""
        return f"<MessageExt {self.queue}+{self.offset} id={self.message_id} body={len(self.body)}B>"


class SendResult(NamedTuple):
    """Where a message was stored. RocketMQ: SendResult.

    Attributes:
        queue: its queue.
        offset: its offset there; -1 of a delayed message, which has none yet.
        message_id: its id.
        recall_handle: of a delayed message, for `Producer.recall`; else empty.
    """

    queue: MessageQueue
    offset: int
    message_id: str
    recall_handle: str = ""


_pack = msgpack.Packer(autoreset=True).pack
_FIELDS, _PROPERTIES = 7, 4  # of a payload: how many, and the place of the properties
_NO_PROPERTIES: dict[str, str] = {}


def encode_payload(message: Message, born_ms: int, message_id: str) -> bytes:
    """Encode a message, which `check_message` has accepted, for the wire and for the disk; see the module header.

    Raises:
        MessageIllegal: one of its texts is not Unicode, or it is too large with its keys and properties.
    """
    try:
        packed: bytes = _pack(
            (
                message.topic,
                message.body,
                message.tags,
                message.keys or (),
                message.properties or _NO_PROPERTIES,
                born_ms,
                message_id,
            )
        )
    except UnicodeEncodeError as error:  # free here; `check_message` would pay for each text
        raise MessageIllegal(f"{error.object!r:.200} is not text: it has half of a surrogate pair") from None
    if len(packed) > MAX_PAYLOAD_BYTES:
        raise MessageIllegal(
            f"the message has {len(packed)} bytes with its keys and properties, more than {MAX_PAYLOAD_BYTES}: put "
            "less into them"
        )
    return packed


@lru_cache(maxsize=4096)
def start_of_payloads(topic: str) -> bytes:
    """The first bytes of every payload that `encode_payload` makes of a message for a topic."""
    return msgpack.Packer().pack_array_header(_FIELDS) + _pack(topic)


def topic_of_payload(payload: bytes) -> str | None:
    """The topic inside a payload; None if no consumer could decode it as a message."""
    try:
        fields: Any = msgpack.unpackb(payload, use_list=False)
    except (ValueError, TypeError, OverflowError, msgpack.UnpackException):
        return None
    is_message = type(fields) is tuple and len(fields) == _FIELDS and type(fields[0]) is str
    return str(fields[0]) if is_message else None


def properties_of_payload(payload: bytes) -> Mapping[str, str]:
    """The properties inside a payload; none if no consumer could decode it as a message."""
    try:
        fields: Any = msgpack.unpackb(payload, use_list=False)
    except (ValueError, TypeError, OverflowError, msgpack.UnpackException):
        return NO_PROPERTIES
    is_message = type(fields) is tuple and len(fields) == _FIELDS and type(fields[_PROPERTIES]) is dict
    properties: Mapping[str, str] = fields[_PROPERTIES] if is_message else NO_PROPERTIES
    return properties


def check_sent_to(topic: str, payloads: Iterable[bytes]) -> None:
    """Check that each payload is a message for this topic, or not a message at all.

    A message for another topic would reach consumers of this topic under the other name. Nearly every payload starts
    with the bytes that are compared; only a payload of another form has to be decoded.

    Raises:
        MessageIllegal: one is a message for another topic.
    """
    start = start_of_payloads(topic)
    for payload in payloads:
        if not payload.startswith(start) and topic_of_payload(payload) not in (None, topic):
            payload_topic = short_repr(topic_of_payload(payload))
            raise MessageIllegal(
                f"a message for topic {payload_topic} was sent to {topic!r}: with access control both have to be the "
                "same, so send it to its own topic"
            )


def check_message(message: Message, *, is_foreign: bool = False) -> None:
    """Refuse a message that a broker would refuse, before it costs a round trip.

    With `is_foreign`, for a message from a client of RocketMQ, the tag may have spaces at its ends, as RocketMQ allows.

    Raises:
        InvalidParameter: the topic is not a string, the tag has spaces at an end, or the items of the body are not
            bytes.
        MessageIllegal: no message, empty or oversized body, or too many or wrongly typed keys, tags or properties. The
            topic's name is not checked, because its route is looked up anyway.
    """
    try:
        body, tags = message.body, message.tags
    except AttributeError:
        raise MessageIllegal(
            f"a message must be a Message, got {short_repr(message)}: write Message(topic, body)"
        ) from None
    if (
        type(body) is bytes
        and type(message.topic) is str
        and 0 < len(body) <= MAX_BODY_BYTES
        and tags == ""
        and not (message.keys or message.properties)
    ):
        return  # a plain message, as nearly all are; a producer calls this for each
    check_text("the topic of a message", message.topic)
    if not isinstance(body, bytes | bytearray | memoryview):
        raise MessageIllegal(f"the body must be bytes, not {type(body).__name__}: encode text first")
    if isinstance(body, memoryview) and (body.itemsize != 1 or body.ndim != 1 or not body.c_contiguous):
        # Its length is the number of its items, not the number of bytes that a send would write.
        raise InvalidParameter(
            f"the body must be bytes one after another, got a memoryview of format {body.format!r} with shape "
            f"{body.shape}: pass its tobytes()"
        )
    if not 1 <= len(body) <= MAX_BODY_BYTES:
        raise MessageIllegal(
            f"the body has {len(body)} bytes; allowed are 1 to {MAX_BODY_BYTES}: split it, or send a reference"
        )
    if not isinstance(tags, str) or "||" in tags:
        raise MessageIllegal(f"a message has one tag, a string without '||'; got {tags!r}")
    if tags != tags.strip() and not is_foreign:
        raise InvalidParameter(
            f"tags must not begin or end with spaces, got {tags!r}: subscriptions are compared without them, so no "
            "consumer that asks for this tag would get the message"
        )
    if message.keys and not _are_keys(message.keys):
        raise MessageIllegal(f"keys must be a list of at most {MAX_KEYS} strings; got {repr(message.keys)[:200]}")
    if message.properties and not _are_properties(message.properties):
        raise MessageIllegal(
            f"properties must map at most {MAX_PROPERTIES} strings to strings; got {repr(message.properties)[:200]}"
        )


def check_batch(messages: Sequence[Message]) -> str:
    """Refuse messages that may not be sent as one batch; returns their topic. Raises as `check_message`, too."""
    if not isinstance(messages, Sequence):
        raise MessageIllegal(f"a batch must be a list of messages, got {short_repr(messages)}")
    for message in messages:
        check_message(message)
    topics = {message.topic for message in messages}
    if not 1 <= len(messages) <= MAX_BATCH_MESSAGES or len(topics) != 1:
        raise MessageIllegal(
            f"a batch has 1 to {MAX_BATCH_MESSAGES} messages of one topic, got {len(messages)} of {len(topics)}"
        )
    return messages[0].topic


def _are_keys(keys: object) -> bool:
    return isinstance(keys, list | tuple) and len(keys) <= MAX_KEYS and all(isinstance(key, str) for key in keys)


def _are_properties(properties: object) -> bool:
    return (
        isinstance(properties, dict)
        and len(properties) <= MAX_PROPERTIES
        and all(isinstance(part, str) for pair in properties.items() for part in pair)
    )


@lru_cache(maxsize=4096)
def tag_hash(tag: str) -> int:
    """Return the 32-bit signed hash that brokers filter on: Java's `String.hashCode`, as in RocketMQ; 0 for no tag."""
    value = 0
    encoded = tag.encode("utf-16-be", "surrogatepass")
    for high, low in zip(encoded[::2], encoded[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - 0x1_0000_0000 if value & 0x8000_0000 else value


DELAY_LEVELS_MS = tuple(
    seconds * 1000
    for seconds in (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
)
"""Delay levels 1 to 18: 1 s to 2 h."""

FIRST_RETRY_LEVEL = 3
"""Delay level of the first retry of a failed message (10 s); each further retry uses the next level."""

MAX_DELAY_MS = 40 * 24 * 3600 * 1000
"""Longest delay of a message in milliseconds."""


def delay_of_level(level: int) -> int:
    """Return the milliseconds of a delay level; levels above 18 count as 18, and 0 means no delay."""
    return DELAY_LEVELS_MS[min(level, len(DELAY_LEVELS_MS)) - 1] if level > 0 else 0


def retry_delay_ms(times_delivered: int) -> int:
    """Return the delay of the next retry after this many failed retries. RocketMQ: level 3 + reconsumeTimes."""
    return delay_of_level(FIRST_RETRY_LEVEL + times_delivered)
