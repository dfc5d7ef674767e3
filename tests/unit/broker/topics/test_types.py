"""Which messages a topic of a message type takes."""

from __future__ import annotations

import msgpack
import pytest

from broker.topics.table import TopicTable
from broker.topics.types import check_type, check_types, message_type_of_payload
from model.errors import MessageIllegal
from model.message import MESSAGE_GROUP, Message, encode_payload
from model.topic_route import MessageType, TopicConfig


def payload(**properties: str) -> bytes:
    return encode_payload(Message("t", b"m", properties=properties), 0, "id")


PLAIN, GROUPED = payload(other="x"), payload(**{MESSAGE_GROUP: "g"})


def test_the_type_of_a_message_follows_from_how_it_is_sent_and_from_its_message_group() -> None:
    assert message_type_of_payload(PLAIN) is MessageType.NORMAL
    assert message_type_of_payload(GROUPED) is MessageType.FIFO
    assert message_type_of_payload(payload(**{MESSAGE_GROUP: ""})) is MessageType.NORMAL
    assert message_type_of_payload(GROUPED, is_delayed=True) is MessageType.DELAY
    assert message_type_of_payload(GROUPED, is_half=True) is MessageType.TRANSACTION


@pytest.mark.parametrize("odd", [b"", b"\xc1", msgpack.packb([]), msgpack.packb(["t", b"m", "", [], 3, 0, "id"])])
def test_a_payload_of_another_form_has_no_message_group(odd: bytes) -> None:
    assert message_type_of_payload(odd) is MessageType.NORMAL


def test_a_refusal_names_both_types_and_the_remedies() -> None:
    with pytest.raises(MessageIllegal) as caught:
        check_type("orders", MessageType.FIFO, PLAIN)
    assert str(caught.value) == (
        "topic 'orders' takes FIFO messages only, and this is a NORMAL message: give it a message group, the property "
        "__SHARDINGKEY, and neither a delay nor a transaction, or change the topic with 'rlab topic set orders "
        "--message-type MIXED'"
    )
    assert not caught.value.retryable


def test_one_wrong_message_refuses_all_that_are_sent_with_it() -> None:
    table = TopicTable(auto_create=False)
    config = TopicConfig(topic="t", read_queue_nums=1, write_queue_nums=1, message_type=MessageType.FIFO)
    entry, _ = table.put(config)
    check_types(entry, [GROUPED, GROUPED])
    with pytest.raises(MessageIllegal, match="takes FIFO messages only, and this is a NORMAL message"):
        check_types(entry, [GROUPED, PLAIN])
    with pytest.raises(MessageIllegal, match="this is a TRANSACTION message"):
        check_types(entry, [GROUPED], is_half=True)
    table.put(TopicConfig(topic="t", read_queue_nums=1, write_queue_nums=1))
    check_types(entry, [GROUPED, PLAIN])
