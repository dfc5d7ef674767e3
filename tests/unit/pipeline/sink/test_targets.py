"""Which queue a row goes to: as a producer picks it, or to the same broker in every run."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.produce.queue_picker import select_by_key
from model.errors import MessageIllegal, TopicNotExist
from model.message_queue import MessageQueue
from pipeline.sink.options import Partitioning
from pipeline.sink.targets import Targets

BY_KEY, IN_TURN, BY_ID = Partitioning.KEY_HASH, Partitioning.ROUND_ROBIN, Partitioning.QUEUE_ID


def queues(**counts: int) -> list[MessageQueue]:
    return [MessageQueue("t", name, number) for name, count in sorted(counts.items()) for number in range(count)]


ROWS = st.lists(st.tuples(st.sampled_from(["", "k1", "k2", "ä", "\ud800"]), st.binary(min_size=1, max_size=2)))


@given(st.text(min_size=1))
def test_a_key_goes_where_a_producer_sends_it(key: str) -> None:
    there = queues(a=3, b=2)
    assert Targets("t", there, None, BY_KEY).pick(key, b"x", None) == select_by_key(there, key)


@pytest.mark.parametrize(("partitioning", "key"), [(BY_KEY, ""), (IN_TURN, "k")])
def test_rows_that_take_turns_are_even(partitioning: Partitioning, key: str) -> None:
    targets = Targets("t", queues(a=3, b=2), None, partitioning, start=4)
    picked = [targets.pick(key, b"x", None) for _ in range(10)]
    assert Counter(picked) == dict.fromkeys(queues(a=3, b=2), 2)
    assert picked[0] == MessageQueue("t", "b", 1)


@given(ROWS, st.randoms(use_true_random=False), st.integers(0, 99), st.sampled_from([BY_KEY, IN_TURN]))
def test_exactly_once_a_row_has_the_same_broker_in_any_order_and_after_scaling(
    rows: list[tuple[str, bytes]], random: object, start: int, partitioning: Partitioning
) -> None:
    brokers = ["a", "b", "c"]
    first = Targets("t", queues(a=2, b=3, c=1), brokers, partitioning)
    of_row = {row: first.pick(*row, None).broker_name for row in rows}
    again = list(rows)
    random.shuffle(again)  # type: ignore[attr-defined]
    scaled = Targets("t", queues(a=5, b=1, c=2, d=9), brokers, partitioning, start)
    assert [scaled.pick(*row, None).broker_name for row in again] == [of_row[row] for row in again]


@given(
    st.lists(st.lists(st.tuples(st.sampled_from(["", "k1", "k2", "ä"]), st.binary(min_size=1, max_size=2)))),
    st.sampled_from([0, 3, 2**64 - 1]),
    st.sampled_from([BY_KEY, IN_TURN]),
    st.sampled_from([None, ["a"], ["a", "b", "c"]]),
)
def test_rows_that_are_picked_together_go_where_they_would_go_alone(
    batches: list[list[tuple[str, bytes]]], start: int, partitioning: Partitioning, brokers: list[str] | None
) -> None:
    there = queues(a=2) if brokers == ["a"] else queues(a=2, b=3, c=1)
    alone = Targets("t", there, brokers, partitioning, start)
    together = Targets("t", there, brokers, partitioning, start)
    for rows in batches:
        keys = [key.encode() for key, _ in rows]
        bodies = pa.array([body for _, body in rows], pa.binary())
        picked = together.pick_all(keys if any(keys) else None, bodies, None)
        assert [together.queues[number] for number in picked] == [alone.pick(*row, None) for row in rows]


def test_rows_that_name_queues_are_picked_one_by_one() -> None:
    targets = Targets("t", queues(a=3), None, BY_KEY)
    picked = targets.pick_all(None, pa.array([b"x", b"y", b"z"]), [2, None, 1])
    assert [targets.queues[number].queue_id for number in picked] == [2, 0, 1]
    with pytest.raises(MessageIllegal, match="names queue 3 in a row"):
        targets.pick_all([b"k"], pa.array([b"x"]), [3])
    with pytest.raises(MessageIllegal, match="column queue_id is null in a row"):
        Targets("t", queues(a=3), None, BY_ID).pick_all(None, pa.array([b"x"]), None)


def test_exactly_once_a_key_has_one_queue_and_keys_are_spread() -> None:
    targets = Targets("t", queues(a=2, b=2), ["a", "b"], BY_KEY)
    picked = {f"k{n}": {targets.pick(f"k{n}", b"%d" % body, None) for body in range(3)} for n in range(50)}
    assert all(len(found) == 1 for found in picked.values())
    assert set().union(*picked.values()) == set(queues(a=2, b=2))


def test_a_named_queue_is_one_of_the_broker_of_the_row() -> None:
    targets = Targets("t", queues(a=2, b=3), None, BY_ID)
    assert {targets.pick("", b"%d" % body, 1) for body in range(20)} == {
        *(MessageQueue("t", "a", 1), MessageQueue("t", "b", 1))
    }
    with pytest.raises(MessageIllegal, match="names queue 3 in a row; topic 't' has 0 to"):
        targets.pick("", b"x", 3)
    with pytest.raises(MessageIllegal, match="names queue -1 in a row"):
        targets.pick("", b"x", -1)
    with pytest.raises(MessageIllegal, match="queue_id is null in a row, and partitioner queueId needs a queue"):
        targets.pick("", b"x", None)


@pytest.mark.parametrize("partitioning", [BY_KEY, IN_TURN])
@pytest.mark.parametrize("brokers", [None, ["a", "b"]])
def test_with_every_partitioner_a_row_that_names_a_queue_goes_there_or_is_refused(
    partitioning: Partitioning, brokers: list[str] | None
) -> None:
    targets = Targets("t", queues(a=3, b=3), brokers, partitioning)
    picked = {(queue_id, targets.pick("k", b"x", queue_id).queue_id) for queue_id in range(3)}
    assert picked == {(0, 0), (1, 1), (2, 2)}
    with pytest.raises(MessageIllegal, match=r"queue 3 in a row; topic 't' has 0 to 2 on broker .*\. Leave the column"):
        targets.pick("k", b"x", 3)


def test_a_topic_without_queues_or_without_a_broker_of_the_batch_is_an_error() -> None:
    with pytest.raises(TopicNotExist, match="topic 't' has no queue that can be written: create it"):
        Targets("t", [], None, BY_KEY)
    with pytest.raises(TopicNotExist, match="on broker 'b', where rows of this batch have to go"):
        Targets("t", queues(a=2), ["a", "b"], BY_KEY)
