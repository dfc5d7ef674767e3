"""The uses of events of each kind for the figures of a group. Pure.

An event may concern a member, a rebalance, the owners of a queue, or the progress of an owner; most kinds concern
several.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from model.events import Event, EventKind
from traces.figures.queue import QueueOwners, Tenure

Step = Callable[[QueueOwners, Event], "Sequence[Tenure] | None"]
"""Processes an event of a queue, and returns the finished ownerships."""

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
OWNER_KINDS = _OF_CAUSES | _STEPS.keys()  # these determine the owners of queues
KINDS = OWNER_KINDS | _PROGRESS.keys()
"""Kinds of events from which the figures are computed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """The use of an event of one kind."""

    progress: Callable[[QueueOwners, Event], None] | None  # it changes no owner and no rebalance
    step: Step | None
    is_of_cause: bool
    is_of_members: bool
    is_route: bool


USES = {
    # By plain text, because looking up a member of an enumeration takes three times as long.
    kind.value: Use(
        progress=_PROGRESS.get(kind),
        step=_STEPS.get(kind),
        is_of_cause=kind in _OF_CAUSES,
        is_of_members=kind in _OF_MEMBERS,
        is_route=kind is EventKind.ROUTE_CHANGED,
    )
    for kind in KINDS
}
