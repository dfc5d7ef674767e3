"""Targets of the members under a strategy, computed once per member list and route of all replays. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from client.allocate.registry import strategy_named
from client.rebalance.plan import allocate_target
from model.heartbeat import GroupView, MessageModel
from model.message_queue import MessageQueue
from pipeline.replay.routes import Queues
from pipeline.strategies.allocate_all import AllocateAll, QueueSet

Members = Mapping[str, tuple[str, ...]]
"""Client -> its subscribed topics, sorted by client."""
RouteId = tuple[tuple[str, Queues], ...]
"""Topics with their queues, sorted."""
_BY_ARRAYS = "CONSISTENT_HASH"
"""The strategy that is computed for all members at once, because each call builds the whole ring, which costs a
thousand times as much as a lookup of a queue in it.
"""


class MemberTargets:
    """Computes and caches the targets of members under the strategy of this name."""

    def __init__(self, group: str, strategy: str) -> None:
        self._group = group
        self._strategy = strategy_named(strategy)
        self._known: dict[tuple[int, RouteId, RouteId], dict[str, frozenset[MessageQueue]]] = {}
        self._arrays: dict[Queues, AllocateAll] = {}
        self._numbers: dict[tuple[tuple[str, tuple[str, ...]], ...], int] = {}

    def number_of(self, members: Members) -> int:
        """Return the number that `target` knows this member list by: equal lists have one, also in other replays."""
        return self._numbers.setdefault(tuple(members.items()), len(self._numbers))

    def target(
        self, client: str, view: int, members: Members, route: RouteId, others: Mapping[str, Queues]
    ) -> frozenset[MessageQueue]:
        """Return the target of a member.

        `view` is `number_of` this member list; `route` has the topics of the member, as it knows them, and `others` the
        topics that only other members subscribe to.
        """
        targets = self._known.setdefault((view, route, tuple(others.items())), {})
        if client not in targets:
            queues_of = {**others, **dict(route)}
            if self._strategy.name == _BY_ARRAYS and all(_rectangle(queues) for _, queues in route):
                targets.update(self._by_arrays(members, queues_of))
            if client not in targets:
                targets[client] = frozenset(
                    allocate_target(
                        self._strategy,
                        self._group,
                        client,
                        MessageModel.CLUSTERING,
                        members[client],
                        queues_of,
                        GroupView(group=self._group, version=view, members=dict(members)),
                    )
                )
        return targets[client]

    def _by_arrays(self, members: Members, queues_of: Mapping[str, Queues]) -> dict[str, frozenset[MessageQueue]]:
        targets: dict[str, list[MessageQueue]] = {client: [] for client in members}
        for topic in sorted({topic for topics in members.values() for topic in topics}):
            queues = queues_of.get(topic, ())
            readers = [client for client, topics in members.items() if topic in topics]
            queue_set = _rectangle(queues)
            if not queues or queue_set is None:
                continue
            arrays = self._arrays.setdefault(queues, AllocateAll(queue_set))
            for queue, owner in zip(queues, arrays.owners(_BY_ARRAYS, readers).tolist(), strict=True):
                targets[readers[owner]].append(queue)
        return {client: frozenset(target) for client, target in targets.items()}


def _rectangle(queues: Sequence[MessageQueue]) -> QueueSet | None:
    """Return the queues as a `QueueSet` if every broker has the same number, else None."""
    brokers = tuple(sorted({queue.broker_name for queue in queues}))
    topic = queues[0].topic if queues else ""
    per_broker = len(queues) // len(brokers) if brokers else 0
    whole = [MessageQueue(topic, broker, n) for broker in brokers for n in range(per_broker)]
    return QueueSet(topic, brokers, per_broker) if whole == list(queues) else None
