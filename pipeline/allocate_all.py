"""The strategies of `client/allocate`, for all members at once and with arrays: a million queues in a second. Pure.

Shipped strategies answer one member with its share, in a time that grows with the queues; asking ten thousand members
about a million queues would take days. Each of these answers with the owner of every queue, an index into the members,
and is proven equal to its original on small groups (`tests/unit/pipeline/test_allocate_all.py`).

Queues are those of one topic on some brokers, `queues_per_broker` each, in RocketMQ's order: by broker, then by number.
Members are client ids, sorted, each once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from client.allocate.consistent_hash import VIRTUAL_NODE_CNT, md5_hash, queue_key
from client.allocate.hash_ring import GOLDEN, RING_LENGTH, positions_of, ring_of
from model.message_queue import MessageQueue

Owners = npt.NDArray[np.int32]
"""Index of the owner of each queue."""
_Ints = npt.NDArray[np.int64]


class QueueSet(NamedTuple):
    """The queues of one topic.

    Attributes:
        topic: its name.
        brokers: names, sorted.
        per_broker: queues on each.
    """

    topic: str
    brokers: tuple[str, ...]
    per_broker: int

    def __len__(self) -> int:
        return len(self.brokers) * self.per_broker

    def first_on(self, broker_name: str) -> MessageQueue:
        """The first queue on a broker."""
        return MessageQueue(self.topic, broker_name, 0)


class AllocateAll:
    """All strategies over one history of a group: what is the same in two calls is kept.

    Args:
        queues: what is shared.
    """

    def __init__(self, queues: QueueSet) -> None:
        self._queues = queues
        self._member_md5: dict[str, list[int]] = {}
        self._member_points: dict[str, list[int]] = {}

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
        points, owners = self._points(members, self._member_md5, _md5_points)
        # Of points that meet, the later member's counts: the last one of each run of equal points.
        last = np.append(points[1:] != points[:-1], True)
        points, owners = points[last], owners[last]
        found = np.searchsorted(points, hashes, side="left")
        found[found == len(points)] = 0
        owner_of = np.empty(len(hashes), dtype=np.int32)
        owner_of[order] = owners[found]
        return owner_of

    def balanced_sticky(self, members: Sequence[str]) -> Owners:
        """BALANCED_STICKY. See `client/allocate/hash_ring.py`: the same rounds, each with a few sorts."""
        at, order = _positions_of_queues(self._queues)
        points, owners = self._points(members, self._member_points, _ring_points)
        floor, extra = divmod(len(at), len(members))
        left = np.full(len(members), floor, dtype=np.int64)
        owner_of = np.full(len(at), -1, dtype=np.int32)
        waiting = order
        while len(waiting):
            positions = at[waiting]
            found = np.searchsorted(points, positions, side="left")
            wrapped = found == len(points)
            found[wrapped] = 0
            distances = points[found] - positions
            distances[wrapped] += RING_LENGTH
            nearest = _ascending(distances)
            wanted = owners[found[nearest]]
            rank = _rank_within(wanted)
            room = left[wanted]
            taken = rank < room
            if extra:
                # Who is full takes one more of the extra ones, the nearest first.
                over = np.flatnonzero((rank == room) & (room >= 0))[:extra]
                taken[over] = True
                extra -= len(over)
            numbers, counts = np.unique(wanted[taken], return_counts=True)
            left[numbers] -= counts
            owner_of[waiting[nearest[taken]]] = wanted[taken]
            waiting = waiting[owner_of[waiting] < 0]
            is_open = (left >= (0 if extra else 1))[owners]
            points, owners = points[is_open], owners[is_open]
        return owner_of

    @staticmethod
    def _points(
        members: Sequence[str], known: dict[str, list[int]], make: Callable[[str], list[int]]
    ) -> tuple[_Ints, _Ints]:
        """Points of all members in order, and whose they are; where two meet, the one that sorts first is first."""
        of_members = [known.get(member) or known.setdefault(member, make(member)) for member in members]
        points = np.array(of_members, dtype=np.int64).ravel()
        owners = np.repeat(np.arange(len(members), dtype=np.int64), len(of_members[0]))
        order = _ascending(points)
        return points[order], owners[order]


@lru_cache(maxsize=2)
def _hashes_of_queues(queues: QueueSet) -> tuple[_Ints, _Ints]:
    """MD5 hashes of the queues in ascending order, and the number of the queue of each."""
    md5, found = hashlib.md5, []
    for broker_name in queues.brokers:
        # The text up to the number is the same for all queues of a broker.
        prefix = queue_key(queues.first_on(broker_name)).removesuffix("0]")
        begun = md5(prefix.encode(), usedforsecurity=False)
        for queue_id in range(queues.per_broker):
            digest = begun.copy()
            digest.update(b"%d]" % queue_id)
            found.append(digest.digest()[:4])
    hashes = np.frombuffer(b"".join(found), dtype=">u4").astype(np.int64)
    order = _ascending(hashes)
    return hashes[order], order


@lru_cache(maxsize=2)
def _positions_of_queues(queues: QueueSet) -> tuple[_Ints, _Ints]:
    """Position of each queue on the ring, and the numbers of the queues in order of that."""
    numbers = np.arange(queues.per_broker, dtype=np.int64) * GOLDEN
    bases = [positions_of([queues.first_on(broker_name)]).at[0] for broker_name in queues.brokers]
    at = np.concatenate([(base + numbers) % RING_LENGTH for base in bases])
    return at, _ascending(at)


def _ascending(values: _Ints) -> _Ints:
    """The order of some values, from 0 to below 2**32; equal ones stay in the order in which they are.

    Each is packed with its place, so that a plain sort does: a stable argsort of a million takes nine times as long.
    """
    packed = (values << 31) | np.arange(len(values))
    packed.sort()
    return packed & ((1 << 31) - 1)


def _rank_within(groups: _Ints) -> _Ints:
    """How many entries before each are of the same group."""
    by_group = _ascending(groups)
    ordered = groups[by_group]
    first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    starts = np.repeat(first, np.diff(np.append(first, len(ordered))))
    rank = np.empty(len(groups), dtype=np.int64)
    rank[by_group] = np.arange(len(groups)) - starts
    return rank


def _md5_points(client_id: str) -> list[int]:
    return [md5_hash(f"{client_id}-{replica}") for replica in range(VIRTUAL_NODE_CNT)]


def _ring_points(client_id: str) -> list[int]:
    return ring_of([client_id]).points


STRATEGIES: dict[str, Callable[[AllocateAll, Sequence[str]], Owners]] = {
    "AVG": AllocateAll.averagely,
    "AVG_BY_CIRCLE": AllocateAll.averagely_by_circle,
    "CONSISTENT_HASH": AllocateAll.consistent_hash,
    "BALANCED_STICKY": AllocateAll.balanced_sticky,
}
