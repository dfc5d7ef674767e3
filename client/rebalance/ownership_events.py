"""The events of an ownership table: reports of a pass, of an answer or of a task. Pure.

`client/rebalance/ownership_table.py` decides the acts for each event; `client/rebalance/ownership_acts.py` has them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from model.message_queue import MessageQueue


class Holding(Protocol):
    """A queue as one grant gave it to a member, for instance an `OwnedQueue`; the next grant makes a new holding."""

    queue: MessageQueue
    token: int
    """The fencing token of the lease; -1 without one."""

    @property
    def commit_offset(self) -> int:
        """The offset from which the next owner has to start."""
        ...

    @property
    def busy(self) -> bool:
        """Whether a listener has messages of it."""
        ...


HoldingT = TypeVar("HoldingT", bound=Holding)


@dataclass(frozen=True, slots=True)
class TargetFound:
    """A pass has found the queues that this member should own; the sequence is never changed."""

    queues: Sequence[MessageQueue]


@dataclass(frozen=True, slots=True)
class LeasesDue:
    """A pass is ready to ask for leases; the leases of the owned queues in `unconfirmed` may have ended unseen."""

    unconfirmed: Sequence[MessageQueue]


@dataclass(frozen=True, slots=True)
class QueueGranted(Generic[HoldingT]):
    """A lease was granted; `confirmed` is the last offset that the broker had confirmed before the request."""

    holding: HoldingT
    confirmed: int | None


@dataclass(frozen=True, slots=True)
class QueueRefused:
    """Another member has the lease."""

    queue: MessageQueue


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """A request for a lease failed; if the failure is `definite`, nothing was granted."""

    queue: MessageQueue
    definite: bool


@dataclass(frozen=True, slots=True)
class QueueLost(Generic[HoldingT]):
    """A pull or a commit was refused, because another member has the lease."""

    holding: HoldingT


@dataclass(frozen=True, slots=True)
class QueuesReset:
    """The group's offsets were reset; the broker has revoked the leases up to this token."""

    queues: Collection[MessageQueue]
    token: int


@dataclass(frozen=True, slots=True)
class QueueRestarted(Generic[HoldingT]):
    """An owned queue goes on at another offset, as another holding of the same lease."""

    old: HoldingT
    again: HoldingT


@dataclass(frozen=True, slots=True)
class QueueOutdated(Generic[HoldingT]):
    """The topic of a queue without a lease was created again."""

    holding: HoldingT


@dataclass(frozen=True, slots=True)
class QueuesDrained(Generic[HoldingT]):
    """No listener has messages of these queues, or the grace period has ended."""

    holdings: Sequence[HoldingT]


@dataclass(frozen=True, slots=True)
class QueuesReleased(Generic[HoldingT]):
    """Queues were committed and released, or their leases will end with the membership."""

    holdings: Sequence[HoldingT]


@dataclass(frozen=True, slots=True)
class MemberClosed:
    """The member leaves. `alone`: the tasks that drained and released queues have ended before their time."""

    alone: bool


_OfQueues = TargetFound | LeasesDue | QueueRefused | RequestFailed | QueuesReset | MemberClosed
_OfOne = QueueGranted[HoldingT] | QueueLost[HoldingT] | QueueOutdated[HoldingT] | QueueRestarted[HoldingT]
OwnershipEvent = _OfQueues | _OfOne[HoldingT] | QueuesDrained[HoldingT] | QueuesReleased[HoldingT]
