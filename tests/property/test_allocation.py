"""Laws of the allocation strategies, each against a deliberately naive twin."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from client.allocate import AllocateMessageQueueAveragely, AllocateMessageQueueAveragelyByCircle
from model.message_queue import MessageQueue

AVG = AllocateMessageQueueAveragely()
CIRCLE = AllocateMessageQueueAveragelyByCircle()

queue_lists = st.integers(1, 60).map(lambda n: [MessageQueue("t", f"b{i // 4:02}", i % 4) for i in range(n)])
member_lists = st.sets(st.text("abcdef0123", min_size=1, max_size=4), min_size=1, max_size=25).map(sorted)


def naive_averagely(queues: list[MessageQueue], members: list[str]) -> dict[str, list[MessageQueue]]:
    """Hand out the sizes one queue at a time, then cut the list."""
    sizes = dict.fromkeys(members, 0)
    for turn in range(len(queues)):
        sizes[members[turn % len(members)]] += 1
    rest = list(queues)
    return {member: [rest.pop(0) for _ in range(size)] for member, size in sizes.items()}


def naive_by_circle(queues: list[MessageQueue], members: list[str]) -> dict[str, list[MessageQueue]]:
    """Deal cards."""
    hands: dict[str, list[MessageQueue]] = {member: [] for member in members}
    for turn, queue in enumerate(queues):
        hands[members[turn % len(members)]].append(queue)
    return hands


@given(queue_lists, member_lists)
def test_averagely_equals_its_naive_twin(queues: list[MessageQueue], members: list[str]) -> None:
    assert {cid: AVG.allocate("g", cid, queues, members) for cid in members} == naive_averagely(queues, members)


@given(queue_lists, member_lists)
def test_by_circle_equals_its_naive_twin(queues: list[MessageQueue], members: list[str]) -> None:
    assert {cid: CIRCLE.allocate("g", cid, queues, members) for cid in members} == naive_by_circle(queues, members)


@given(queue_lists, member_lists, st.sampled_from([AVG, CIRCLE]))
def test_the_shares_of_one_view_cover_every_queue_once_and_differ_by_at_most_one(
    queues: list[MessageQueue],
    members: list[str],
    strategy: AllocateMessageQueueAveragely | AllocateMessageQueueAveragelyByCircle,
) -> None:
    shares = [strategy.allocate("g", cid, queues, members) for cid in members]
    assert sorted(queue for share in shares for queue in share) == queues
    sizes = [len(share) for share in shares]
    assert max(sizes) - min(sizes) <= 1
    assert sizes == sorted(sizes, reverse=True)


@given(queue_lists, member_lists)
def test_averagely_gives_consecutive_queues_in_the_order_of_the_members(
    queues: list[MessageQueue], members: list[str]
) -> None:
    assert [queue for cid in members for queue in AVG.allocate("g", cid, queues, members)] == queues
