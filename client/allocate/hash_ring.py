"""A ring on which queues walk to members that still have room: the way BALANCED_STICKY shares queues among equals.

Invariant: the result depends on which queues and members there are, on nothing else; and each gets exactly its room.

Every member has POINTS points on the ring, every queue has one position. A round goes so: each waiting queue looks at
the next point after its position, and pairs are made in order of their distance, the nearest first, until members have
no room left. The points of full members vanish, and who is still waiting looks again.

    points    A 10, B 30, A 50; each has room for two; queues at 5, 20, 29, 45
    round 1   29-B (1), 5-A (5), 45-A (5), 20-B (10): all are at home, and nobody had to walk on

    the same with queues at 20, 25, 29, 45
    round 1   29-B (1), 25-B (5), 45-A (5); 20 finds B full
    round 2   20-A (30)

Why it moves little. Without limits this is consistent hashing, where a newcomer only takes. Here a queue that was near
a point keeps it against all that came from farther off, and a newcomer's point takes from those that come from far,
which are the ones that other members were about to turn away. Each queue that does move may turn one other away, at a
greater distance, so that such a chain ends soon.

Reading: Mirrokni, Thorup, Zadimoghaddam, «Consistent Hashing with Bounded Loads» (2018), where loads may exceed the
average by a factor; here they may not, and distance rather than arrival decides, because there is no order of arrival.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from itertools import compress
from operator import sub
from typing import NamedTuple

from model.message_queue import MessageQueue

POINTS = 16
"""Per member. More make loads more even before any limit, so that fewer queues walk; each costs time."""

RING_LENGTH = 1 << 30
"""Length of the ring. Python compares integers below 2**30 faster, and collisions are harmless: see `ring_of`."""
GOLDEN = 663608941
"""About RING_LENGTH / golden ratio, and odd: its multiples fill the ring evenly, however many there are."""
_FEW_QUEUES = 10
"""With more points than this for each queue, a search for each takes less time than to go through all points."""
_DIGEST_POINTS = struct.Struct(f">{POINTS}I")
_POINT_BITS = int.from_bytes(_DIGEST_POINTS.pack(*[RING_LENGTH - 1] * POINTS), "big")


class Ring(NamedTuple):
    """Points in order, and whose each is; parallel."""

    points: list[int]
    owners: list[str]


class Positions(NamedTuple):
    """Where queues are on the ring, and their numbers in order of that; parallel to neither."""

    at: list[int]
    order: list[int]


class NextPoints(NamedTuple):
    """Owners of the next points after queues in order of position, and the distances there; parallel."""

    owners: list[str]
    distances: list[int]


def positions_of(queues: Sequence[MessageQueue]) -> Positions:
    """Place queues.

    Those of one topic on one broker follow each other at a fixed angle, the golden one: they lie evenly, adding one
    moves none, and one hash serves them all.

    Args:
        queues: sorted, so that those of one broker come together and equal positions are in a definite order.
    """
    at = []
    last_topic = last_broker = ""
    base = 0
    for topic, broker_name, queue_id in queues:
        if broker_name != last_broker or topic != last_topic:
            last_topic, last_broker = topic, broker_name
            base = int.from_bytes(_digest(f"{topic}@{broker_name}")[:4], "big") % RING_LENGTH
        at.append((base + queue_id * GOLDEN) % RING_LENGTH)
    return placed(at)


def placed(at: list[int]) -> Positions:
    """Positions of queues that were placed before, perhaps among others."""
    return Positions(at, sorted(range(len(at)), key=at.__getitem__))


def ring_of(members: Sequence[str]) -> Ring:
    """Place members; where two points meet, that of the member that sorts first comes first.

    Args:
        members: client ids, sorted, each once.
    """
    points: list[int] = []
    owners: list[str] = []
    for client_id in members:
        points += _points_of(client_id)
        owners += [client_id] * POINTS
    order = sorted(range(len(points)), key=points.__getitem__)
    return Ring(list(map(points.__getitem__, order)), list(map(owners.__getitem__, order)))


def changed_ring(ring: Ring, gone: Collection[str], come: Collection[str]) -> Ring:
    """The ring of a group in which some members left and others joined: the same as a new one, but sooner."""
    points, owners = ring.points.copy(), ring.owners.copy()
    for client_id in gone:
        for point in _points_of(client_id):
            at = owners.index(client_id, bisect_left(points, point))
            del points[at], owners[at]
    for client_id in come:
        for point in _points_of(client_id):
            at = bisect_left(points, point)
            while at < len(points) and points[at] == point and owners[at] < client_id:
                at += 1
            points.insert(at, point)
            owners.insert(at, client_id)
    return Ring(points, owners)


def deal_evenly(positions: Positions, ring: Ring, members: Collection[str]) -> list[str]:
    """Share queues among members so that loads differ by at most one.

    Which members get one more is not settled beforehand: those are who first find a queue when they have their floor
    already. A settled list would change with every newcomer, and each change in it would move a queue.

    Returns:
        The owner of each queue.
    """
    floor, extra = divmod(len(positions.at), len(members))
    return deal(positions, ring, dict.fromkeys(members, floor), extra)


def deal(
    positions: Positions, ring: Ring, rooms: Mapping[str, int], extra: int = 0, *, nearest: NextPoints | None = None
) -> list[str]:
    """Share queues among owners that have room for a number of them; see the module header.

    Args:
        positions: of the queues.
        ring: of the owners.
        rooms: how many queues each owner gets.
        extra: how many of the owners get one more. Rooms and extra together are for exactly all queues.
        nearest: `next_points` of these positions and this ring, if it is there already.

    Returns:
        The owner of each queue.
    """
    left = dict(rooms)
    owner_of = [""] * len(positions.at)
    waiting = positions.order
    while waiting:
        if len(left) == 1:  # Nobody else has room, so there is nothing to look for.
            (last,) = left
            for queue in waiting:
                owner_of[queue] = last
            break
        # Here and below, the number of an entry in `waiting` stands for it: parallel lists are quicker than tuples.
        found, distances = nearest or next_points(Positions(positions.at, waiting), ring)
        nearest = None
        for entry in sorted(range(len(waiting)), key=distances.__getitem__):
            owner = found[entry]
            room = left[owner]
            if room > 0:
                left[owner] = room - 1
            elif extra and room == 0:
                extra -= 1
                left[owner] = -1
            else:
                continue
            owner_of[waiting[entry]] = owner
        waiting = [queue for queue in waiting if not owner_of[queue]]
        if waiting:
            least = 0 if extra else 1
            left = {owner: room for owner, room in left.items() if room >= least}
            is_open = list(map(left.__contains__, ring.owners))
            ring = Ring(list(compress(ring.points, is_open)), list(compress(ring.owners, is_open)))
    return owner_of


def next_points(positions: Positions, ring: Ring) -> NextPoints:
    """Look for the next point after each queue.

    Args:
        positions: `order` may leave queues out.
        ring: not empty.
    """
    places = list(map(positions.at.__getitem__, positions.order))
    points, owners = [*ring.points, ring.points[0] + RING_LENGTH], [*ring.owners, ring.owners[0]]
    if len(points) > _FEW_QUEUES * len(places):
        index = list(map(partial(bisect_left, points), places))
        return NextPoints(list(map(owners.__getitem__, index)), list(map(sub, map(points.__getitem__, index), places)))
    found, distances = [], []
    ahead = zip(points, owners, strict=True)
    point, owner = next(ahead)
    for position in places:  # in order of position, so both sequences are gone through once
        while point < position:
            point, owner = next(ahead)
        found.append(owner)
        distances.append(point - position)
    return NextPoints(found, distances)


def _points_of(client_id: str) -> tuple[int, ...]:
    # Cut to the length of the ring all at once, which takes a third of the time of sixteen divisions.
    cut = int.from_bytes(_digest(client_id), "big") & _POINT_BITS
    return _DIGEST_POINTS.unpack(cut.to_bytes(_DIGEST_POINTS.size, "big"))


def _digest(text: str) -> bytes:
    # Not MD5, which is as quick: its 16 bytes would have to be asked for four times. The 64 of this are 16 points.
    return blake2b(text.encode("utf-8", "surrogatepass")).digest()
