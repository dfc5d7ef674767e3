"""Minimum-cost flow: sends the surplus of some nodes of a network to nodes with a deficit, at the lowest cost. Pure.

Each arc has a capacity, and a cost per unit. Existing flow may be sent back, at the negative cost. The caller begins
with a flow that has the lowest cost for the nodes that it balances (the residual network has no negative cycle). Every
round sends along shortest paths only. That keeps the cost the lowest, so at the end it is the lowest for all nodes.

Reading: Ahuja, Magnanti, Orlin, "Network Flows" (1993), chapter 9: successive shortest paths, primal-dual.
"""

from __future__ import annotations

from collections import deque

_INFINITE = 1 << 60


class MinCostFlow:
    """A network of nodes that are numbered from 0."""

    def __init__(self, nodes: int) -> None:
        self._arcs_of: list[list[int]] = [[] for _ in range(nodes)]
        # By arc: arc 2n, and its reverse 2n + 1, whose residual capacity is the flow of arc 2n.
        self._target: list[int] = []
        self._residual: list[int] = []  # capacity that is left
        self._cost: list[int] = []

    def add_arc(self, source: int, target: int, capacity: int, cost: int = 0, flow: int = 0) -> int:
        """Add an arc, which may already have a flow; the cost is per unit. Returns its number, for `flow`."""
        number = len(self._target)
        self._arcs_of[source].append(number)
        self._arcs_of[target].append(number + 1)
        self._target += (target, source)
        self._residual += (capacity - flow, flow)
        self._cost += (cost, -cost)
        return number

    def flow(self, arc: int) -> int:
        """The flow of an arc, in units."""
        return self._residual[arc + 1]

    def settle(self, surplus: list[int]) -> None:
        """Send the surplus of nodes to nodes with a deficit, at the lowest cost.

        `surplus` has a number for each node, negative for a deficit. Their sum is 0; afterwards each of them is 0.
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
        """The cost of a shortest path to each node from any node with a surplus. Bellman-Ford with a queue of nodes."""
        distance = [0 if units > 0 else _INFINITE for units in surplus]
        waiting = deque(node for node, units in enumerate(surplus) if units > 0)
        queued = [units > 0 for units in surplus]
        target, residual, cost = self._target, self._residual, self._cost
        while waiting:
            node = waiting.popleft()
            queued[node] = False
            node_distance = distance[node]
            for arc in self._arcs_of[node]:
                if residual[arc] and node_distance + cost[arc] < distance[target[arc]]:
                    next_node = target[arc]
                    distance[next_node] = node_distance + cost[arc]
                    if not queued[next_node]:
                        queued[next_node] = True
                        waiting.append(next_node)
        return distance

    def _path(self, source: int, surplus: list[int], distance: list[int], next_arc: list[int]) -> list[int]:
        """The arcs of a shortest path from the source to a node with a deficit; empty if no such path is found.

        A dead end is not visited again: its `next_arc` is at the end of its arcs. The search may also treat a node as a
        dead end because its only arc leads back to the current path. Then it misses a path; the next round finds that
        path, at the same distance.
        """
        target, residual, cost = self._target, self._residual, self._cost
        path: list[int] = []
        on_path = {source}
        node = source
        while surplus[node] >= 0:
            arcs = self._arcs_of[node]
            i = next_arc[node]
            while i < len(arcs):
                arc = arcs[i]
                next_node = target[arc]
                if residual[arc] and distance[next_node] == distance[node] + cost[arc] and next_node not in on_path:
                    break
                i += 1
            next_arc[node] = i
            if i < len(arcs):
                path.append(arcs[i])
                node = target[arcs[i]]
                on_path.add(node)
            elif path:
                on_path.discard(node)
                node = target[path.pop() ^ 1]
                next_arc[node] += 1
            else:
                return []
        return path

    def _send(self, source: int, path: list[int], surplus: list[int]) -> int:
        residual, end = self._residual, self._target[path[-1]]
        units = min(surplus[source], -surplus[end], *(residual[arc] for arc in path))
        for arc in path:
            residual[arc] -= units
            residual[arc ^ 1] += units
        surplus[source] -= units
        surplus[end] += units
        return units
