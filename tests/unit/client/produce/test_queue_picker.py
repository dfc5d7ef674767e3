"""The queue picker: whose turn it is, and which brokers are gone around for how long."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from client.produce.queue_picker import QueuePicker, check_queue_of, other_brokers, select_by_key
from model.errors import (
    ConnectFailed,
    InvalidParameter,
    MessageIllegal,
    NoPermission,
    NotAuthenticated,
    NotEnoughReplicas,
    RequestTimeout,
    RlabError,
    StorageFull,
    SystemBusy,
    TopicNotExist,
)
from model.message_queue import MessageQueue

QUEUES = [MessageQueue("t", broker, queue_id) for broker in "abc" for queue_id in range(2)]
TOPIC = "t"


def picker(*, avoid_slow_brokers: bool = True) -> QueuePicker:
    """A picker with a fixed seed."""
    return QueuePicker(Random(1), avoid_slow_brokers=avoid_slow_brokers)


def brokers_picked(queue_picker: QueuePicker, now: float, avoid_broker: str | None = None) -> Counter[str]:
    """How often each broker is picked in two full rounds."""
    picks = (queue_picker.pick(TOPIC, QUEUES, avoid_broker=avoid_broker, now=now) for _ in range(2 * len(QUEUES)))
    return Counter(queue.broker_name for queue in picks)


def test_queues_take_turns() -> None:
    queue_picker = picker()
    picks = [queue_picker.pick(TOPIC, QUEUES, now=0.0) for _ in range(12)]
    start = QUEUES.index(picks[0])
    assert picks == (QUEUES[start:] + QUEUES[:start]) * 2


def test_producers_start_at_different_queues() -> None:
    starts = {QueuePicker(Random(seed)).pick(TOPIC, QUEUES, now=0.0) for seed in range(50)}
    assert len(starts) == len(QUEUES)


def test_each_topic_has_a_round_of_its_own() -> None:
    mixed, alone = picker(), picker()
    expected = [alone.pick(TOPIC, QUEUES, now=0.0) for _ in range(6)]
    picks = []
    for _ in range(6):
        picks.append(mixed.pick(TOPIC, QUEUES, now=0.0))
        mixed.pick("another", QUEUES, now=0.0)
    assert picks == expected


def test_a_topic_that_shrinks_goes_on_with_the_queues_it_has() -> None:
    queue_picker = picker()
    queue_picker.pick(TOPIC, QUEUES, now=0.0)
    assert queue_picker.pick(TOPIC, QUEUES[:1], now=0.0) == QUEUES[0]


@pytest.mark.parametrize("avoid_slow_brokers", [True, False])
def test_a_retry_goes_to_another_broker(avoid_slow_brokers: bool) -> None:
    picks = brokers_picked(picker(avoid_slow_brokers=avoid_slow_brokers), 0.0, avoid_broker="b")
    assert set(picks) == {"a", "c"}


def test_a_retry_has_no_choice_where_only_the_failed_broker_has_queues() -> None:
    assert picker().pick(TOPIC, QUEUES[:2], avoid_broker="a", now=0.0).broker_name == "a"


def test_queues_of_the_other_brokers_take_turns_around_an_avoided_one() -> None:
    queue_picker = picker()
    queue_picker.record("b", 1.0, now=0.0)
    picks = [queue_picker.pick(TOPIC, QUEUES, now=0.0) for _ in range(8)]
    assert Counter(picks) == {queue: 2 for queue in QUEUES if queue.broker_name != "b"}


@pytest.mark.parametrize(
    ("latency_s", "penalty_s"),
    [(0.549, 0), (0.55, 2), (1.799, 2), (1.8, 5), (3.0, 6), (4.999, 6), (5.0, 10), (14.9, 10), (15.0, 30), (99.0, 30)],
)
def test_a_slow_broker_is_avoided_for_as_long_as_the_table_says(latency_s: float, penalty_s: float) -> None:
    queue_picker = picker()
    queue_picker.record("b", latency_s, now=100.0)
    if penalty_s:
        assert "b" not in brokers_picked(queue_picker, 100.0)
        assert "b" not in brokers_picked(queue_picker, 99.9 + penalty_s)
    assert brokers_picked(queue_picker, 100.0 + penalty_s) == {"a": 4, "b": 4, "c": 4}


def test_a_failed_broker_is_avoided_for_ten_seconds_however_fast_it_failed() -> None:
    queue_picker = picker()
    queue_picker.record("b", 0.001, now=0.0, failed=True)
    assert "b" not in brokers_picked(queue_picker, 9.9)
    assert "b" in brokers_picked(queue_picker, 10.0)


@pytest.mark.parametrize("later_latency_s", [0.01, 0.6])
def test_a_shorter_penalty_does_not_shorten_a_running_one(later_latency_s: float) -> None:
    queue_picker = picker()
    queue_picker.record("b", 6.0, now=0.0)
    queue_picker.record("b", later_latency_s, now=1.0)
    assert "b" not in brokers_picked(queue_picker, 9.9)
    assert "b" in brokers_picked(queue_picker, 10.0)


def test_a_longer_penalty_extends_a_running_one() -> None:
    queue_picker = picker()
    queue_picker.record("b", 0.6, now=0.0)
    queue_picker.record("b", 6.0, now=1.0)
    assert "b" not in brokers_picked(queue_picker, 10.9)
    assert "b" in brokers_picked(queue_picker, 11.0)


def test_if_all_are_avoided_a_slow_broker_is_better_than_a_failed_one() -> None:
    queue_picker = picker()
    queue_picker.record("a", 0.1, now=0.0, failed=True)
    queue_picker.record("b", 20.0, now=0.0)
    queue_picker.record("c", 0.1, now=0.0, failed=True)
    assert set(brokers_picked(queue_picker, 1.0)) == {"b"}


def test_a_failed_broker_that_answers_again_counts_as_slow() -> None:
    queue_picker = picker()
    for broker in "abc":
        queue_picker.record(broker, 0.1, now=0.0, failed=True)
    queue_picker.record("c", 0.1, now=1.0)
    assert set(brokers_picked(queue_picker, 1.0)) == {"c"}


def test_if_all_failed_the_one_that_failed_last_is_left_out() -> None:
    queue_picker = picker()
    for broker in "abc":
        queue_picker.record(broker, 0.1, now=0.0, failed=True)
    assert set(brokers_picked(queue_picker, 1.0, avoid_broker="a")) == {"b", "c"}
    assert set(brokers_picked(queue_picker, 1.0)) == {"a", "b", "c"}


def test_a_penalty_of_a_broker_without_queues_does_not_matter() -> None:
    queue_picker = picker()
    queue_picker.record("elsewhere", 20.0, now=0.0)
    assert brokers_picked(queue_picker, 0.0) == {"a": 4, "b": 4, "c": 4}


@pytest.mark.parametrize("error", [NoPermission, TopicNotExist, InvalidParameter])
def test_a_refusal_of_one_topic_has_the_broker_avoided_for_that_topic_alone(error: type[RlabError]) -> None:
    queue_picker = picker()
    queue_picker.record_failure(MessageQueue(TOPIC, "b", 0), error(""), 0.0)
    others = [MessageQueue("other", queue.broker_name, queue.queue_id) for queue in QUEUES]
    picks = Counter(queue_picker.pick("other", others, now=1.0).broker_name for _ in range(12))
    assert picks == {"a": 4, "b": 4, "c": 4}
    assert "b" not in brokers_picked(queue_picker, 9.9)
    assert brokers_picked(queue_picker, 10.0) == {"a": 4, "b": 4, "c": 4}


def test_a_refusal_of_one_message_has_nothing_avoided() -> None:
    queue_picker = picker()
    queue_picker.record_failure(MessageQueue(TOPIC, "b", 0), MessageIllegal(""), 0.0)
    assert brokers_picked(queue_picker, 0.0) == {"a": 4, "b": 4, "c": 4}


@pytest.mark.parametrize(
    "error", [ConnectFailed, RequestTimeout, SystemBusy, StorageFull, NotEnoughReplicas, NotAuthenticated]
)
def test_a_failure_of_the_broker_itself_has_it_avoided_for_every_topic(error: type[RlabError]) -> None:
    queue_picker = picker()
    queue_picker.record_failure(MessageQueue("other", "b", 0), error(""), 0.0)
    assert "b" not in brokers_picked(queue_picker, 9.9)
    assert "b" in brokers_picked(queue_picker, 10.0)


def test_with_avoidance_off_records_have_no_effect() -> None:
    queue_picker = picker(avoid_slow_brokers=False)
    queue_picker.record("b", 20.0, now=0.0)
    queue_picker.record("b", 20.0, now=0.0, failed=True)
    queue_picker.record_failure(QUEUES[-1], NoPermission(""), 0.0)
    assert brokers_picked(queue_picker, 0.0) == {"a": 4, "b": 4, "c": 4}


def test_retries_of_producers_that_started_together_do_not_go_to_one_broker() -> None:
    queues = [MessageQueue("t", f"b{number:02}", 0) for number in range(20)]
    retries = set()
    for seed in range(40):
        queue_picker = QueuePicker(Random(seed))
        while queue_picker.pick(TOPIC, queues, now=0.0).broker_name != "b07":
            pass
        retries.add(queue_picker.pick(TOPIC, queues, avoid_broker="b07", now=0.0).broker_name)
    assert len(retries) > 10


def test_a_pick_around_a_slow_broker_looks_at_few_of_thousands_of_queues() -> None:
    looked_at = 0

    class Counting(list[MessageQueue]):
        def __getitem__(self, index: Any) -> Any:
            nonlocal looked_at
            looked_at += 1
            return super().__getitem__(index)

    queues = Counting(MessageQueue("t", broker, queue_id) for broker in "abc" for queue_id in range(2_000))
    queue_picker = picker()
    queue_picker.record("b", 1.0, now=0.0)
    picks = [queue_picker.pick(TOPIC, queues, now=0.0) for _ in range(100)]
    assert "b" not in {queue.broker_name for queue in picks}
    assert other_brokers(queues, "a", "b")
    assert looked_at < 100 * 50


def test_a_third_broker_is_found_where_there_is_one() -> None:
    assert other_brokers(QUEUES, "a", "c")
    assert not other_brokers(QUEUES[:4], "b", "a")
    assert other_brokers(QUEUES[:4], "c", "a")


def test_equal_keys_go_to_one_queue_in_every_process() -> None:
    # The published check value of CRC-32; a function that changed between versions would move every key.
    assert select_by_key(QUEUES, "123456789") == QUEUES[0xCBF43926 % len(QUEUES)]
    assert select_by_key(QUEUES, "") == QUEUES[0]


def test_keys_that_differ_in_one_digit_spread_over_the_queues() -> None:
    counts = Counter(select_by_key(QUEUES, f"order-{number:05}") for number in range(6_000))
    assert len(counts) == len(QUEUES)
    assert all(800 < count < 1_200 for count in counts.values())


@pytest.mark.parametrize("key", [5, b"k", ["k"]])
def test_a_key_that_is_not_a_string_is_refused_as_such(key: Any) -> None:
    with pytest.raises(InvalidParameter, match="key must be a string, got "):
        select_by_key(QUEUES, key)


def test_a_chosen_queue_has_to_be_one_of_the_topic() -> None:
    assert check_queue_of(TOPIC, QUEUES[0]) == QUEUES[0]
    with pytest.raises(InvalidParameter, match=r"'other' cannot be sent to queue .* of another topic"):
        check_queue_of("other", QUEUES[0])
