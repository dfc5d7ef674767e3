"""A hash ring on which queues go to the nearest member with room: BALANCED_STICKY for equal topics. Pure.

Invariant: the result depends only on the sets of queues and members; and each member gets exactly its number of queues.

Every member has POINTS points on the ring, every queue has one position. In each round, each unassigned queue finds the
next point after its position, and pairs are made in order of their distance, the nearest first, until members have no
room left. The points of full members are removed, and the remaining queues go through another round.

    points    A 10, B 30, A 50; each has room for two; queues at 5, 20, 29, 45
    round 1   29-B (1), 5-A (5), 45-A (5), 20-B (10): all are assigned in one round

    the same with queues at 20, 25, 29, 45
    round 1   29-B (1), 25-B (5), 45-A (5); 20 finds B full
    round 2   20-A (30)

Why it moves little: without limits this is consistent hashing, where a new member only takes queues. Here a queue near
a point has priority over all queues from farther away, and a new member's point takes those from far away, which other
members were the first to refuse. Each queue that moves may displace one other, at a greater distance, so that such a
chain ends soon.

Every step is a numpy operation over all queues at once, which takes a fifth of the time of plain Python.

Reading: Mirrokni, Thorup, Zadimoghaddam, "Consistent Hashing with Bounded Loads" (2018), where loads may exceed the
average by a factor; here they may not, and distance rather than arrival decides, because there is no order of arrival.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from itertools import pairwise
from math import inf
from operator import attrgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from model.message_queue import MessageQueue

Ints = npt.NDArray[np.int64]

POINTS = 16
"""Per member. More points make loads more even before any limit, so that fewer queues move; each costs time."""

RING_LENGTH = 1 << 30
GOLDEN = 663608941
"""About RING_LENGTH / golden ratio, and odd: its multiples fill the ring evenly, however many there are."""


class Ring(NamedTuple):
    """Points in order, and the number of the owner of each; parallel."""

    points: Ints
    owners: Ints


class Positions(NamedTuple):
    """Positions of queues on the ring, and the numbers of the queues in order of position; not parallel."""

    at: Ints
    order: Ints


class NextPoints(NamedTuple):
    """Owners of the next points after queues in order of position, and the distances there; parallel."""

    owners: Ints
    distances: Ints


def positions_of(queues: Sequence[MessageQueue]) -> Ints:
    """Positions of sorted queues on the ring.

    Queues of one topic on one broker follow each other at the golden angle: they are spread evenly, a new queue moves
    no other, and one hash is enough for all of them.
    """
    bases: list[int] = []
    firsts: list[int] = []
    first, length = 0, 1
    while first < len(queues):
        topic, broker_name, _ = queues[first]
        bases.append(int.from_bytes(_digest(f"{topic}@{broker_name}")[:4], "big"))
        firsts.append(first)
        # Most brokers have as many queues of a topic as the one before; otherwise search.
        behind = first + length
        if _pair_at(queues, behind - 1) != (topic, broker_name) or _pair_at(queues, behind) == (topic, broker_name):
            behind = bisect_right(queues, (topic, broker_name, inf), first)
        first, length = behind, behind - first
    counts = [end - first for first, end in pairwise([*firsts, len(queues)])]
    ids = np.fromiter(map(attrgetter("queue_id"), queues), dtype=np.int64, count=len(queues))
    # Products may overflow at 2**64, which the length of the ring divides: the remainder is the same.
    positions: Ints = (
        np.repeat(np.array(bases, dtype=np.int64), np.array(counts, dtype=np.int64)) + ids * GOLDEN
    ) % RING_LENGTH
    return positions


def order_by_position(positions: Ints) -> Positions:
    """Queues in order of their positions; where two are equal, that with the lower number comes first."""
    return Positions(positions, ascending(positions))


def points_of(members: Iterable[str]) -> Ints:
    """The points of members, a row for each."""
    points = np.frombuffer(b"".join(map(_digest, members)), dtype=">u4").astype(np.int64) % RING_LENGTH
    return points.reshape(-1, POINTS)


def ring_of(points: Ints) -> Ring:
    """Sort rows of points into a ring; of equal points, the point of the lower row comes first."""
    order = ascending(points.ravel())
    return Ring(points.ravel()[order], order // POINTS)


def deal_evenly(positions: Positions, ring: Ring, members: int) -> Ints:
    """Assign queues to members so that loads differ by at most one; returns the number of the owner of each queue.

    The members that get one more are not fixed beforehand: they are the first for which a queue is left after they have
    the common number. A fixed list would change with every new member, and each change in it would move a queue.
    """
    floor, extra = divmod(len(positions.at), members)
    return deal(positions, ring, np.full(members, floor), extra)


def deal(positions: Positions, ring: Ring, rooms: Ints, extra: int = 0, *, nearest: NextPoints | None = None) -> Ints:
    """Assign queues to owners with limited room, see the module header; returns the number of the owner of each queue.

    `rooms` is the number of queues of each owner, and `extra` of the owners get one more; together they are the number
    of queues. `nearest` is `next_points` of these positions and this ring, if known already.
    """
    capacity = rooms.copy()
    owner_of = np.full(len(positions.at), -1)
    waiting = positions.order
    while len(waiting):
        owners, distances = nearest or next_points(Positions(positions.at, waiting), ring)
        nearest = None
        by_distance = ascending(distances)
        wanted_owner = owners[by_distance]
        rank, room_of = _rank_within(wanted_owner), capacity[wanted_owner]
        is_taken = rank < room_of
        if extra:  # The nearest queues that find an owner with its common number.
            over_capacity = np.flatnonzero((rank == room_of) & (room_of >= 0))[:extra]
            is_taken[over_capacity] = True
            extra -= len(over_capacity)
        takers = wanted_owner[is_taken]
        capacity -= np.bincount(takers, minlength=len(capacity))  # -1 for an owner with one more
        owner_of[waiting[by_distance[is_taken]]] = takers
        waiting = waiting[owner_of[waiting] < 0]
        is_open = (capacity >= (0 if extra else 1))[ring.owners]
        ring = Ring(ring.points[is_open], ring.owners[is_open])
    return owner_of


def next_points(positions: Positions, ring: Ring) -> NextPoints:
    """The next point after each queue of `positions.order`, which may leave queues out; the ring is not empty."""
    places = positions.at[positions.order]
    indexes = np.searchsorted(ring.points, places)
    around = indexes == len(ring.points)
    indexes[around] = 0
    distances = ring.points[indexes] - places
    distances[around] += RING_LENGTH
    return NextPoints(ring.owners[indexes], distances)


def ascending(values: Ints) -> Ints:
    """The stable order of values from 0 to below 2**32.

    Each is packed with its index, so a plain sort is enough: a stable argsort of a million takes nine times as long.
    """
    packed = (values << 31) | np.arange(len(values))
    packed.sort()
    return packed & ((1 << 31) - 1)


def _rank_within(groups: Ints) -> Ints:
    """For each entry, the number of entries before it of the same group."""
    by_group = ascending(groups)
    ordered = groups[by_group]
    is_first = np.ones(len(groups), dtype=bool)
    is_first[1:] = ordered[1:] != ordered[:-1]
    firsts = np.flatnonzero(is_first)
    rank = np.empty(len(groups), dtype=np.int64)
    rank[by_group] = np.arange(len(groups)) - firsts[np.cumsum(is_first) - 1]
    return rank


def _pair_at(queues: Sequence[MessageQueue], number: int) -> tuple[str, str] | None:
    """Topic and broker of a queue; None after the last."""
    return queues[number][:2] if number < len(queues) else None


def _digest(text: str) -> bytes:
    # Not MD5, which is as quick: one call has 16 bytes, and this has the 64 that 16 points need.
    return blake2b(text.encode("utf-8", "surrogatepass")).digest()
