"""How many queues each kind of member gets when members of a group subscribe to different topics.

Invariant: loads are as even as the subscriptions allow, which means: nobody could give a queue away, directly or along
a chain of members who each take one and give one, so that it ends with a member who has at least two fewer. Then the
largest load is as small as it can be, so is the second largest after it, and so on; those loads are the same for every
such sharing.

    orders has 6 queues, bills has 2; members A, B subscribe to both, C to orders only, D to bills only
    all of it evenly        A 2, B 2, C 2, D 2       possible: D has both queues of bills, the others share orders
    without D               A 3, B 3, C 2            as 8 among 3 must be
    orders has 1, bills 7   A 4, B 3, C 1            more cannot be had for C

Members with the same topics are of one kind and share evenly; so the question is only how many queues of which topic go
to which kind. Kinds are few, two while a change of topics is rolled out; at worst each member is a kind of its own.

How: kinds are levelled at their average, rounded up. Who has more gives, along a shortest chain, to who has less. If
some still have too much then, they and all whom their queues can reach are above the average, the others below it, and
no gift between the two makes anything more even: each part is levelled by itself. If nobody has too much, the same is
done from the other end: who has less than the average rounded down takes, and if some still lack, they and all whose
queues can reach them are a part. Each split leaves smaller parts, so there are fewer than twice as many as kinds.
Before all that, kinds give as far as they have more than their part of the total: within what is even, this leaves no
kind with the more and another with the fewer, so that less is changed when one member more or fewer shifts the average.

Reading: Harvey, Ladner, Lovasz, Tamir, «Semi-matchings for bipartite graphs and load balancing» (2006), for chains;
Fujishige, «Lexicographically optimal base of a polymatroid with respect to a weight vector» (1980), for the parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Kind = str
"""Names a kind of member."""
Quotas = dict[str, dict[Kind, int]]
"""Topic -> how many of its queues go to each kind that subscribes to it."""


def level(quotas: Mapping[str, Mapping[Kind, int]], sizes: Mapping[Kind, int]) -> Quotas:
    """Even out a first sharing with few changes.

    Args:
        quotas: the first sharing; every kind that subscribes to a topic is in it, with 0 if it has none.
        sizes: how many members each kind has, at least one.

    Returns:
        A sharing with the invariant of this module.
    """
    levelling = _Levelling(quotas, sizes)
    parts: list[Sequence[Kind]] = [list(sizes)]
    while parts:
        part = parts.pop()
        if apart := levelling.level(part):
            parts += [list(apart), [kind for kind in part if kind not in apart]]
    return levelling.quotas


_Step = tuple[str, Kind, Kind]
"""Of this topic, a queue goes from the first kind to the second."""


class _Levelling:
    """A sharing while it is changed: how much each kind has is kept up to date, not counted again."""

    def __init__(self, quotas: Mapping[str, Mapping[Kind, int]], sizes: Mapping[Kind, int]) -> None:
        self.quotas: Quotas = {topic: dict(of_topic) for topic, of_topic in quotas.items()}
        self._sizes = sizes
        self._loads = dict.fromkeys(sizes, 0)
        self._topics_of: dict[Kind, list[str]] = {kind: [] for kind in sizes}
        for topic, of_topic in self.quotas.items():
            for kind, count in of_topic.items():
                self._loads[kind] += count
                self._topics_of[kind].append(topic)

    def level(self, part: Sequence[Kind]) -> Mapping[Kind, None]:
        """Level some kinds at their average.

        Returns:
            Those to be levelled without the others, as the module header says; none if all are even.
        """
        if len(part) < 2:
            return {}
        total, members = sum(map(self._loads.__getitem__, part)), sum(map(self._sizes.__getitem__, part))
        self._move({kind: (total * self._sizes[kind] + members // 2) // members for kind in part}, giving=True)
        ceiling = -(-total // members)
        return self._move({kind: ceiling * self._sizes[kind] for kind in part}, giving=True) or self._move(
            {kind: (ceiling - 1) * self._sizes[kind] for kind in part}, giving=False
        )

    def _move(self, goals: Mapping[Kind, int], *, giving: bool) -> Mapping[Kind, None]:
        """Bring those with more than their goal down to it, or those with less up to it; as far as it goes.

        Returns:
            Those that are not there, and all that a chain can lead to from them; or from which one can lead to them.
        """
        sign = 1 if giving else -1
        ahead = {kind: sign * (self._loads[kind] - goal) for kind, goal in goals.items()}
        closed: dict[Kind, None] = {}
        for start in goals:
            while ahead[start] > 0 and (chain := self._chain(start, ahead, closed, giving)):
                end = chain[-1][2] if giving else chain[-1][1]
                count = min(ahead[start], -ahead[end], *(self.quotas[topic][giver] for topic, giver, _ in chain))
                for topic, giver, taker in chain:
                    self.quotas[topic][giver] -= count
                    self.quotas[topic][taker] += count
                for kind, change in ((start, -count), (end, count)):
                    ahead[kind] += change
                    self._loads[kind] += sign * change
        return closed

    def _chain(
        self, start: Kind, ahead: Mapping[Kind, int], closed: dict[Kind, None], giving: bool
    ) -> list[_Step] | None:
        """A shortest chain from a kind to one that is behind, or to it from one when it takes; the start comes first.

        If there is none, all that were reached are closed: whatever else is moved, no way leads out of there. So each
        failing search is the only one in its part of the group.
        """
        if start in closed:
            return None
        reached: dict[Kind, _Step | None] = {start: None}
        tried = set()
        for kind in (frontier := [start]):  # grows while it is gone through
            for topic in self._topics_of[kind]:
                of_topic = self.quotas[topic]
                if topic in tried or (giving and not of_topic[kind]):
                    continue
                tried.add(topic)
                for other, count in of_topic.items():
                    if other in reached or other not in ahead or other in closed or not (giving or count):
                        continue
                    reached[other] = (topic, kind, other) if giving else (topic, other, kind)
                    if ahead[other] < 0:
                        return _way_to(other, reached)
                    frontier.append(other)
        closed.update(dict.fromkeys(reached))
        return None


def _way_to(end: Kind, reached: Mapping[Kind, _Step | None]) -> list[_Step]:
    chain: list[_Step] = []
    while (step := reached[end]) is not None:
        chain.append(step)
        _, giver, taker = step
        end = giver if taker == end else taker
    return chain[::-1]
