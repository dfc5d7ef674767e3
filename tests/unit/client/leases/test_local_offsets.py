"""The table behind the file of a broadcasting consumer, against a naive twin; and what is no such file."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.leases.local_offsets import LocalOffsets
from model.message_queue import MessageQueue
from model.topic_incarnation import TopicIncarnation

TOPICS = st.sampled_from(["a", "b", "%RETRY%g"])
QUEUES = st.builds(MessageQueue, TOPICS, st.sampled_from(["x", "y:1"]), st.integers(0, 2))
STEPS = st.one_of(
    st.tuples(st.just("begin"), TOPICS, st.integers(0, 9)),
    st.tuples(st.just("end"), TOPICS),
    st.tuples(st.sampled_from(["update", "reset"]), QUEUES, st.integers(0, 9)),
)


def since_ms(table: LocalOffsets, topic: str) -> int:
    wanted = table.wanted_topic(topic)
    assert wanted is not None
    return wanted.since_ms


@given(st.lists(STEPS, max_size=40))
def test_it_remembers_what_a_naive_table_does_and_its_text_is_the_whole_of_it(steps: list[tuple[object, ...]]) -> None:
    table = LocalOffsets()
    since: dict[str, int] = {}
    offsets: dict[MessageQueue, int] = {}
    for step in steps:
        before = (dict(since), dict(offsets))
        version = table.version
        match step:
            case "begin", str() as topic, int() as now_ms:
                assert table.begin(topic, now_ms) == (topic not in since)
                since.setdefault(topic, now_ms)
            case "end", str() as topic:
                table.end(topic)
                since.pop(topic, None)
                offsets = {queue: offset for queue, offset in offsets.items() if queue.topic != topic}
            case how, MessageQueue() as queue, int() as offset:
                getattr(table, str(how))(queue, offset)
                if queue.topic in since:
                    offsets[queue] = offset if how == "reset" else max(offset, offsets.get(queue, 0))
        assert (table.version != version) == ((since, offsets) != before)
        assert table.topics() == tuple(sorted(since))
        assert {topic: since_ms(table, topic) for topic in since} == since
    again = LocalOffsets.decode(table.encode())
    for each in (table, again):
        for topic in ("a", "b", "%RETRY%g"):
            for broker in ("x", "y:1"):
                for queue_id in range(3):
                    queue = MessageQueue(topic, broker, queue_id)
                    assert each.offset_of(queue) == offsets.get(queue)
    assert again.encode() == table.encode()
    assert again.topics() == table.topics()


GOOD = {"format": 1, "topics": {"t": {"since_ms": 5, "offsets": {"b:0": 7}}}}


def test_a_file_in_the_documented_form_is_read() -> None:
    offsets = LocalOffsets.decode(json.dumps(GOOD).encode())
    assert (offsets.offset_of(MessageQueue("t", "b", 0)), since_ms(offsets, "t")) == (7, 5)


def test_a_file_of_an_earlier_version_has_no_numbers_and_gets_them_once() -> None:
    offsets, queue = LocalOffsets.decode(json.dumps(GOOD).encode()), MessageQueue("t", "b", 0)
    assert not offsets.record("t", "b", TopicIncarnation(7, 99), {"b": 1000.0})
    assert offsets.offset_of(queue) == 7
    version = offsets.version
    assert not offsets.record("t", "b", TopicIncarnation(7, 99), {"b": 1000.0})
    assert offsets.version == version
    again = LocalOffsets.decode(offsets.encode())
    assert again.record("t", "b", TopicIncarnation(8, 99), {})
    assert (again.offset_of(queue), again.version) == (None, 1)
    assert offsets.offset_of(queue) == 7


def test_another_number_drops_the_offsets_of_its_broker_only() -> None:
    offsets = LocalOffsets()
    offsets.begin("t", 5)
    for broker in ("a", "b"):
        offsets.record("t", broker, TopicIncarnation(7, 99), {})
        offsets.update(MessageQueue("t", broker, 0), 3)
    assert offsets.record("t", "a", TopicIncarnation(7, 12), {})
    assert offsets.offset_of(MessageQueue("t", "a", 0)) is None
    assert offsets.offset_of(MessageQueue("t", "b", 0)) == 3
    wanted = offsets.wanted_topic("t")
    assert wanted is not None
    assert (wanted.incarnations["a"], wanted.since("a", {"a": 9e9})) == (TopicIncarnation(7, 12), 0)


def test_a_topic_that_was_unsubscribed_in_between_takes_no_number() -> None:
    assert not LocalOffsets().record("t", "a", TopicIncarnation(7, 12), {"a": 1.0})
    assert LocalOffsets().wanted_topic("t") is None


@pytest.mark.parametrize(
    ("bad", "what"),
    [
        (b"", "Expecting value"),
        (b"\xff\xff\xff", "decode"),
        (b"[]", "format 1"),
        (b'{"format": 2, "topics": {}}', "format 1"),
        (b'{"format": 1}', "topics must be an object"),
        (b'{"format": 1, "topics": {"t": 3}}', "without since_ms"),
        (b'{"format": 1, "topics": {"t": {"since_ms": 1}}}', "without offsets"),
        (b'{"format": 1, "topics": {"t": {"since_ms": true, "offsets": {}}}}', "since_ms of t"),
        (b'{"format": 1, "topics": {"t": {"since_ms": 1, "offsets": {"b": 1}}}}', "broker:number"),
        (b'{"format": 1, "topics": {"t": {"since_ms": 1, "offsets": {"b:x": 1}}}}', "broker:number"),
        (b'{"format": 1, "topics": {"t": {"since_ms": 1, "offsets": {"b:0": -1}}}}', "got -1"),
        (b'{"format": 1, "topics": {"t": {"since_ms": 1, "offsets": {}, "numbers": {"b": 3}}}}', "numbers of t b"),
        (b'{"format": 1, "topics": {"t": {"since_ms": 1, "offsets": {}, "numbers": {"b": [3, "x"]}}}}', "got 'x'"),
        (b'{"format": 1, "topics": {"t": {"since_ms": 1, "offsets": {}, "since_at": {"b": -1}}}}', "since_at of t b"),
        (b'{"format": 1, "topics": {"t": {"since_ms": 1, "offsets": {"b:0": "7"}}}}', "got '7'"),
    ],
)
def test_what_is_not_a_such_file_is_refused_with_the_reason(bad: bytes, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        LocalOffsets.decode(bad)


@given(st.binary(max_size=60), st.integers(0, 200), st.integers(0, 200))
def test_damage_is_a_value_error_and_nothing_else(noise: bytes, start: int, length: int) -> None:
    data = json.dumps(GOOD).encode()
    with contextlib.suppress(ValueError):
        LocalOffsets.decode(data[:start] + noise + data[start + length :])
