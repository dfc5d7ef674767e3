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
to which kind. Kinds are few: one nearly always, two while a change of topics is rolled out.

Reading: Harvey, Ladner, Lovasz, Tamir, «Semi-matchings for bipartite graphs and load balancing» (2006), for chains.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Kind = str
"""Names a kind of member."""
Quotas = dict[str, dict[Kind, int]]
"""Topic -> how many of its queues go to each kind that subscribes to it."""


def level(quotas: Mapping[str, Mapping[Kind, int]], sizes: Mapping[Kind, int]) -> Quotas:
    """Even out a first sharing with as few changes as it takes.

    Args:
        quotas: the first sharing; every kind that subscribes to a topic is in it, with 0 if it has none.
        sizes: how many members each kind has, at least one.

    Returns:
        A sharing with the invariant of this module.
    """
    result: Quotas = {topic: dict(of_topic) for topic, of_topic in quotas.items()}
    loads = dict.fromkeys(sizes, 0)
    for of_topic in result.values():
        for kind, count in of_topic.items():
            loads[kind] += count
    while (chain := _improving_chain(result, loads, sizes)) is not None:
        giver, taker = chain[0][1], chain[-1][2]
        # As many at once as leave the giver's average no lower than the taker's; the first improves, none is for worse.
        even = (loads[giver] * sizes[taker] - loads[taker] * sizes[giver]) // (sizes[giver] + sizes[taker])
        count = max(1, min(even, *(result[topic][source] for topic, source, _ in chain)))
        for topic, source, target in chain:
            result[topic][source] -= count
            result[topic][target] += count
        loads[giver] -= count
        loads[taker] += count
    return result


_Step = tuple[str, Kind, Kind]
"""Of this topic, a queue goes from the first kind to the second."""


def _improving_chain(quotas: Quotas, loads: Mapping[Kind, int], sizes: Mapping[Kind, int]) -> Sequence[_Step] | None:
    """The chain from the fullest kind that can give to the emptiest that it reaches, or None if all is even."""
    most = {kind: -(-loads[kind] // sizes[kind]) for kind in sizes}
    least = {kind: loads[kind] // sizes[kind] for kind in sizes}
    for giver in sorted(sizes, key=lambda kind: (-most[kind], kind)):
        reached = _reached_from(giver, quotas)
        taker = min(reached, key=lambda kind: (least[kind], kind))
        if most[giver] - least[taker] >= 2:
            chain = []
            while taker != giver:
                step = reached[taker]
                assert step is not None, f"{taker} was reached from nowhere"
                chain.append(step)
                taker = step[1]
            return chain[::-1]
    return None


def _reached_from(giver: Kind, quotas: Quotas) -> dict[Kind, _Step | None]:
    """Every kind that a queue of the giver can end at, with the last step there on a shortest way."""
    reached: dict[Kind, _Step | None] = {giver: None}
    frontier = [giver]
    for source in frontier:  # grows while it is gone through
        for topic, of_topic in quotas.items():
            if of_topic.get(source):
                for target in of_topic:
                    if target not in reached:
                        reached[target] = (topic, source, target)
                        frontier.append(target)
    return reached
