"""BALANCED_STICKY: all topics of a group shared together, evenly, and little of it moved when members come and go.

Invariant: loads of members with the same topics differ by at most one in total; with different topics, they are as even
as the subscriptions allow (`model/even_loads.py`). The result depends on which queues and members there
are: not on their order, not on who had what before. So every member computes the same, however long it has been there.

    three topics with one queue each, members A B C      AVG: A has all three      BALANCED_STICKY: one each

RocketMQ has none like it: there a strategy sees one topic at a time (#1945), and sticky assignment was tried on the
broker, where what was before is known (#2149, #2169). `docs/strategies.md` has what was tried, and figures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from client.allocate.hash_ring import Positions, Ring, changed_ring, deal, deal_evenly, positions_of, ring_of
from client.allocate.strategy import position_of
from model.even_loads import level
from model.message_queue import MessageQueue

_MAX_RING_CHANGES = 32
"""With more members changed than this, a new ring takes less time than changing the old one."""
_Topics = tuple[str, ...]


class AllocateMessageQueueBalancedSticky:
    """Evenly over all topics together, with few moves when members come and go.

    An instance remembers the last queues and members it saw, which saves time and changes no result.
    """

    name = "BALANCED_STICKY"

    def __init__(self) -> None:
        self._queues: tuple[list[MessageQueue], list[MessageQueue], Positions] = ([], [], Positions([], []))
        self._members: tuple[list[str], Ring] = ([], Ring([], []))
        self._owners: list[str] | None = None
        self._kinds: tuple[
            dict[_Topics, list[str]], dict[str, list[MessageQueue]], dict[_Topics, list[MessageQueue]]
        ] = ({}, {}, {})

    def allocate(
        self, consumer_group: str, current_cid: str, mq_all: Sequence[MessageQueue], cid_all: Sequence[str]
    ) -> list[MessageQueue]:
        """See `AllocateMessageQueueStrategy.allocate`; queues may be of any topics, and order does not matter."""
        if position_of(consumer_group, current_cid, mq_all, cid_all) is None:
            return []
        self._see_queues(list(mq_all))
        self._see_members(sorted(dict.fromkeys(cid_all)))
        _, queues, positions = self._queues
        members, ring = self._members
        if self._owners is None:
            self._owners = deal_evenly(positions, ring, members)
        return [queue for queue, owner in zip(queues, self._owners, strict=True) if owner == current_cid]

    def allocate_group(
        self,
        consumer_group: str,
        current_cid: str,
        queues_of: Mapping[str, Sequence[MessageQueue]],
        topics_of: Mapping[str, Collection[str]],
    ) -> list[MessageQueue]:
        """See `GroupWideStrategy.allocate_group`."""
        kinds = _kinds(queues_of, topics_of)
        if not current_cid or not any(current_cid in members for members in kinds.values()):
            return []
        if len(kinds) == 1:
            ((topics, members),) = kinds.items()
            return self.allocate(consumer_group, current_cid, _queues(topics, queues_of), members)
        known = {topic: list(queues) for topic, queues in queues_of.items()}
        if self._kinds[:2] != (kinds, known):
            self._kinds = (kinds, known, _share_among_kinds(kinds, known))
        of_kind = self._kinds[2]
        mine = next(topics for topics, members in kinds.items() if current_cid in members)
        queues = of_kind[mine]
        return self.allocate(consumer_group, current_cid, queues, kinds[mine]) if queues else []

    def _see_queues(self, seen: list[MessageQueue]) -> None:
        if seen != self._queues[0]:
            queues = sorted(dict.fromkeys(seen))  # a set would lose the order that most callers keep already
            self._queues = (seen, queues, positions_of(queues))
            self._owners = None

    def _see_members(self, members: list[str]) -> None:
        before, ring = self._members
        if members == before:
            return
        gone, come = set(before).difference(members), set(members).difference(before)
        if len(gone) + len(come) <= _MAX_RING_CHANGES:
            self._members = (members, changed_ring(ring, sorted(gone), sorted(come)))
        else:
            self._members = (members, ring_of(members))
        self._owners = None


def _kinds(
    queues_of: Mapping[str, Sequence[MessageQueue]], topics_of: Mapping[str, Collection[str]]
) -> dict[_Topics, list[str]]:
    """Members by the topics that matter to them, those with queues; members without any are left out."""
    as_listed: dict[_Topics, list[str]] = {}
    for client_id, topics in topics_of.items():
        as_listed.setdefault(tuple(topics), []).append(client_id)
    kinds: dict[_Topics, list[str]] = {}
    for topics, members in as_listed.items():
        kinds.setdefault(tuple(sorted({topic for topic in topics if queues_of.get(topic)})), []).extend(members)
    kinds.pop((), None)
    return {topics: sorted(members) for topics, members in sorted(kinds.items())}


def _queues(topics: Iterable[str], queues_of: Mapping[str, Sequence[MessageQueue]]) -> list[MessageQueue]:
    # In order already if each topic is; sorting is quick then, and a set would shuffle them first.
    return sorted(dict.fromkeys(queue for topic in topics for queue in queues_of[topic]))


def _share_among_kinds(
    kinds: Mapping[_Topics, Sequence[str]], queues_of: Mapping[str, Sequence[MessageQueue]]
) -> dict[_Topics, list[MessageQueue]]:
    """Give each kind its queues.

    First every queue goes where the ring leads it. That is even among the members of a topic, but not over all topics;
    so the numbers are levelled, and the queues dealt again, now with room for those numbers.
    """
    names = {topics: f"{number:06}" for number, topics in enumerate(kinds)}
    rings: dict[tuple[str, ...], Ring] = {}
    places: dict[str, tuple[list[MessageQueue], Positions, Ring]] = {}
    quotas: dict[str, dict[str, int]] = {}
    for topic in sorted({topic for topics in kinds for topic in topics}):
        queues = _queues([topic], queues_of)
        takers = tuple(names[topics] for topics in kinds if topic in topics)
        if takers not in rings:
            rings[takers] = _ring_of_kinds({names[topics]: kinds[topics] for topics in kinds if topic in topics})
        places[topic] = (queues, positions_of(queues), rings[takers])
        unlimited = Counter(deal(places[topic][1], rings[takers], dict.fromkeys(takers, len(queues))))
        quotas[topic] = {kind: unlimited[kind] for kind in takers}
    levelled = level(quotas, {names[topics]: len(members) for topics, members in kinds.items()})
    shares: dict[str, list[MessageQueue]] = {kind: [] for kind in names.values()}
    for topic, (queues, positions, ring) in places.items():
        for queue, kind in zip(queues, deal(positions, ring, levelled[topic]), strict=True):
            shares[kind].append(queue)
    return {topics: shares[name] for topics, name in names.items()}


def _ring_of_kinds(members_of: Mapping[str, Sequence[str]]) -> Ring:
    """The ring of these kinds' members, each point marked with the kind."""
    kind_of = {client_id: kind for kind, members in members_of.items() for client_id in members}
    ring = ring_of(sorted(kind_of))
    return Ring(ring.points, [kind_of[owner] for owner in ring.owners])
