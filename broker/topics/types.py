"""The type of a message, and which types a topic takes. Pure. RocketMQ: TopicMessageType, TopicMessageTypeValidator.

A topic of a type takes only messages of that type, and a topic of the type MIXED takes all of them. RocketMQ checks it
at its proxy, and a client of its remoting protocol can pass the proxy by; here the broker checks every send.

    check_type("orders", FIFO, <payload without a message group>)        raises MessageIllegal: the message is NORMAL
    check_type("orders", FIFO, <payload with a message group>)           -> it is FIFO
    check_type("orders", DELAY, <any payload>, is_delayed=True)          -> it is DELAY, also with a message group
"""

from __future__ import annotations

from collections.abc import Iterable

from broker.topics.table import TopicEntry
from model.errors import MessageIllegal
from model.message import MESSAGE_GROUP, properties_of_payload
from model.topic_route import MessageType

_WAYS = {
    MessageType.NORMAL: "send it without a delay, a message group and a transaction",
    MessageType.FIFO: f"give it a message group, the property {MESSAGE_GROUP}, and neither a delay nor a transaction",
    MessageType.DELAY: "send it with a delay",
    MessageType.TRANSACTION: "send it in a transaction",
}


def message_type_of_payload(payload: bytes, *, is_delayed: bool = False, is_half: bool = False) -> MessageType:
    """The type of a message. A payload of another form is NORMAL, because no client finds a message group in it."""
    if is_half:
        return MessageType.TRANSACTION
    if is_delayed:
        return MessageType.DELAY
    return MessageType.FIFO if properties_of_payload(payload).get(MESSAGE_GROUP) else MessageType.NORMAL


def check_type(
    topic: str, topic_type: MessageType, payload: bytes, *, is_delayed: bool = False, is_half: bool = False
) -> None:
    """Check that a topic of the type `topic_type` takes a message.

    Raises:
        MessageIllegal: it takes messages of another type.
    """
    actual = message_type_of_payload(payload, is_delayed=is_delayed, is_half=is_half)
    if topic_type not in (MessageType.MIXED, actual):
        raise MessageIllegal(
            f"topic {topic!r} takes {topic_type.name} messages only, and this is a {actual.name} message: "
            f"{_WAYS[topic_type]}, or change the topic with 'rlab topic set {topic} --message-type MIXED'"
        )


def check_types(entry: TopicEntry, payloads: Iterable[bytes], *, is_half: bool = False) -> None:
    """Check messages that are sent at once, without a delay; raises as `check_type` does."""
    if entry.is_typed:
        for payload in payloads:
            check_type(entry.config.topic, entry.config.message_type, payload, is_half=is_half)
