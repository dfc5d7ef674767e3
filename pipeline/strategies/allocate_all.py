"""The strategies of `client/allocate` for all members at once, with arrays: a million queues in a second.

A strategy of clients computes the target of one member, in a time that grows with the queues; for ten thousand members
and a million queues that would take days. The functions here compute the owner of every queue, as an index of the
members. `tests/unit/pipeline/strategies/test_allocate_all.py` compares them with the originals on small groups.
A strategy without a function here is called for each member, which is fast enough for thousands of queues.

The queues belong to one topic, `per_broker` on each of its brokers, in RocketMQ's order: by broker, then by number.
Members are client ids, sorted and without duplicates.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from client.allocate.consistent_hash import VIRTUAL_NODE_CNT, md5_hash, queue_key
from client.allocate.hash_ring import (
    GOLDEN,
    RING_LENGTH,
    Ints,
    Positions,
    ascending,
    deal_evenly,
    order_by_position,
    points_of,
    positions_of,
    ring_of,
)
from client.allocate.registry import strategy_named
from client.rebalance.plan import StrategyError, allocate_target
from model.heartbeat import GroupView, MessageModel
from model.message_queue import MessageQueue

Owners = npt.NDArray[np.int32]
"""Index of the owner of each queue."""


class QueueSet(NamedTuple):
    """The queues of one topic."""

    topic: str
    brokers: tuple[str, ...]  # names, sorted
    per_broker: int  # queues on each broker

    def __len__(self) -> int:
        return len(self.brokers) * self.per_broker

    def every(self) -> list[MessageQueue]:
        """Return all queues, in order."""
        return [
            MessageQueue(self.topic, broker, number) for broker in self.brokers for number in range(self.per_broker)
        ]

    def first_on(self, broker_name: str) -> MessageQueue:
        """Return the first queue on a broker."""
        return MessageQueue(self.topic, broker_name, 0)


class AllocateAll:
    """All strategies over one history of a group; intermediate results are cached between calls."""

    def __init__(self, queues: QueueSet) -> None:
        self._queues = queues
        self._member_md5: dict[str, list[int]] = {}

    def owners(self, strategy: str, members: Sequence[str]) -> Owners:
        """Compute the owners under the strategy of this name, with arrays if it has a function here.

        Raises:
            ConfigError: there is no such strategy.
            StrategyError: it assigned a queue to several members, or to no member.
        """
        by_arrays = _BY_ARRAYS.get(strategy)
        return self._by_member(strategy, members) if by_arrays is None else by_arrays(self, members)

    def _by_member(self, name: str, members: Sequence[str]) -> Owners:
        topic, every = self._queues.topic, self._queues.every()
        view = GroupView(group="g", version=1, members=dict.fromkeys(members, (topic,)))
        strategy, number_of = strategy_named(name), {queue: number for number, queue in enumerate(every)}
        owners = np.full(len(every), -1, dtype=np.int32)
        shared = 0
        for index, member in enumerate(members):
            share = allocate_target(strategy, "g", member, MessageModel.CLUSTERING, [topic], {topic: every}, view)
            owners[[number_of[queue] for queue in share]] = index
            shared += len(share)
        if shared != len(every) or (owners < 0).any():
            raise StrategyError(
                f"strategy {name} made {shared} assignments of {len(every)} queues: each must have one owner"
            )
        return owners

    def averagely(self, members: Sequence[str]) -> Owners:
        """AVG. See `AllocateMessageQueueAveragely`."""
        share, rest = divmod(len(self._queues), len(members))
        loads = np.full(len(members), share, dtype=np.int64)
        loads[:rest] += 1
        return np.repeat(np.arange(len(members), dtype=np.int32), loads)

    def averagely_by_circle(self, members: Sequence[str]) -> Owners:
        """AVG_BY_CIRCLE. See `AllocateMessageQueueAveragelyByCircle`."""
        return np.arange(len(self._queues), dtype=np.int32) % np.int32(len(members))

    def consistent_hash(self, members: Sequence[str]) -> Owners:
        """CONSISTENT_HASH with ten points a member. See `AllocateMessageQueueConsistentHash`."""
        hashes, order = _hashes_of_queues(self._queues)
        points, owners = self._points_by_md5(members)
        # Of equal points, the point of the later member counts: the last one of each run.
        last = np.append(points[1:] != points[:-1], True)
        points, owners = points[last], owners[last]
        indexes = np.searchsorted(points, hashes, side="left")
        indexes[indexes == len(points)] = 0
        owner_of = np.empty(len(hashes), dtype=np.int32)
        owner_of[order] = owners[indexes]
        return owner_of

    def balanced_sticky(self, members: Sequence[str]) -> Owners:
        """BALANCED_STICKY. See `client/allocate/hash_ring.py`, which uses arrays itself."""
        positions = _positions_of_queues(self._queues)
        return deal_evenly(positions, ring_of(points_of(members)), len(members)).astype(np.int32)

    def _points_by_md5(self, members: Sequence[str]) -> tuple[Ints, Ints]:
        """Return the points of all members in order, and their owners; equal points are in the order of members."""
        points_of = self._member_md5
        of_members = [points_of.get(member) or points_of.setdefault(member, _md5_points(member)) for member in members]
        points = np.array(of_members, dtype=np.int64).ravel()
        order = ascending(points)
        return points[order], order // VIRTUAL_NODE_CNT


@lru_cache(maxsize=2)
def _hashes_of_queues(queues: QueueSet) -> tuple[Ints, Ints]:
    """Return the MD5 hashes of the queues in ascending order, and the number of the queue of each."""
    md5, digests = hashlib.md5, []
    for broker_name in queues.brokers:
        # The text up to the number is the same for all queues of a broker.
        prefix = queue_key(queues.first_on(broker_name)).removesuffix("0]")
        prefix_hash = md5(prefix.encode(), usedforsecurity=False)
        for queue_id in range(queues.per_broker):
            digest = prefix_hash.copy()
            digest.update(b"%d]" % queue_id)
            digests.append(digest.digest()[:4])
    hashes = np.frombuffer(b"".join(digests), dtype=">u4").astype(np.int64)
    order = ascending(hashes)
    return hashes[order], order


@lru_cache(maxsize=2)
def _positions_of_queues(queues: QueueSet) -> Positions:
    numbers = np.arange(queues.per_broker, dtype=np.int64) * GOLDEN
    bases = positions_of([queues.first_on(broker_name) for broker_name in queues.brokers])
    return order_by_position(((bases[:, np.newaxis] + numbers) % RING_LENGTH).ravel())


def _md5_points(client_id: str) -> list[int]:
    return [md5_hash(f"{client_id}-{replica}") for replica in range(VIRTUAL_NODE_CNT)]


_BY_ARRAYS: dict[str, Callable[[AllocateAll, Sequence[str]], Owners]] = {
    "AVG": AllocateAll.averagely,
    "AVG_BY_CIRCLE": AllocateAll.averagely_by_circle,
    "CONSISTENT_HASH": AllocateAll.consistent_hash,
    "BALANCED_STICKY": AllocateAll.balanced_sticky,
}
