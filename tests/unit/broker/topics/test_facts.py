"""The facts that translators of RocketMQ's dialect ask of a broker."""

from __future__ import annotations

from broker.topics.facts import BrokerFacts
from broker.topics.table import TopicTable
from model.topic_route import READ_WRITE, MessageType, TopicConfig


def test_a_topic_that_is_known_has_a_number_and_queues_and_another_has_none() -> None:
    topics = TopicTable(auto_create=False)
    topics.restore(7, TopicConfig(topic="t", read_queue_nums=4, write_queue_nums=3, perm=READ_WRITE))
    facts = BrokerFacts("broker-a", lambda: 1234.5, topics)
    assert (facts.now_ms(), facts.broker_name()) == (1234, "broker-a")
    assert (facts.topic_id("t"), facts.topic_of(7), facts.write_queues("t")) == (7, "t", 3)
    assert (facts.topic_id("u"), facts.topic_of(8), facts.write_queues("u")) == (0, None, 0)


def test_a_topic_that_is_not_known_takes_messages_of_every_type() -> None:
    topics = TopicTable(auto_create=False)
    config = TopicConfig(topic="t", read_queue_nums=4, write_queue_nums=3, message_type=MessageType.FIFO)
    topics.restore(7, config)
    facts = BrokerFacts("broker-a", lambda: 1234.5, topics)
    assert (facts.message_type("t"), facts.message_type("u")) == (MessageType.FIFO, MessageType.MIXED)
