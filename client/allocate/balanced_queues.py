"""The computation of BALANCED_STICKY: the owner of each queue, reusing unchanged parts of the last result. Pure.

Members with the same topics are one kind; their queues are assigned among them on a ring
(`client/allocate/hash_ring.py`). With several kinds, the number of queues of each topic that each kind gets is decided
first (`model/even_loads.py`), then which queues those are; then each kind assigns its queues to its members.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from client.allocate.hash_ring import (
    Ints,
    NextPoints,
    Positions,
    Ring,
    ascending,
    deal,
    deal_evenly,
    next_points,
    order_by_position,
    points_of,
    positions_of,
    ring_of,
)
from model.even_loads import level
from model.message_queue import MessageQueue

_Topics = tuple[str, ...]
_Kinds = dict[_Topics, list[str]]
"""Members by the topics that matter to them, sorted."""


class _Placed(NamedTuple):
    """Queues as they were listed, and sorted, with their positions; kept to detect quickly that nothing changed."""

    listed: list[MessageQueue]
    queues: list[MessageQueue]
    positions: Positions


class _Shared(NamedTuple):
    """A topic that several kinds subscribe to: their ring, and the first point after each of its queues."""

    kinds: Sequence[_Topics]
    ring: Ring
    positions: Positions
    nearest: NextPoints


_NO_QUEUES = _Placed([], [], order_by_position(positions_of([])))


class BalancedQueues:
    """The memory of one instance of the strategy."""

    def __init__(self) -> None:
        self._listed = _NO_QUEUES
        self._alone = _Equals()
        # The last request: topics of each member, and queues of each topic.
        self._asked: tuple[dict[str, _Topics], dict[str, list[MessageQueue]]] = ({}, {})
        self._seen: tuple[_Kinds, dict[str, list[MessageQueue]]] = ({}, {})
        self._topics: dict[str, _Placed] = {}
        self._equals: dict[_Topics, _Equals] = {}

    def share_of_all(
        self, client_id: str, queues: Sequence[MessageQueue], members: Sequence[str]
    ) -> list[MessageQueue]:
        """The queues of one of the members, who all have the same topics."""
        self._listed = _place(list(queues), self._listed)
        self._alone.see(self._listed.queues, [self._listed.positions.at], sorted(dict.fromkeys(members)))
        return self._alone.share_of(client_id)

    def share_of(
        self,
        client_id: str,
        queues_of: Mapping[str, Sequence[MessageQueue]],
        topics_of: Mapping[str, Collection[str]],
    ) -> list[MessageQueue]:
        """The queues of a client, of all topics that it subscribes to."""
        own_topics = _that_matter(topics_of.get(client_id, ()), queues_of)
        if not own_topics:
            return []
        queues_by_topic = {topic: list(queues) for topic, queues in queues_of.items()}
        if self._asked != (topics_of, queues_by_topic):  # mostly another member of the same group asks
            kinds = _kinds(queues_of, topics_of)
            if self._seen != (kinds, queues_by_topic):
                self._see(kinds, queues_by_topic)
            self._asked = {member: tuple(topics) for member, topics in topics_of.items()}, queues_by_topic
        return self._equals[own_topics].share_of(client_id)

    def _see(self, kinds: _Kinds, queues_by_topic: dict[str, list[MessageQueue]]) -> None:
        takers_of: dict[str, list[_Topics]] = {}
        for topics in kinds:
            for topic in topics:
                takers_of.setdefault(topic, []).append(topics)
        self._topics = {
            topic: _place(queues_by_topic[topic], self._topics.get(topic, _NO_QUEUES)) for topic in sorted(takers_of)
        }
        owners_of = self._share_among_kinds(kinds, takers_of)
        shares: dict[_Topics, tuple[list[MessageQueue], list[Ints]]] = {topics: ([], []) for topics in kinds}
        for topic, placed in self._topics.items():
            takers = takers_of[topic]
            alone = [(placed.queues, placed.positions.at)]
            parts = _split(placed, owners_of[topic], len(takers)) if topic in owners_of else alone
            for kind, (queues, positions) in zip(takers, parts, strict=True):
                its_queues, its_places = shares[kind]
                its_queues += queues
                its_places.append(positions)
        self._equals = {topics: self._equals.get(topics) or _Equals() for topics in kinds}
        for topics, (its_queues, its_places) in shares.items():
            self._equals[topics].see(its_queues, its_places, kinds[topics])
        self._seen = (kinds, queues_by_topic)

    def _share_among_kinds(self, kinds: _Kinds, takers_of: Mapping[str, Sequence[_Topics]]) -> dict[str, Ints]:
        """For each queue the kind that gets it, a number in `takers_of`, by topic; topics of one kind are left out.

        First every queue goes to the next point on the ring. This is even among the members of a topic, but not over
        all topics. So the counts are levelled, and the queues are assigned again, with a limit of that count for each
        kind.
        """
        names = {topics: f"{number:06}" for number, topics in enumerate(kinds)}
        rings = _Rings(kinds) if len(kinds) > 1 else None
        quotas: dict[str, dict[str, int]] = {}
        shared: dict[str, _Shared] = {}
        for topic, (_, queues, positions) in self._topics.items():
            takers = takers_of[topic]
            if rings is None or len(takers) == 1:
                quotas[topic] = {names[takers[0]]: len(queues)}
                continue
            ring = rings.of(takers)
            shared[topic] = _Shared(takers, ring, positions, next_points(positions, ring))
            counts = np.bincount(shared[topic].nearest.owners, minlength=len(takers)).tolist()
            quotas[topic] = {names[kind]: count for kind, count in zip(takers, counts, strict=True)}
        levelled = level(quotas, {names[topics]: len(members) for topics, members in kinds.items()})
        owners_of: dict[str, Ints] = {}
        for topic, (takers, ring, positions, nearest) in shared.items():
            if levelled[topic] == quotas[topic]:  # so each queue has room at its first point: no rounds
                owners_of[topic] = np.empty_like(nearest.owners)
                owners_of[topic][positions.order] = nearest.owners
            else:
                rooms = np.array([levelled[topic][names[kind]] for kind in takers])
                owners_of[topic] = deal(positions, ring, rooms, nearest=nearest)
        return owners_of


class _Rings:
    """Rings of some kinds' members, whose points belong to the kinds."""

    def __init__(self, kinds: _Kinds) -> None:
        kind_of = {client_id: number for number, members in enumerate(kinds.values()) for client_id in members}
        members = sorted(kind_of)
        self._numbers = {topics: number for number, topics in enumerate(kinds)}
        self._kind_of = np.array(list(map(kind_of.__getitem__, members)))
        self._points = points_of(members)
        self._made: dict[tuple[int, ...], Ring] = {}

    def of(self, kinds: Sequence[_Topics]) -> Ring:
        """The ring of these kinds; its owners are indexes of `kinds`."""
        numbers = tuple(self._numbers[kind] for kind in kinds)
        if numbers not in self._made:
            index_of = np.full(len(self._numbers), -1)
            index_of[list(numbers)] = np.arange(len(numbers))
            of_member = index_of[self._kind_of]
            points, members = ring_of(self._points[of_member >= 0])
            self._made[numbers] = Ring(points, of_member[of_member >= 0][members])
        return self._made[numbers]


