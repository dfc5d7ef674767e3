"""CONSISTENT_HASH on examples; its twin, a literal transcription of the reference's steps, is in tests/property."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from client.allocate import AllocateMessageQueueConsistentHash, md5_hash
from client.allocate.consistent_hash import queue_key
from model.message_queue import MessageQueue

QUEUES = [MessageQueue("topic", broker, queue_id) for broker in ("broker-a", "broker-b") for queue_id in range(6)]
MEMBERS = ["192.168.0.6@15956", "192.168.0.7@15957", "192.168.0.8@15958"]

# Made with md5sum and a sorted list, apart from this code.
GOLDEN_10 = ["a4 a5 b0 b3", "a2 a3 b1 b2", "a0 a1 b4 b5"]
GOLDEN_1 = ["a2 a3 a4 a5 b0 b2 b3 b4", "a1 b1 b5", "a0"]


def shares(strategy: AllocateMessageQueueConsistentHash, members: list[str]) -> list[str]:
    return [
        " ".join(f"{queue.broker_name[-1]}{queue.queue_id}" for queue in strategy.allocate("g", cid, QUEUES, members))
        for cid in members
    ]


def test_the_hash_is_the_first_four_bytes_of_md5_without_a_sign() -> None:
    # RFC 1321: MD5("a") = 0cc175b9..., MD5("message digest") = f96b697d...
    assert (md5_hash("a"), md5_hash("message digest")) == (0x0CC175B9, 0xF96B697D)
    assert md5_hash("é") == 0x66DDCD97


def test_a_lone_surrogate_is_hashed_as_a_question_mark() -> None:
    assert md5_hash("x\ud800") == md5_hash("x?")


def test_a_queue_is_hashed_by_the_text_of_the_reference() -> None:
    assert queue_key(QUEUES[7]) == "MessageQueue [topic=topic, brokerName=broker-b, queueId=1]"


def test_golden_shares_with_ten_points_each() -> None:
    assert shares(AllocateMessageQueueConsistentHash(), MEMBERS) == GOLDEN_10


def test_golden_shares_with_one_point_each() -> None:
    assert shares(AllocateMessageQueueConsistentHash(1), MEMBERS) == GOLDEN_1


def test_a_queue_on_a_point_belongs_to_it_and_behind_the_last_the_ring_goes_on_at_its_beginning() -> None:
    places = {
        "a-0": 10,
        "b-0": 20,
        **{queue_key(queue): at for queue, at in zip(QUEUES, [10, 11, 20, 21], strict=False)},
    }
    strategy = AllocateMessageQueueConsistentHash(1, places.__getitem__)
    assert strategy.allocate("g", "a", QUEUES[:4], ["a", "b"]) == [QUEUES[0], QUEUES[3]]
    assert strategy.allocate("g", "b", QUEUES[:4], ["a", "b"]) == [QUEUES[1], QUEUES[2]]


def test_negative_hashes_come_before_others_as_they_do_in_a_tree_map_of_longs() -> None:
    places = {"a-0": -5, "b-0": 5, queue_key(QUEUES[0]): -9, queue_key(QUEUES[1]): 0, queue_key(QUEUES[2]): 6}
    strategy = AllocateMessageQueueConsistentHash(1, places.__getitem__)
    assert strategy.allocate("g", "a", QUEUES[:3], ["a", "b"]) == [QUEUES[0], QUEUES[2]]


def test_where_points_meet_the_later_member_has_them() -> None:
    strategy = AllocateMessageQueueConsistentHash(3, lambda key: 1)
    assert [strategy.allocate("g", cid, QUEUES, ["a", "b"]) for cid in "ab"] == [[], QUEUES]


def test_points_of_an_id_that_comes_twice_are_numbered_on() -> None:
    asked: list[str] = []

    def note(key: str) -> int:
        asked.append(key)
        return len(asked)

    AllocateMessageQueueConsistentHash(2, note).allocate("g", "x", QUEUES[:1], ["x", "x"])
    assert asked[:4] == ["x-0", "x-1", "x-2", "x-3"]


def test_with_no_points_no_one_gets_anything() -> None:
    assert shares(AllocateMessageQueueConsistentHash(0), MEMBERS) == ["", "", ""]


def test_a_stranger_gets_nothing_and_an_empty_argument_is_illegal() -> None:
    strategy = AllocateMessageQueueConsistentHash()
    assert strategy.allocate("g", "stranger", QUEUES, MEMBERS) == []
    with pytest.raises(ValueError, match="mq_all is empty"):
        strategy.allocate("g", MEMBERS[0], [], MEMBERS)


@pytest.mark.parametrize(
    ("count", "function"),
    [(-1, None), (1.5, None), (None, None), (True, None), (10, "md5")],
    ids=["below 0", "float", "none", "truth", "text"],
)
def test_illegal_arguments_are_refused(count: int, function: Callable[[str], int] | None) -> None:
    with pytest.raises(ValueError, match="must be a"):
        AllocateMessageQueueConsistentHash(count, function)
