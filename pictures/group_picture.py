"""The document of one group: who owned which queue when, its members, and its rebalances. Pure.

    picture = GroupPicture("billing", base_ms)
    for event in in_order(events):
        picture.feed(event)
    picture.document()        # everything that is kept
    picture.news()            # what has come since the last call, in the same form

Names are told once, in `queues` and `clients`, and are places in these lists from then on. `changes` is flat: four
numbers for each change of hands, [time, queue, owner, owners]; the owner is that of now, -1 for none, and with two
owners at once it is the one that acquired the queue last. Times are milliseconds since `base_ms`.

    queues ["t@b:0"], clients ["c1", "c2"], changes [100, 0, 0, 1,  150, 0, -1, 0,  160, 0, 1, 1]
        c1 owns the queue from 100 to 150, nobody to 160, c2 from then on
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import Any

from model.events import Event
from model.limits import MAX_PICTURE_CHANGES, MAX_PICTURE_MOVES, MAX_PICTURE_NAMES, MAX_PICTURE_REBALANCES
from model.message_queue import MessageQueue
from model.names import is_retry_topic
from traces.figures.changes import Changes
from traces.figures.group import GroupFigures
from traces.figures.records import Rebalance
from traces.figures.uses import KINDS, OWNER_KINDS
from traces.why.moves import MOVE_KINDS, MoveTracker, QueueMove
from traces.why.words import because

NONE = -1
PICTURE_KINDS = KINDS | MOVE_KINDS
"""Kinds of events that a picture is drawn from."""


class Names:
    """Names in the order in which they were first told of; a place in it never changes.

    Beyond `MAX_PICTURE_NAMES`, new names share the last place.
    """

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._told = 0

    def place(self, name: str) -> int:
        """The place of a name, a new one if it is new."""
        found = self._places.get(name)
        if found is None:
            if len(self._places) >= MAX_PICTURE_NAMES:
                return MAX_PICTURE_NAMES - 1
            found = self._places[name] = len(self._places)
        return found

    def all(self) -> list[str]:
        """All of them."""
        return list(self._places)

    def untold(self) -> list[str]:
        """Those since the last call."""
        names = list(islice(self._places, self._told, None))
        self._told = len(self._places)
        return names


class GroupPicture:
    """One group; see the module header. Groups of one trace may share the `changes` of the world."""

    def __init__(self, group: str, base_ms: float, changes: Changes | None = None) -> None:
        shared = Changes() if changes is None else changes
        self.group = group
        self.base_ms = base_ms
        self.figures = GroupFigures(group, shared)
        self.queues = Names()
        self.clients = Names()
        self._moves = MoveTracker(group, shared)
        self._told_moves: deque[QueueMove] = deque(maxlen=MAX_PICTURE_MOVES)
        self._owners: dict[MessageQueue, tuple[str, ...]] = {}
        self._changes: deque[tuple[float, int, int, int]] = deque()
        self._before: dict[int, int] = {}  # queue -> its owner before the first change that is kept
        self._members: deque[tuple[float, int]] = deque(maxlen=MAX_PICTURE_REBALANCES)
        self._rebalances: dict[str, dict[str, Any]] = {}
        self._untold_changes = self._untold_members = 0  # of the newest, how many `news` has not told
        self._new_rebalances: dict[str, dict[str, Any]] = {}
        self._is_fed = False

    # --- events ------------------------------------------------------------------------------------------------------

    def feed(self, event: Event) -> None:
        """Take an event of the group, or one without a group, in order."""
        kind = event.kind
        if kind in MOVE_KINDS:
            self._told_moves.extend(self._moves.take(event))
        if kind not in KINDS:
            return
        self._keep(self.figures.feed(event))
        if kind not in OWNER_KINDS:
            return
        self._is_fed = True
        if event.queue_id >= 0 and not is_retry_topic(event.topic):
            self._look_at(MessageQueue(event.topic, event.broker, event.queue_id))
        if event.group:
            members = len(self.figures.members)
            if not self._members or self._members[-1][1] != members:
                self._members.append((self._since_base(self.figures.now_ms), members))
                self._untold_members += 1

    def advance(self, now_ms: float) -> None:
        """Let time pass without an event."""
        self.figures.advance(now_ms)

    def _look_at(self, queue: MessageQueue) -> None:
        owners = self.figures.owners_of(queue)
        if owners == self._owners.get(queue, ()):
            return
        self._owners[queue] = owners
        owner = self.clients.place(owners[-1]) if owners else NONE
        change = (self._since_base(self.figures.now_ms), self.queues.place(str(queue)), owner, len(owners))
        if len(self._changes) >= MAX_PICTURE_CHANGES:
            _, place, before, _ = self._changes.popleft()
            self._before[place] = before
        self._changes.append(change)
        self._untold_changes += 1

    def _keep(self, rows: Iterable[object]) -> None:
        for row in rows:
            if isinstance(row, Rebalance):
                self._tell(row)

    def _tell(self, row: Rebalance) -> None:
        told = self._rebalance(row)
        if self._rebalances.get(row.cause) == told:
            return
        self._rebalances.pop(row.cause, None)
        self._rebalances[row.cause] = self._new_rebalances[row.cause] = told
        if len(self._rebalances) > MAX_PICTURE_REBALANCES:
            oldest = next(iter(self._rebalances))
            del self._rebalances[oldest]
            self._new_rebalances.pop(oldest, None)

    def _rebalance(self, row: Rebalance) -> dict[str, Any]:
        return {
            "cause": row.cause,
            "because": because(row),
            "kind": row.kind,
            "trigger": row.trigger,
            "members": row.members,
            "began": self._since_base(row.began_ms),
            "ended": self._since_base(row.ended_ms),
            "moves": row.moves,
            "needed": row.needed,
            "pause_ms": round(row.pause_ms, 1),
            "orphan_ms": round(row.orphan_ms, 1),
            "double_ms": round(row.double_ms, 1),
            "duplicates": row.duplicates,
            "possible_duplicates": row.possible_duplicates,
            "backlog": row.backlog,
        }

    def _since_base(self, t_ms: float) -> float:
        return round(t_ms - self.base_ms, 1)

    # --- telling -----------------------------------------------------------------------------------------------------

    def _look_at_running(self) -> None:
        """Rebalances that are not over have changed, if anything has come."""
        if self._is_fed:
            self._is_fed = False
            for row in self.figures.rebalances():
                self._tell(row)

    def document(self) -> dict[str, Any]:
        """Everything that is kept; `news` goes on from its last call all the same."""
        self._look_at_running()
        return {
            "group": self.group,
            "base_ms": self.base_ms,
            "now": self._since_base(self.figures.now_ms),
            "queues": self.queues.all(),
            "clients": self.clients.all(),
            "before": _flat(self._before.items()),
            "changes": _flat(self._changes),
            "members": _flat(self._members),
            "rebalances": sorted(self._rebalances.values(), key=lambda each: float(each["began"])),
        }

    def news(self) -> dict[str, Any]:
        """What has come since the last call; only `now` if nothing has."""
        self._look_at_running()
        told: dict[str, Any] = {
            "queues": self.queues.untold(),
            "clients": self.clients.untold(),
            "changes": _flat(_newest(self._changes, self._untold_changes)),
            "members": _flat(_newest(self._members, self._untold_members)),
            "rebalances": list(self._new_rebalances.values()),
        }
        self._untold_changes = self._untold_members = 0
        self._new_rebalances = {}
        told = {name: value for name, value in told.items() if value}
        return {**told, "now": self._since_base(self.figures.now_ms)}

    def moves_of(self, cause: str) -> list[QueueMove]:
        """The moves of a rebalance that are kept, the earliest first; those under way as far as they are known."""
        found = [*self._told_moves, *self._moves.under_way()]
        return [move for move in found if move.root is not None and self._cause_of(move.root) == cause]

    def _cause_of(self, event: Event) -> str:
        return self._moves.causes.change_of(event).cause


def _newest(rows: deque[Any], n: int) -> Iterable[tuple[float, ...]]:
    return islice(rows, max(0, len(rows) - n), None)


def _flat(rows: Iterable[tuple[float, ...]]) -> list[float]:
    return [number for row in rows for number in row]