class _Equals:
    """Members with the same topics, and the queues that are assigned evenly among them."""

    def __init__(self) -> None:
        self._queues: list[MessageQueue] = []
        self._at: list[Ints] = []
        self._members: list[str] = []
        self._owners: Ints | None = None

    def see(self, queues: list[MessageQueue], positions: list[Ints], members: list[str]) -> None:
        """Take sorted queues and sorted members; they are assigned when `share_of` is called.

        `positions` has the positions of the queues on the ring, in parts, and depends on nothing else.
        """
        if queues != self._queues or members != self._members:
            self._queues, self._at, self._members, self._owners = queues, positions, members, None

    def share_of(self, client_id: str) -> list[MessageQueue]:
        """The queues of one of the members."""
        if self._owners is None:
            ring = ring_of(points_of(self._members))
            self._owners = deal_evenly(order_by_position(np.concatenate(self._at)), ring, len(self._members))
        own_topics = np.flatnonzero(self._owners == bisect_left(self._members, client_id))
        return list(map(self._queues.__getitem__, own_topics))


def _place(listed: list[MessageQueue], old: _Placed) -> _Placed:
    if listed == old.listed:
        return old
    queues = sorted(listed)
    positions = order_by_position(positions_of(queues))
    ordered = positions.at[positions.order]
    # Duplicates are removed only where positions are equal: a check of every list would take longer.
    if (ordered[1:] == ordered[:-1]).any():
        queues = sorted(dict.fromkeys(listed))
        positions = order_by_position(positions_of(queues))
    return _Placed(listed, queues, positions)


def _split(placed: _Placed, owners: Ints, kinds: int) -> Iterator[tuple[list[MessageQueue], Ints]]:
    """The queues of each kind, and where they are, in their order."""
    by_kind = ascending(owners)
    queues, positions = list(map(placed.queues.__getitem__, by_kind.tolist())), placed.positions.at[by_kind]
    for first, end in pairwise([0, *np.bincount(owners, minlength=kinds).cumsum().tolist()]):
        yield queues[first:end], positions[first:end]


def _that_matter(topics: Iterable[str], queues_of: Mapping[str, Sequence[MessageQueue]]) -> _Topics:
    return tuple(sorted({topic for topic in topics if queues_of.get(topic)}))


def _kinds(queues_of: Mapping[str, Sequence[MessageQueue]], topics_of: Mapping[str, Collection[str]]) -> _Kinds:
    """Members by the topics with queues that they subscribe to; members without any are left out."""
    as_listed: dict[_Topics, list[str]] = {}
    for client_id, topics in topics_of.items():
        as_listed.setdefault(tuple(topics), []).append(client_id)
    kinds: _Kinds = {}
    for topics, members in as_listed.items():
        kinds.setdefault(_that_matter(topics, queues_of), []).extend(members)
    kinds.pop((), None)
    return {topics: sorted(members) for topics, members in sorted(kinds.items())}
