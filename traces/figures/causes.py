"""One running rebalance: collects all events of its cause until no further ones can come. Pure.

It is *silent* once no event has named its cause for `SILENT_MS`, no queue that was dropped because of it waits for an
owner, and no ownership that it began is open, because the costs of an ownership are known only at its end.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from model.events import Event, EventKind
from traces.figures.changes import Change
from traces.figures.loads import Loads, needed_moves
from traces.figures.queue import Tenure
from traces.figures.records import Ownership, Rebalance, TopicLoads

SILENT_MS = 60_000.0
"""Three times the interval of the pass timer: the longest delay that a lost notification causes."""


@dataclass(slots=True)
class _Costs:
    """Sums over ownerships."""

    pause_ms: float = 0.0
    pause_max_ms: float = 0.0
    orphan_ms: float = 0.0
    double_ms: float = 0.0
    redelivered: int = 0
    duplicates: int = 0
    possible_duplicates: int = 0
    backlog: int = 0

    def add(self, tenure: Tenure | Ownership) -> None:
        self.pause_ms += tenure.pause_ms
        self.pause_max_ms = max(self.pause_max_ms, tenure.pause_ms)
        self.orphan_ms += tenure.orphan_ms
        self.double_ms += tenure.double_ms
        self.redelivered += tenure.redelivered
        self.duplicates += tenure.duplicates
        self.possible_duplicates += tenure.possible_duplicates
        self.backlog += tenure.backlog or 0


@dataclass(slots=True)
class _TopicMoves:
    """Moves of one topic: the queues that each member gained or lost, and its load at its last move."""

    net: dict[str, int] = field(default_factory=dict)
    after: dict[str, int] = field(default_factory=dict)
    t_ms: float = 0.0
    members: int = 0
    queues: int = 0
    jain: float = 1.0
    spread: int = 0


@dataclass(slots=True, eq=False)
class Running:
    """A rebalance; `last_ms` is the time of the last event about it."""

    change: Change
    began_ms: float
    last_ms: float
    members: int = -1
    triggers: dict[str, None] = field(default_factory=dict)
    begun: int = 0  # passes
    passes: int = 0  # ended passes
    changed: int = 0  # queues acquired or dropped
    moves: int = 0
    changed_ms: float | None = None
    passed_ms: float | None = None
    waiting: int = 0  # queues that it dropped and that have no owner
    tenures: dict[Tenure, None] = field(
        default_factory=dict
    )  # ownerships that it began, and that are not in the costs yet
    left: dict[str, None] = field(default_factory=dict)  # owners of its queues that were no longer members
    _costs: _Costs = field(default_factory=_Costs)
    _topics: dict[str, _TopicMoves] = field(default_factory=dict)

    def process(self, event: Event) -> None:
        """Process an event of its cause."""
        self.last_ms = event.t_ms
        match event.kind:
            case EventKind.REBALANCE_BEGIN:
                self.begun += 1
                self.triggers.update(dict.fromkeys(event.detail.partition(" ")[0].split("+")))
            case EventKind.REBALANCE_END:
                self.passes += 1
                self.passed_ms = event.t_ms
            case EventKind.QUEUE_ACQUIRED | EventKind.QUEUE_DROPPED:
                self.changed += 1
                self.changed_ms = event.t_ms

    def moved(self, tenure: Tenure, topic: str, loads: Loads, members: int) -> None:
        """Count a move; `loads` are the loads after it."""
        self.moves += 1
        moves = self._topics.setdefault(topic, _TopicMoves())
        for client, by in ((tenure.from_client, -1), (tenure.owner, 1)):
            if client is not None:
                moves.net[client] = moves.net.get(client, 0) + by
                moves.after[client] = loads.of.get(client, 0)
        moves.t_ms, moves.queues = tenure.from_ms, loads.queues
        moves.members = max(members, loads.holders)
        moves.jain, moves.spread = loads.jain(moves.members), loads.spread(moves.members)

    def close(self, tenure: Tenure, row: Ownership) -> None:
        """Add the costs of an ownership to which no further events belong."""
        self.tenures.pop(tenure, None)
        self._costs.add(row)

    @property
    def is_idle(self) -> bool:
        """Whether it is a pass by timer that changed nothing, or has neither a pass nor a changed queue."""
        periodic = self.change.kind in ("", EventKind.REBALANCE_BEGIN) and not self.changed
        return periodic or not (self.passes or self.changed)

    @property
    def needed(self) -> int:
        """See `Rebalance`."""
        return sum(self._needed(moves) for moves in self._topics.values())

    def _needed(self, moves: _TopicMoves) -> int:
        stayed = [client for client in moves.after if client not in self.left]
        # If another rebalance took a queue from the member in between, this one did not have to move it.
        old_loads = [max(0, moves.after[client] - moves.net[client]) for client in stayed]
        return needed_moves(old_loads, [moves.after[client] for client in stayed])

    def record(self, group: str) -> Rebalance:
        """Return the rebalance with all events up to now."""
        change, costs = self.change, _Costs()
        for name in _Costs.__slots__:
            setattr(costs, name, getattr(self._costs, name))
        for tenure in self.tenures:
            costs.add(tenure)
        ended_ms = next((ms for ms in (self.changed_ms, self.passed_ms) if ms is not None), self.began_ms)
        loads = tuple(
            TopicLoads(
                topic=topic,
                t_ms=moves.t_ms,
                members=moves.members,
                queues=moves.queues,
                needed=self._needed(moves),
                jain=moves.jain,
                spread=moves.spread,
            )
            for topic, moves in sorted(self._topics.items())
        )
        return Rebalance(
            group=group,
            cause=change.cause,
            kind=change.kind,
            detail=change.detail,
            client=change.client,
            broker=change.broker,
            trigger="+".join(sorted(self.triggers)),
            members=self.members,
            began_ms=self.began_ms,
            ended_ms=max(self.began_ms, ended_ms),
            passes=self.passes,
            moves=self.moves,
            needed=sum(each.needed for each in loads),
            pause_ms=costs.pause_ms,
            pause_max_ms=costs.pause_max_ms,
            orphan_ms=costs.orphan_ms,
            double_ms=costs.double_ms,
            redelivered=costs.redelivered,
            duplicates=costs.duplicates,
            possible_duplicates=costs.possible_duplicates,
            backlog=costs.backlog,
            loads=loads,
        )
