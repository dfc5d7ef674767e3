"""BALANCED_STICKY: all topics of a group shared together, evenly, and little of it moved when members come and go.

Invariant: loads of members with the same topics differ by at most one in total; with different topics, they are as even
as the subscriptions allow (`model/even_loads.py`). The result depends on which queues and members there are: not on
their order, not on who had what before. So every member computes the same, however long it has been there.

    three topics with one queue each, members A B C      AVG: A has all three      BALANCED_STICKY: one each

RocketMQ has none like it: there a strategy sees one topic at a time (#1945), and sticky assignment was tried on the
broker, where what was before is known (#2149, #2169). `docs/strategies.md` has what was tried, and figures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from client.allocate.hash_ring import (
    NextPoints,
    Positions,
    Ring,
    changed_ring,
    deal,
    deal_evenly,
    next_points,
    placed,
    positions_of,
    ring_of,
)
from client.allocate.strategy import position_of
from model.even_loads import level
from model.message_queue import MessageQueue

_MAX_RING_CHANGES = 32
"""With more members changed than this, a new ring takes less time than changing the old one."""
_Topics = tuple[str, ...]
_Kinds = dict[_Topics, list[str]]
"""Members by the topics that matter to them."""


class _Placed(NamedTuple):
    """Queues as they were listed, and sorted, with their positions; to see soon that nothing changed."""

    listed: list[MessageQueue]
    queues: list[MessageQueue]
    positions: Positions


class _OnRing(NamedTuple):
    """Members, sorted, and their ring."""

    members: list[str]
    ring: Ring


_NO_QUEUES = _Placed([], [], Positions([], []))
_NOBODY = _OnRing([], Ring([], []))


class AllocateMessageQueueBalancedSticky:
    """Evenly over all topics together, with few moves when members come and go.

    An instance remembers the last queues and members it saw, with their places on rings, by topic: who comes or goes is
    put into the rings there are, and asking for another member deals nothing again. It changes no result.
    """

    name = "BALANCED_STICKY"

    def __init__(self) -> None:
        self._listed = _NO_QUEUES
        self._alone = _Equals()
        self._seen: tuple[_Kinds, dict[str, list[MessageQueue]]] = ({}, {})
        self._topics: dict[str, _Placed] = {}
        self._takers: dict[str, _OnRing] = {}
        self._equals: dict[_Topics, _Equals] = {}

    def allocate(
        self, consumer_group: str, current_cid: str, mq_all: Sequence[MessageQueue], cid_all: Sequence[str]
    ) -> list[MessageQueue]:
        """See `AllocateMessageQueueStrategy.allocate`; queues may be of any topics, and order does not matter."""
        if position_of(consumer_group, current_cid, mq_all, cid_all) is None:
            return []
        self._listed = _place(list(mq_all), self._listed)
        self._alone.see(self._listed.queues, self._listed.positions.at, sorted(dict.fromkeys(cid_all)))
        return self._alone.share_of(current_cid)

    def allocate_group(
        self,
        consumer_group: str,
        current_cid: str,
        queues_of: Mapping[str, Sequence[MessageQueue]],
        topics_of: Mapping[str, Collection[str]],
    ) -> list[MessageQueue]:
        """See `GroupWideStrategy.allocate_group`."""
        mine = _that_matter(topics_of.get(current_cid, ()), queues_of)
        if not mine:
            return []
        kinds = _kinds(queues_of, topics_of)
        known = {topic: list(queues) for topic, queues in queues_of.items()}
        if self._seen != (kinds, known):
            self._see(kinds, known)
        return self._equals[mine].share_of(current_cid)

    def _see(self, kinds: _Kinds, known: dict[str, list[MessageQueue]]) -> None:
        takers_of: dict[str, list[_Topics]] = {}
        for topics in kinds:
            for topic in topics:
                takers_of.setdefault(topic, []).append(topics)
        self._topics = {topic: _place(known[topic], self._topics.get(topic, _NO_QUEUES)) for topic in sorted(takers_of)}
        owners_of = self._share_among_kinds(kinds, takers_of)
        shares: dict[_Topics, tuple[list[MessageQueue], list[int]]] = {topics: ([], []) for topics in kinds}
        for topic, (_, queues, positions) in self._topics.items():
            if topic in owners_of:
                for queue, at, kind in zip(queues, positions.at, owners_of[topic], strict=True):
                    its_queues, its_places = shares[kind]
                    its_queues.append(queue)
                    its_places.append(at)
            else:
                its_queues, its_places = shares[takers_of[topic][0]]
                its_queues += queues
                its_places += positions.at
        self._equals = {topics: self._equals.get(topics) or _Equals() for topics in kinds}
        for topics, share in shares.items():
            self._equals[topics].see(*share, kinds[topics])
        self._seen = (kinds, known)

    def _share_among_kinds(self, kinds: _Kinds, takers_of: Mapping[str, Sequence[_Topics]]) -> dict[str, list[_Topics]]:
        """Say for each queue which kind has it, by topic; topics that one kind has alone are left out.

        First every queue goes where the ring leads it. That is even among the members of a topic, but not over all
        topics; so the numbers are levelled, and the queues dealt again, now with room for those numbers.
        """
        names = {topics: f"{number:06}" for number, topics in enumerate(kinds)}
        before, self._takers = self._takers, {}
        rings: dict[tuple[str, ...], tuple[_OnRing, Ring]] = {}
        nearest: dict[str, NextPoints] = {}
        quotas: dict[str, dict[str, int]] = {}
        for topic, (_, queues, positions) in self._topics.items():
            takers = tuple(names[topics] for topics in takers_of[topic])
            if len(takers) == 1:
                quotas[topic] = {takers[0]: len(queues)}
                continue
            if takers not in rings:
                kind_of = {cid: names[topics] for topics in takers_of[topic] for cid in kinds[topics]}
                on_ring = _on_ring(sorted(kind_of), before.get(topic, _NOBODY))
                points, owners = on_ring.ring
                rings[takers] = (on_ring, Ring(points, list(map(kind_of.__getitem__, owners))))
            self._takers[topic], of_kinds = rings[takers]
            nearest[topic] = next_points(positions, of_kinds)
            counts = Counter(nearest[topic].owners)
            quotas[topic] = {kind: counts[kind] for kind in takers}
        levelled = level(quotas, {names[topics]: len(members) for topics, members in kinds.items()})
        named = {name: topics for topics, name in names.items()}
        owners_of: dict[str, list[_Topics]] = {}
        for topic, found in nearest.items():
            _, of_kinds = rings[tuple(levelled[topic])]
            dealt = deal(self._topics[topic].positions, of_kinds, levelled[topic], nearest=found)
            owners_of[topic] = list(map(named.__getitem__, dealt))
        return owners_of


class _Equals:
    """Members with the same topics, and the queues that they share evenly."""

    def __init__(self) -> None:
        self._queues: list[MessageQueue] = []
        self._positions = _NO_QUEUES.positions
        self._members: list[str] = []
        self._on_ring = _NOBODY
        self._shares: dict[str, list[MessageQueue]] | None = {}

    def see(self, queues: list[MessageQueue], at: list[int], members: list[str]) -> None:
        """Take what is shared among whom; it is dealt when somebody asks.

        Args:
            queues: sorted.
            at: where they are on the ring, which depends on nothing but them.
            members: sorted.
        """
        if queues != self._queues:
            self._queues, self._positions, self._shares = queues, placed(at), None
        if members != self._members:
            self._members, self._shares = members, None

    def share_of(self, client_id: str) -> list[MessageQueue]:
        """The queues of one of the members."""
        if self._shares is None:
            self._on_ring = _on_ring(self._members, self._on_ring)
            shares: dict[str, list[MessageQueue]] = {member: [] for member in self._members}
            owners = deal_evenly(self._positions, self._on_ring.ring, self._members)
            for queue, owner in zip(self._queues, owners, strict=True):
                shares[owner].append(queue)
            self._shares = shares
        return self._shares[client_id].copy()


def _place(listed: list[MessageQueue], before: _Placed) -> _Placed:
    if listed == before.listed:
        return before
    queues = sorted(dict.fromkeys(listed))  # a set would lose the order that most callers keep already
    return _Placed(listed, queues, positions_of(queues))


def _on_ring(members: list[str], before: _OnRing) -> _OnRing:
    if members == before.members:
        return before
    gone, come = set(before.members).difference(members), set(members).difference(before.members)
    if len(gone) + len(come) <= _MAX_RING_CHANGES:
        return _OnRing(members, changed_ring(before.ring, sorted(gone), sorted(come)))
    return _OnRing(members, ring_of(members))


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
