"""Loads of the members of a group, by topic, and the number of moves that a change of loads needs. Pure.

A member's load is the number of queues that it was the last to acquire, so a queue between two owners counts for the
old owner. Only moves change loads: the loads after a rebalance, less its own moves, are exactly the loads before it,
whatever other rebalances did at the same time.

    c1 has 3 queues, c2 and c3 have 2, and c4 joins
    sticky: one queue goes from c1 to c4                          3 2 2 0 -> 2 2 2 1   1 move, 1 needed
    in blocks: c4 takes 2, c1 and c3 give 1, two others swap      3 2 2 0 -> 2 2 2 1   4 moves, 1 needed

Only members that lost or gained queues in a rebalance are considered, and a member that has left keeps no queue.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable


class Loads:
    """The loads of one topic, by member, and as counts, from which the evenness is computed directly."""

    def __init__(self) -> None:
        self.of: dict[str, int] = {}  # client -> its number of queues, without clients that have no queue
        self.queues = 0  # queues of present members
        self._absent: dict[str, None] = {}
        self._members_with: Counter[int] = Counter()  # load -> number of present members with it
        self._squares = 0

    def move(self, source: str | None, target: str) -> None:
        """Move a queue from a member, or from no owner, to another member."""
        if source is not None:
            self.change(source, -1)
        self.change(target, 1)

    def change(self, client: str, by: int) -> None:
        """Change the load of a member."""
        old_load = self.of.get(client, 0)
        new_load = max(0, old_load + by)
        if client not in self._absent:
            self._count(old_load, -1)
            self._count(new_load, 1)
        if new_load:
            self.of[client] = new_load
        else:
            self.of.pop(client, None)
            self._absent.pop(client, None)

    def set_present(self, client: str, present: bool) -> None:
        """Set whether a client is a member: only then its queues count."""
        load = self.of.get(client, 0)
        if load and present == (client in self._absent):
            self._count(load, 1 if present else -1)
            if present:
                del self._absent[client]
            else:
                self._absent[client] = None

    def _count(self, load: int, by: int) -> None:
        if load:
            self._members_with[load] += by
            if not self._members_with[load]:
                del self._members_with[load]
            self.queues += by * load
            self._squares += by * load * load

    @property
    def holders(self) -> int:
        """The number of present members with a queue."""
        return self._members_with.total()

    def jain(self, members: int) -> float:
        """Return Jain's index of fairness: 1 if all `members` have the same load, 1/members if one has all queues."""
        return self.queues**2 / (members * self._squares) if self._squares and members else 1.0

    def spread(self, members: int) -> int:
        """Return the largest load less the smallest, among this number of members."""
        if not self._members_with:
            return 0
        return max(self._members_with) - (min(self._members_with) if members <= self.holders else 0)


def needed_moves(old_loads: Iterable[int], new_loads: Iterable[int]) -> int:
    """Return the fewest moves from old to new loads, for any owners; `old_loads` is without the members that left.

    A queue that had no owner before is a move, too. The larger loads stay with the members that had larger loads: no
    other pairing keeps more queues.
    """
    sorted_new = sorted(new_loads, reverse=True)
    kept = sum(map(min, sorted(old_loads, reverse=True), sorted_new))
    return sum(sorted_new) - kept
