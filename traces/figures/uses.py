"""The uses of events of each kind for the figures of a group. Pure.

A kind may tell of a member, of a rebalance, of the owners of a queue, or of how far an owner is; most tell of several.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from model.events import Event, EventKind
from traces.figures.queue import QueueOwners, Tenure

Step = Callable[[QueueOwners, Event], "Sequence[Tenure] | None"]
"""Takes an event of a queue, and returns the ownerships of which nothing more can be told."""

_OF_MEMBERS = frozenset(
    {
        EventKind.CLIENT_START,
        EventKind.CLIENT_STOP,
        EventKind.MEMBER_JOIN,
        EventKind.MEMBER_LEAVE,
        EventKind.SUBSCRIPTION_CHANGE,
        EventKind.QUEUE_ACQUIRED,
    }
)
_OF_CAUSES = _OF_MEMBERS | {
    EventKind.REBALANCE_BEGIN,
    EventKind.REBALANCE_END,
    EventKind.QUEUE_DROPPED,
    EventKind.OFFSET_RESET,
    EventKind.LOCK_EXPIRED,
    EventKind.ROUTE_CHANGED,
    EventKind.BROKER_UP,
    EventKind.BROKER_DOWN,
}
_STEPS: dict[EventKind, Step] = {
    EventKind.QUEUE_ACQUIRED: QueueOwners.acquired,
    EventKind.QUEUE_DROPPED: QueueOwners.dropped,
    EventKind.QUEUE_RELEASED: QueueOwners.released,
    EventKind.LOCK_GRANTED: QueueOwners.granted,
    EventKind.LOCK_EXPIRED: QueueOwners.expired,
    EventKind.OFFSET_RESET: QueueOwners.reset,
}
_PROGRESS: dict[EventKind, Callable[[QueueOwners, Event], None]] = {
    EventKind.FIRST_PULL: QueueOwners.pulled,
    EventKind.FIRST_MESSAGE: QueueOwners.messaged,
    EventKind.MESSAGES_HANDED_OUT: QueueOwners.handed_out,
}
OWNER_KINDS = _OF_CAUSES | _STEPS.keys()  # from these the owners of queues are known
KINDS = OWNER_KINDS | _PROGRESS.keys()
"""Kinds of events that the figures are computed from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """How an event of one kind is used."""

    progress: Callable[[QueueOwners, Event], None] | None  # it changes no owner and no rebalance
    step: Step | None
    is_of_cause: bool
    is_of_members: bool
    is_route: bool


USES = {
    # By plain text: looking up the member of an enumeration takes three times as long.
    kind.value: Use(
        progress=_PROGRESS.get(kind),
        step=_STEPS.get(kind),
        is_of_cause=kind in _OF_CAUSES,
        is_of_members=kind in _OF_MEMBERS,
        is_route=kind is EventKind.ROUTE_CHANGED,
    )
    for kind in KINDS
}
