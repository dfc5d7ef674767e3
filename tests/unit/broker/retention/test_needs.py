from __future__ import annotations

from pathlib import Path

import pytest

from broker.groups.table import GroupTable
from broker.leases.offsets import OffsetTable
from broker.retention.needs import needs_of_groups
from broker.store.disk.options import StoreOptions
from broker.store.message_store import MessageStore
from broker.topics.table import TopicTable
from model.heartbeat import ConsumeFrom, ConsumerData, MessageModel
from model.names import TRACE_TOPIC, dlq_topic, retry_topic
from model.topic_route import TopicConfig
from tests.unit.broker.harness import consumer

CREATED_MS = 5_000
"""When the group comes to life: each queue has messages of 1000, 2000, ... 9000 ms."""
END = 9


class Tables:
    """A broker's tables, with topics `t` and `u` of two queues and nine messages in each queue."""

    def __init__(self, directory: Path) -> None:
        self.now_ms = 1_000
        self.store = MessageStore.open(directory, StoreOptions(), lambda: self.now_ms)
        self.topics = TopicTable(auto_create=False)
        self.groups = GroupTable()
        self.offsets = OffsetTable()
        self.topics.add_system_topics()
        for topic, queues in [("t", 2), ("u", 2), (retry_topic("g"), 1), (dlq_topic("g"), 1)]:
            self.topics.put(TopicConfig(topic=topic, read_queue_nums=queues, write_queue_nums=queues))

    def fill(self, topic: str, *queue_ids: int) -> None:
        for _ in range(END):
            for queue_id in queue_ids or (0,):
                self.store.append(self.topics.existing(topic).topic_id, queue_id, b"m", 0)
            self.store.flush()
            self.now_ms += 1_000

    def join(self, data: ConsumerData, client_id: str = "c1") -> None:
        self.groups.heartbeat(client_id, data, connection=1, cause="", now=0.0, now_ms=CREATED_MS)

    def needs(self) -> dict[tuple[str, int], tuple[int, str]]:
        names = {self.topics.existing(config.topic).topic_id: config.topic for config in self.topics.configs()}
        needs = needs_of_groups(self.groups, self.offsets, self.topics, self.store)
        assert all(names[topic_id] == need.topic for (topic_id, _), need in needs.items())
        return {(need.topic, queue_id): (need.offset, need.group) for (_, queue_id), need in needs.items()}


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    return Tables(tmp_path)


def test_a_group_needs_what_it_has_not_committed_whether_anyone_of_it_is_there_or_not(tables: Tables) -> None:
    tables.fill("t")
    tables.offsets.commit("g", "t", 0, 4)
    assert tables.needs() == {("t", 0): (4, "g")}
    tables.join(consumer("g", "t"))
    assert tables.needs() == {("t", 0): (4, "g")}


def test_what_everyone_has_read_is_not_needed_and_without_groups_nothing_is(tables: Tables) -> None:
    tables.fill("t")
    assert tables.needs() == {}
    tables.offsets.commit("g", "t", 0, END)
    assert tables.needs() == {}


def test_the_slowest_group_counts_for_each_queue(tables: Tables) -> None:
    tables.fill("t", 0, 1)
    for group, first, second in [("a", 3, 8), ("b", 5, 2), ("c", END, END)]:
        tables.offsets.commit(group, "t", 0, first)
        tables.offsets.commit(group, "t", 1, second)
    assert tables.needs() == {("t", 0): (3, "a"), ("t", 1): (2, "b")}


@pytest.mark.parametrize(
    ("data", "start"),
    [
        (consumer("g", "t"), 4),  # the first message at or after the creation of the group
        (consumer("g", "t", consume_from=ConsumeFrom.FIRST_OFFSET), 0),
        (consumer("g", "t", consume_from=ConsumeFrom.TIMESTAMP, consume_timestamp_ms=8_000), 7),
    ],
)
def test_a_group_that_has_committed_nothing_yet_needs_what_it_would_start_from(
    tables: Tables, data: ConsumerData, start: int
) -> None:
    tables.fill("t")
    tables.join(data)
    assert tables.needs() == {("t", 0): (start, "g")}


def test_members_that_would_start_at_different_places_need_the_earliest_of_them(tables: Tables) -> None:
    tables.fill("t")
    tables.join(consumer("g", "t"))
    tables.join(consumer("g", "t", consume_from=ConsumeFrom.FIRST_OFFSET), "c2")
    assert tables.needs() == {("t", 0): (0, "g")}


def test_a_queue_that_was_added_while_no_one_was_there_is_needed_from_the_creation_of_the_group_on(
    tables: Tables,
) -> None:
    tables.fill("t", 0, 1)
    tables.groups.restore("g", 1, CREATED_MS)
    tables.offsets.commit("g", "t", 0, END)
    assert tables.needs() == {("t", 1): (4, "g")}


def test_a_queue_that_is_hidden_by_a_smaller_topic_is_still_needed(tables: Tables) -> None:
    tables.fill("t", 1)
    tables.offsets.commit("g", "t", 1, 2)
    tables.topics.put(TopicConfig(topic="t", read_queue_nums=1, write_queue_nums=1))
    assert tables.needs() == {("t", 1): (2, "g")}


def test_failed_messages_that_wait_in_the_retry_topic_are_needed_before_anyone_has_committed_there(
    tables: Tables,
) -> None:
    tables.fill(retry_topic("g"))
    tables.groups.restore("g", 1, CREATED_MS)
    assert tables.needs() == {(retry_topic("g"), 0): (0, "g")}
    tables.offsets.commit("g", retry_topic("g"), 0, 6)
    assert tables.needs() == {(retry_topic("g"), 0): (6, "g")}


def test_offsets_that_were_set_for_a_group_that_never_was_hold_only_their_own_queues(tables: Tables) -> None:
    tables.fill("t", 0, 1)
    tables.offsets.commit("g", "t", 0, 1)
    assert tables.needs() == {("t", 0): (1, "g")}


def test_dead_letters_the_trace_and_broadcasting_groups_hold_nothing(tables: Tables) -> None:
    tables.fill("t")
    tables.fill(TRACE_TOPIC)
    tables.fill(dlq_topic("g"))
    tables.join(consumer("g", "u", TRACE_TOPIC))
    tables.offsets.commit("g", TRACE_TOPIC, 0, 1)
    tables.join(consumer("b", "t", model=MessageModel.BROADCASTING, consume_from=ConsumeFrom.FIRST_OFFSET))
    assert tables.needs() == {}


def test_a_topic_that_is_not_here_is_needed_by_no_one(tables: Tables) -> None:
    tables.join(consumer("g", "elsewhere", consume_from=ConsumeFrom.FIRST_OFFSET))
    assert tables.needs() == {}
