"""CONSISTENT_HASH, CONFIG, MACHINE_ROOM, MACHINE_ROOM_NEARBY and CLIENT_IP, each against a deliberately naive twin.

The twins are written from the description of the reference's steps, with its data structures: a list that is searched
for a tree map, bytes with a sign, text that is split as Java splits it.
"""

from __future__ import annotations

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from client.allocate import (
    AllocateMachineRoomNearby,
    AllocateMessageQueueAveragely,
    AllocateMessageQueueAveragelyByCircle,
    AllocateMessageQueueByClientIp,
    AllocateMessageQueueByConfig,
    AllocateMessageQueueByMachineRoom,
    AllocateMessageQueueConsistentHash,
    AllocateMessageQueueStrategy,
)
from model.message_queue import MessageQueue

rooms = st.text("rs～😀", max_size=2)
brokers = st.one_of(st.text("rs@～😀", max_size=4), st.builds("{}@{}".format, rooms, rooms))
queue_lists = st.lists(
    st.builds(MessageQueue, st.just("t"), brokers, st.integers(0, 3)), unique=True, min_size=1, max_size=30
).map(sorted)
member_lists = st.lists(st.text("ab@1é😀", min_size=1, max_size=4), min_size=1, max_size=8).map(sorted)
inner_strategies = st.sampled_from([AllocateMessageQueueAveragely(), AllocateMessageQueueAveragelyByCircle()])


def java_md5_hash(key: str) -> int:
    """MD5Hash: four signed bytes, shifted into a long one by one."""
    value = 0
    for byte in hashlib.md5(key.encode()).digest()[:4]:
        signed = byte - 256 if byte > 127 else byte
        value = (value << 8) & 0xFFFF_FFFF_FFFF_FFFF
        value |= signed & 0xFF
    return value - (1 << 64) if value >> 63 else value


def java_small_hash(key: str) -> int:
    """A custom function with few, also negative, values, so that points meet."""
    return java_md5_hash(key) % 7 - 3


def naive_consistent_hash(
    queues: list[MessageQueue], members: list[str], count: int, small: bool
) -> list[MessageQueue | str]:
    """ConsistentHashRouter with a list of [hash, member, replica] in place of its tree map; owner of each queue."""
    hash_of = java_small_hash if small else java_md5_hash
    ring: list[tuple[int, str]] = []
    for member in members:
        existing = len([node for node in ring if node[1] == member])
        for replica in range(count):
            at = hash_of(member + "-" + str(replica + existing))
            ring = [node for node in ring if node[0] != at]
            ring.append((at, member))
    owners: list[MessageQueue | str] = []
    for queue in queues:
        key = f"MessageQueue [topic={queue[0]}, brokerName={queue[1]}, queueId={queue[2]}]"
        tail = [node for node in ring if node[0] >= hash_of(key)]
        owners.append(min(tail or ring)[1] if ring else "")
    return owners


@given(queue_lists, member_lists, st.integers(0, 12), st.booleans())
def test_consistent_hash_equals_its_naive_twin(
    queues: list[MessageQueue], members: list[str], count: int, small: bool
) -> None:
    strategy = AllocateMessageQueueConsistentHash(count, java_small_hash if small else None)
    owners = naive_consistent_hash(queues, members, count, small)
    for cid in members:
        expected = [queue for queue, owner in zip(queues, owners, strict=True) if owner == cid]
        assert strategy.allocate("g", cid, queues, members) == expected


@given(queue_lists, st.lists(st.text("ab@1é😀", min_size=1, max_size=4), min_size=2, max_size=8, unique=True))
def test_consistent_hash_moves_only_what_a_new_member_takes(queues: list[MessageQueue], members: list[str]) -> None:
    strategy = AllocateMessageQueueConsistentHash()
    before, new_member = sorted(members[1:]), members[0]
    taken = strategy.allocate("g", new_member, queues, sorted(members))
    for cid in before:
        left = [queue for queue in strategy.allocate("g", cid, queues, before) if queue not in taken]
        assert strategy.allocate("g", cid, queues, sorted(members)) == left


@given(queue_lists, queue_lists, member_lists)
def test_config_equals_its_list(configured: list[MessageQueue], queues: list[MessageQueue], members: list[str]) -> None:
    assert AllocateMessageQueueByConfig(configured).allocate("g", members[0], queues, members) == configured


def java_split(text: str) -> list[str]:
    """String.split("@"): parts without text at the end are dropped; a text without any "@" is one part."""
    if "@" not in text:
        return [text]
    parts = text.split("@")
    while parts and parts[-1] == "":
        parts.pop()
    return parts


@given(queue_lists, member_lists, st.sets(rooms))
def test_machine_room_equals_its_naive_twin(queues: list[MessageQueue], members: list[str], idcs: set[str]) -> None:
    kept = []
    for queue in queues:
        parts = java_split(queue.broker_name)
        if len(parts) == 2 and parts[0] in idcs:
            kept.append(queue)
    share, rest = len(kept) // len(members), len(kept) % len(members)
    for cid in members:
        index = members.index(cid)
        expected = [kept[at] for at in range(share * index, share * index + share)]
        if rest > index:
            expected.append(kept[index + share * len(members)])
        assert AllocateMessageQueueByMachineRoom(idcs).allocate("g", cid, queues, members) == expected


class ByLength:
    """Rooms by the first characters, with names that code points and code units order differently."""

    def broker_room(self, queue: MessageQueue) -> str:
        return "r" + queue.broker_name[:1]

    def consumer_room(self, client_id: str) -> str:
        return "r" + client_id[:1]


@given(queue_lists, member_lists, inner_strategies)
def test_nearby_equals_its_naive_twin(
    queues: list[MessageQueue], members: list[str], inner: AllocateMessageQueueStrategy
) -> None:
    resolver = ByLength()
    strategy = AllocateMachineRoomNearby(inner, resolver)
    for cid in members:
        here = resolver.consumer_room(cid)
        near = [queue for queue in queues if resolver.broker_room(queue) == here]
        mates = [each for each in members if resolver.consumer_room(each) == here]
        expected = inner.allocate("g", cid, near, mates) if near else []
        dead = {resolver.broker_room(queue) for queue in queues} - {resolver.consumer_room(each) for each in members}
        for room in sorted(dead, key=lambda name: name.encode("utf-16-be")):
            expected = expected + inner.allocate(
                "g", cid, [queue for queue in queues if resolver.broker_room(queue) == room], members
            )
        assert strategy.allocate("g", cid, queues, members) == expected


@given(queue_lists, member_lists, st.sets(st.text("ab1", min_size=1, max_size=2), min_size=1), inner_strategies)
def test_client_ip_equals_its_naive_twin(
    queues: list[MessageQueue], members: list[str], ips: set[str], inner: AllocateMessageQueueStrategy
) -> None:
    allowed = [cid for cid in members if cid.split("@")[0] in ips]
    for cid in members:
        expected = inner.allocate("g", cid, queues, allowed) if cid in allowed else []
        assert AllocateMessageQueueByClientIp(ips, inner).allocate("g", cid, queues, members) == expected
