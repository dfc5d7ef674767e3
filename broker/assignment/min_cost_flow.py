"""The cheapest way to send surplus through a network to where it is missing. Pure.

Arcs have a capacity and a cost for each unit; a flow that is there already may be sent back, which costs the opposite.
The caller begins with a flow that is cheapest for the part that it balances so far (no cycle would save anything);
every round sends along the shortest paths only, which keeps it cheapest: at the end it is cheapest for the whole.

Reading: Ahuja, Magnanti, Orlin, "Network Flows" (1993), chapter 9: successive shortest paths, primal-dual.
"""

from __future__ import annotations

from collections import deque

_FAR = 1 << 60


class MinCostFlow:
    """A network of nodes that are numbered from 0."""

    def __init__(self, nodes: int) -> None:
        self._arcs_of: list[list[int]] = [[] for _ in range(nodes)]
        # Arc 2n and its reverse 2n + 1.
        self._target: list[int] = []
        self._room: list[int] = []
        self._cost: list[int] = []

    def add_arc(self, source: int, target: int, capacity: int, cost: int = 0, flow: int = 0) -> int:
        """Add an arc, which may carry a flow already; the cost is that of each unit. Returns its number, for `flow`."""
        number = len(self._target)
        self._arcs_of[source].append(number)
        self._arcs_of[target].append(number + 1)
        self._target += (target, source)
        self._room += (capacity - flow, flow)
        self._cost += (cost, -cost)
        return number

    def flow(self, arc: int) -> int:
        """Units that an arc carries now."""
        return self._room[arc + 1]

    def settle(self, surplus: list[int]) -> None:
        """Send what nodes have too much to those that have too little, at the least cost.

        `surplus` is by node, negative where units are missing; its sum is 0, and afterwards all of it is 0.
        """
        while any(surplus):
            distance = self._distances(surplus)
            next_arc = [0] * len(surplus)
            sent = 0
            for source in [node for node, units in enumerate(surplus) if units > 0]:
                while surplus[source] > 0 and (path := self._path(source, surplus, distance, next_arc)):
                    sent += self._send(source, path, surplus)
            assert sent, "no path leads to a node with a deficit"

    def _distances(self, surplus: list[int]) -> list[int]:
        """Cost of the cheapest way to each node from whichever node has too much."""
        distance = [0 if units > 0 else _FAR for units in surplus]
        waiting = deque(node for node, units in enumerate(surplus) if units > 0)
        queued = [units > 0 for units in surplus]
        target, room, cost = self._target, self._room, self._cost
        while waiting:
            node = waiting.popleft()
            queued[node] = False
            here = distance[node]
            for arc in self._arcs_of[node]:
                if room[arc] and here + cost[arc] < distance[target[arc]]:
                    there = target[arc]
                    distance[there] = here + cost[arc]
                    if not queued[there]:
                        queued[there] = True
                        waiting.append(there)
        return distance

    def _path(self, source: int, surplus: list[int], distance: list[int], next_arc: list[int]) -> list[int]:
        """Arcs of a shortest way from the source to a node that misses something; empty if none is left.

        Nodes that lead nowhere are not tried again: `next_arc` has come to their end. A node that was left only because
        it led back into this very path may be missed; then the next round finds it, at the same distance.
        """
        target, room, cost = self._target, self._room, self._cost
        path: list[int] = []
        on_path = {source}
        node = source
        while surplus[node] >= 0:
            arcs = self._arcs_of[node]
            at = next_arc[node]
            while at < len(arcs):
                arc = arcs[at]
                there = target[arc]
                if room[arc] and distance[there] == distance[node] + cost[arc] and there not in on_path:
                    break
                at += 1
            next_arc[node] = at
            if at < len(arcs):
                path.append(arcs[at])
                node = target[arcs[at]]
                on_path.add(node)
            elif path:
                on_path.discard(node)
                node = target[path.pop() ^ 1]
                next_arc[node] += 1
            else:
                return []
        return path

    def _send(self, source: int, path: list[int], surplus: list[int]) -> int:
        room, end = self._room, self._target[path[-1]]
        units = min(surplus[source], -surplus[end], *(room[arc] for arc in path))
        for arc in path:
            room[arc] -= units
            room[arc ^ 1] += units
        surplus[source] -= units
        surplus[end] += units
        return units
