"""The events of an ownership table: what a pass, an answer or a task reports to it. Pure.

`client/rebalance/ownership_table.py` decides what becomes of each. Its acts are `client/rebalance/ownership_acts.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from model.message_queue import MessageQueue


class Holding(Protocol):
    """What a member has of one grant of a queue; `OwnedQueue` is one. The next grant of the queue has a new one."""

    queue: MessageQueue
    token: int
    """The fencing token of the lease; -1 without one."""

    @property
    def commit_offset(self) -> int:
        """The offset that the next owner has to start from."""
        ...

    @property
    def busy(self) -> bool:
        """Whether a listener has messages of it."""
        ...


HoldingT = TypeVar("HoldingT", bound=Holding)


@dataclass(frozen=True, slots=True)
class TargetFound:
    """A pass has found the queues that this member should own. Not changed afterwards."""

    queues: Sequence[MessageQueue]


@dataclass(frozen=True, slots=True)
class LeasesDue:
    """A pass is ready to ask for leases; leases of the owned queues in `unconfirmed` may have ended unseen."""

    unconfirmed: Sequence[MessageQueue]


@dataclass(frozen=True, slots=True)
class QueueGranted(Generic[HoldingT]):
    """A lease was granted; `confirmed` is the offset that its broker had stored for this member before it was asked."""

    holding: HoldingT
    confirmed: int | None


@dataclass(frozen=True, slots=True)
class QueueRefused:
    """Another member has the lease."""

    queue: MessageQueue


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """There is no answer about a lease; if it is `definite`, nothing was granted."""

    queue: MessageQueue
    definite: bool


@dataclass(frozen=True, slots=True)
class QueueLost(Generic[HoldingT]):
    """A pull or a commit was answered that another member has the lease."""

    holding: HoldingT


@dataclass(frozen=True, slots=True)
class QueuesReset:
    """The group's offset was set; the broker has revoked the leases up to this token."""

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
    """No listener has messages of these, or the grace period is over."""

    holdings: Sequence[HoldingT]


@dataclass(frozen=True, slots=True)
class QueuesReleased(Generic[HoldingT]):
    """These were committed and released, or are left to the end of the membership."""

    holdings: Sequence[HoldingT]


@dataclass(frozen=True, slots=True)
class MemberClosed:
    """The member leaves. `alone`: the tasks that drained and released queues have ended before their time."""

    alone: bool


_OfQueues = TargetFound | LeasesDue | QueueRefused | RequestFailed | QueuesReset | MemberClosed
_OfOne = QueueGranted[HoldingT] | QueueLost[HoldingT] | QueueOutdated[HoldingT] | QueueRestarted[HoldingT]
OwnershipEvent = _OfQueues | _OfOne[HoldingT] | QueuesDrained[HoldingT] | QueuesReleased[HoldingT]
