"""Random histories of a group, and the evenness and the moves of a strategy in them.

A history begins with a number of members; then members join and leave at random, and their number stays within a
quarter of the initial one. A history depends only on its seed, so every strategy gets the same histories, wherever and
in whatever order they are computed.
"""

from __future__ import annotations

import random
from bisect import insort
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from pipeline.strategies.allocate_all import AllocateAll, QueueSet


class MembershipEvent(NamedTuple):
    """The effect of one join or leave under one strategy.

    Attributes:
        least: minimum number of queues that have to move if loads differ by at most one before and after: the load of
            the member that joined or left.
    """

    event: int  # number of the event, from 1
    members: int  # number of members after the event
    moved: int  # queues whose owner changed
    least: int
    spread: int  # the largest load minus the smallest
    jain: float  # Jain's index of the loads: 1.0 if all are equal, 1/members if one has all


def memberships(members: int, events: int, seed: int) -> Iterator[list[str]]:
    """Yield the sorted members at the beginning and after each of `events` joins and leaves."""
    rng = random.Random(seed)
    present: list[str] = []
    for number in range(members):
        insort(present, _client_id(rng, number))
    fewest, max_members = members * 3 // 4, members * 5 // 4 + 1
    yield present.copy()
    for event in range(events):
        if len(present) >= max_members or (len(present) > max(fewest, 1) and rng.random() < 0.5):
            del present[rng.randrange(len(present))]
        else:
            insort(present, _client_id(rng, members + event))
        yield present.copy()


def _client_id(rng: random.Random, number: int) -> str:
    # Like real client ids: an address, a process id, and a number that makes it unique.
    host = f"10.{rng.randrange(256)}.{rng.randrange(256)}.{rng.randrange(256)}"
    return f"{host}@{rng.randrange(2, 32768)}#{number:x}"


def live_through(strategy: str, queues: QueueSet, members: int, events: int, seed: int) -> Iterator[MembershipEvent]:
    """Assign queues to the members of a history by the strategy of this name, and compare each step with the last."""
    allocate_all = AllocateAll(queues)
    number_of: dict[str, int] = {}
    old_owners, members_before = None, 0
    for event, present in enumerate(memberships(members, events, seed)):
        # Owners are indexes of the list of members, which changes with every event.
        numbers = np.array([number_of.setdefault(cid, len(number_of)) for cid in present], dtype=np.int64)
        owners = allocate_all.owners(strategy, present)
        loads = np.bincount(owners, minlength=len(present))
        new_owners = numbers[owners]
        if old_owners is not None:
            yield MembershipEvent(
                event=event,
                members=len(present),
                moved=int((new_owners != old_owners).sum()),
                least=len(queues) // max(len(present), members_before),
                spread=int(loads.max() - loads.min()),
                jain=float(loads.sum()) ** 2 / (len(present) * float((loads.astype(np.float64) ** 2).sum())),
            )
        old_owners, members_before = new_owners, len(present)
