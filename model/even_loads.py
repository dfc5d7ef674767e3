"""Levels the number of queues per member when members of a group subscribe to different topics.

Invariant: loads are as even as the subscriptions allow. That is: no member could pass a queue on, directly or along a
chain of members that each take one and give one, to a member with at least two fewer. Then the largest load is minimal,
so is the second largest after it, and so on; every assignment with this property has the same loads.

    orders has 6 queues, bills has 2; members A, B subscribe to both, C to orders only, D to bills only
    all members             A 2, B 2, C 2, D 2       even: D has both queues of bills, the others have orders
    without D               A 3, B 3, C 2            8 queues for 3 members
    orders has 1, bills 7   A 4, B 3, C 1            C cannot get more

Members with the same topics are of one kind and get even numbers; so only the number of queues of each topic for each
kind has to be found. Kinds are few, two while a change of topics is rolled out; at worst each member is its own kind.

Algorithm: kinds are levelled at their average, rounded up. A kind above it gives queues, along a shortest chain, to a
kind below it. If some kinds are still above it after that, they and all kinds that their queues can reach are above the
average and the others are below it, and no move between the two makes the loads more even: each part is levelled alone.
If no kind is above it, the algorithm does the same from the other end: a kind below the average, rounded down, takes
queues, and if some are still below it, they and all kinds whose queues can reach them are a part. Each split leaves
smaller parts, so there are fewer than twice as many parts as kinds. Before all that, kinds give queues while they have
more than their part of the total. Among the even assignments this selects one in which no kind has the highest and
another the lowest load, so fewer queues move when one member more or fewer shifts the average.

Reading: Harvey, Ladner, Lovasz, Tamir, "Semi-matchings for bipartite graphs and load balancing" (2006), for chains;
Fujishige, "Lexicographically optimal base of a polymatroid with respect to a weight vector" (1980), for the parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Kind = str
"""Names a kind of member."""
Quotas = dict[str, dict[Kind, int]]
"""Topic -> how many of its queues go to each kind that subscribes to it."""


def level(quotas: Mapping[str, Mapping[Kind, int]], sizes: Mapping[Kind, int]) -> Quotas:
    """Change given quotas as little as possible, until they have the invariant of this module.

    Every kind that subscribes to a topic is in the given quotas, with 0 if it has no queue. `sizes` has the number of
    members of each kind, at least one.
    """
    levelling = _Levelling(quotas, sizes)
    parts: list[Sequence[Kind]] = [list(sizes)]
    while parts:
        part = parts.pop()
        if apart := levelling.level(part):
            parts += [list(apart), [kind for kind in part if kind not in apart]]
    return levelling.quotas


_Step = tuple[str, Kind, Kind]
"""(topic, giver, taker): a queue of the topic moves from one kind to another."""


class _Levelling:
    """Quotas while they change; the load of each kind is kept up to date instead of counted again."""

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
        """Level some kinds at their average; return the part that has to be levelled alone; empty if all are even."""
        if len(part) < 2:
            return {}
        total, members = sum(map(self._loads.__getitem__, part)), sum(map(self._sizes.__getitem__, part))
        self._move({kind: (total * self._sizes[kind] + members // 2) // members for kind in part}, giving=True)
        ceiling = -(-total // members)
        return self._move({kind: ceiling * self._sizes[kind] for kind in part}, giving=True) or self._move(
            {kind: (ceiling - 1) * self._sizes[kind] for kind in part}, giving=False
        )

    def _move(self, goals: Mapping[Kind, int], *, giving: bool) -> Mapping[Kind, None]:
        """Bring kinds above their goal down to it, or kinds below it up to it, where a chain exists.

        Returns the kinds that do not reach their goal, with all that a chain leads to from them (or from which one
        leads to them).
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
        """Find a shortest chain from a kind to one below its goal, or, if it takes, from one above; its start is first.

        Without such a chain, all kinds that were reached are closed: no other move opens a chain out of them.
        So each failing search is the only one in its part of the group.
        """
        if start in closed:
            return None
        reached: dict[Kind, _Step | None] = {start: None}
        tried = set()
        for kind in (frontier := [start]):  # grows while it is iterated
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
