"""The document of one group: the owners of its queues over time, its members, and its rebalances. Pure.

    picture = GroupPicture("billing", base_ms)
    for event in events:      # in the order of `traces.check.reading.in_order`
        picture.feed(event)
    picture.document()        # the whole document
    picture.news()            # the changes since the last call, in the same form

Each name occurs once, in `queues` or `clients`; all other lists have its index. `changes` is flat: four numbers for
each change of an owner, [time, queue, owner, number of owners]. The owner is the new one, -1 for no owner, and of two
owners the one that acquired the queue last. Times are milliseconds since `base_ms`.

    queues ["t@b:0"], clients ["c1", "c2"], changes [100, 0, 0, 1,  150, 0, -1, 0,  160, 0, 1, 1]
        c1 owns the queue from 100 to 150, it has no owner until 160, then c2 owns it
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
from traces.why.words import describe_cause

NONE = -1
PICTURE_KINDS = KINDS | MOVE_KINDS
"""Kinds of events from which a picture is drawn."""


class Names:
    """Names in the order of their first occurrence; the index of a name never changes.

    Beyond `MAX_PICTURE_NAMES`, new names share the last index.
    """

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._sent = 0

    def place(self, name: str) -> int:
        """Return the index of a name; a new name gets a new index."""
        number = self._places.get(name)
        if number is None:
            if len(self._places) >= MAX_PICTURE_NAMES:
                return MAX_PICTURE_NAMES - 1
            number = self._places[name] = len(self._places)
        return number

    def all(self) -> list[str]:
        """Return all names."""
        return list(self._places)

    def unsent(self) -> list[str]:
        """Return the names that are new since the last call."""
        names = list(islice(self._places, self._sent, None))
        self._sent = len(self._places)
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
        self._finished_moves: deque[QueueMove] = deque(maxlen=MAX_PICTURE_MOVES)
        self._owners: dict[MessageQueue, tuple[str, ...]] = {}
        self._changes: deque[tuple[float, int, int, int]] = deque()
        self._before: dict[int, int] = {}  # queue -> its owner before the first kept change
        self._members: deque[tuple[float, int]] = deque(maxlen=MAX_PICTURE_REBALANCES)
        self._rebalances: dict[str, dict[str, Any]] = {}
        self._unsent_changes = self._unsent_members = 0  # number of the newest ones that `changes` has not returned yet
        self._new_rebalances: dict[str, dict[str, Any]] = {}
        self._is_fed = False

    # --- events ------------------------------------------------------------------------------------------------------

    def feed(self, event: Event) -> None:
        """Process an event of the group, or an event without a group, in order."""
        kind = event.kind
        if kind in MOVE_KINDS:
            self._finished_moves.extend(self._moves.process(event))
        if kind not in KINDS:
            return
        self._keep(self.figures.feed(event))
        if kind not in OWNER_KINDS:
            return
        self._is_fed = True
        if event.queue_id >= 0 and not is_retry_topic(event.topic):
            self._update_owners(MessageQueue(event.topic, event.broker, event.queue_id))
        if event.group:
            members = len(self.figures.members)
            if not self._members or self._members[-1][1] != members:
                self._members.append((self._since_base(self.figures.now_ms), members))
                self._unsent_members += 1

    def advance(self, now_ms: float) -> None:
        """Advance the time without an event."""
        self.figures.advance(now_ms)

    def _update_owners(self, queue: MessageQueue) -> None:
        owners = self.figures.owners_of(queue)
        if owners == self._owners.get(queue, ()):
            return
        self._owners[queue] = owners
        owner = self.clients.place(owners[-1]) if owners else NONE
        change = (self._since_base(self.figures.now_ms), self.queues.place(str(queue)), owner, len(owners))
        if len(self._changes) >= MAX_PICTURE_CHANGES:
            _, queue_number, old_owner, _ = self._changes.popleft()
            self._before[queue_number] = old_owner
        self._changes.append(change)
        self._unsent_changes += 1

    def _keep(self, rows: Iterable[object]) -> None:
        for row in rows:
            if isinstance(row, Rebalance):
                self._update(row)

    def _update(self, row: Rebalance) -> None:
        record = self._rebalance(row)
        if self._rebalances.get(row.cause) == record:
            return
        self._rebalances.pop(row.cause, None)
        self._rebalances[row.cause] = self._new_rebalances[row.cause] = record
        if len(self._rebalances) > MAX_PICTURE_REBALANCES:
            oldest = next(iter(self._rebalances))
            del self._rebalances[oldest]
            self._new_rebalances.pop(oldest, None)

    def _rebalance(self, row: Rebalance) -> dict[str, Any]:
        return {
            "cause": row.cause,
            "because": describe_cause(row),
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

    # --- documents ---------------------------------------------------------------------------------------------------

    def _update_running(self) -> None:
        """Add the running rebalances, which may have changed since the last event."""
        if self._is_fed:
            self._is_fed = False
            for row in self.figures.rebalances():
                self._update(row)

    def document(self) -> dict[str, Any]:
        """Return the whole document; `changes` still continues from its own last call."""
        self._update_running()
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

    def changes(self) -> dict[str, Any]:
        """Return the changes since the last call; only `now` if there are none."""
        self._update_running()
        news: dict[str, Any] = {
            "queues": self.queues.unsent(),
            "clients": self.clients.unsent(),
            "changes": _flat(_newest(self._changes, self._unsent_changes)),
            "members": _flat(_newest(self._members, self._unsent_members)),
            "rebalances": list(self._new_rebalances.values()),
        }
        self._unsent_changes = self._unsent_members = 0
        self._new_rebalances = {}
        news = {name: value for name, value in news.items() if value}
        return {**news, "now": self._since_base(self.figures.now_ms)}

    def moves_of(self, cause: str) -> list[QueueMove]:
        """Return the kept moves of a rebalance, the earliest first, and its unfinished moves."""
        moves = [*self._finished_moves, *self._moves.under_way()]
        return [move for move in moves if move.root is not None and self._cause_of(move.root) == cause]

    def _cause_of(self, event: Event) -> str:
        return self._moves.causes.change_of(event).cause


def _newest(rows: deque[Any], n: int) -> Iterable[tuple[float, ...]]:
    return islice(rows, max(0, len(rows) - n), None)


def _flat(rows: Iterable[tuple[float, ...]]) -> list[float]:
    return [number for row in rows for number in row]
