"""CONSISTENT_HASH: queues and members are points on a ring, and a queue belongs to the next member after it. Pure.

A member that joins takes queues from others and moves no other queue; the price is that loads differ widely.

    ring points   10 A-0   25 B-0   40 A-1   70 B-1
    queue at 30 -> A, at 40 -> A, at 41 -> B, at 71 -> A: the ring goes on at its beginning

RocketMQ: AllocateMessageQueueConsistentHash, ConsistentHashRouter, VirtualNode, MD5Hash.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Sequence

from client.allocate.strategy import position_of
from model.message_queue import MessageQueue

VIRTUAL_NODE_CNT = 10


def md5_hash(key: str) -> int:
    """The first four bytes of the MD5 of the key in UTF-8, as an unsigned number. RocketMQ: MD5Hash.

    A surrogate without its partner counts as `?`, as Java encodes it.
    """
    digest = hashlib.md5(key.encode("utf-8", "replace"), usedforsecurity=False).digest()
    return int.from_bytes(digest[:4], "big")


class AllocateMessageQueueConsistentHash:
    """Each queue belongs to the next of the members' points on a ring of hashes.

    An instance remembers the last assignment, so that asking for another member of the same group computes nothing. The
    result is the same without it. One thread at a time may use an instance.

    Args:
        virtual_node_cnt: points per member; with 0 no member gets any queue.
        hash_function: of a text to an integer; points are ordered by its numeric value, so a function ported from Java
            has to return negative numbers where Java's does.

    Raises:
        ValueError: a count below 0, or no function.
    """

    name = "CONSISTENT_HASH"

    def __init__(
        self, virtual_node_cnt: int = VIRTUAL_NODE_CNT, hash_function: Callable[[str], int] | None = None
    ) -> None:
        if isinstance(virtual_node_cnt, bool) or not isinstance(virtual_node_cnt, int) or virtual_node_cnt < 0:
            raise ValueError(f"virtual_node_cnt must be a number from 0 up, and is {virtual_node_cnt!r}")
        if hash_function is not None and not callable(hash_function):
            raise ValueError(f"hash_function must be a function of a text to an integer, and is {hash_function!r}")
        self._virtual_node_cnt = virtual_node_cnt
        self._hash = hash_function or md5_hash
        self._last: tuple[list[MessageQueue], list[str], dict[str, list[MessageQueue]]] = ([], [], {})

    def allocate(
        self, consumer_group: str, current_cid: str, mq_all: Sequence[MessageQueue], cid_all: Sequence[str]
    ) -> list[MessageQueue]:
        """See `AllocateMessageQueueStrategy.allocate`; members that are listed twice have twice as many points."""
        if position_of(consumer_group, current_cid, mq_all, cid_all) is None:
            return []
        queues, members, assigned = self._last
        if queues != list(mq_all) or members != list(cid_all):
            queues, members = list(mq_all), list(cid_all)
            assigned = self._assign(queues, members)
            self._last = queues, members, assigned
        return assigned.get(current_cid, []).copy()

    def _assign(self, queues: Sequence[MessageQueue], members: Sequence[str]) -> dict[str, list[MessageQueue]]:
        """The queues of each member that has some, in their order."""
        owners = self._ring(members)
        points = sorted(owners)
        assigned: dict[str, list[MessageQueue]] = {}
        for queue in queues if points else ():
            point_index = bisect_left(points, self._hash(queue_key(queue)))
            assigned.setdefault(owners[points[point_index % len(points)]], []).append(queue)
        return assigned

    def _ring(self, cid_all: Sequence[str]) -> dict[int, str]:
        """Owner of each point; of two members with an equal point, the later one."""
        owners: dict[int, str] = {}
        seen_ids: set[str] = set()
        for client_id in cid_all:
            # Replicas of a repeated id are numbered from the points that it has at that moment, so a point that was
            # lost to another member is made again.
            first = sum(owner == client_id for owner in owners.values()) if client_id in seen_ids else 0
            seen_ids.add(client_id)
            for replica in range(first, first + self._virtual_node_cnt):
                owners[self._hash(f"{client_id}-{replica}")] = client_id
        return owners


def queue_key(queue: MessageQueue) -> str:
    """The text of a queue that is hashed. RocketMQ: MessageQueue.toString."""
    return f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]"
