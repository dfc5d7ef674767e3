"""The events of an ownership table, and the acts that it answers with. Pure.

`client/rebalance/ownership_table.py` decides; the shells report what happened as events, and carry the acts out.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

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

# --- events ----------------------------------------------------------------------------------------------------------


class TargetFound(NamedTuple):
    """A pass has found the queues that this member should own. Not changed afterwards."""

    queues: Sequence[MessageQueue]


class LeasesDue(NamedTuple):
    """A pass is ready to ask for leases; those of the owned queues in `unconfirmed` may have ended unseen."""

    unconfirmed: Sequence[MessageQueue]


class QueueGranted(NamedTuple, Generic[HoldingT]):
    """A lease was granted; `confirmed` is the offset that its broker had stored for this member before it was asked."""

    holding: HoldingT
    confirmed: int | None


class QueueRefused(NamedTuple):
    """Another member has the lease."""

    queue: MessageQueue


class RequestFailed(NamedTuple):
    """There is no answer about a lease; if it is `definite`, nothing was granted."""

    queue: MessageQueue
    definite: bool


class QueueLost(NamedTuple, Generic[HoldingT]):
    """A pull or a commit was answered that another member has the lease."""

    holding: HoldingT


class QueuesReset(NamedTuple):
    """The group's offset was set; the broker has revoked the leases up to this token."""

    queues: Collection[MessageQueue]
    token: int


class QueueRestarted(NamedTuple, Generic[HoldingT]):
    """An owned queue goes on at another offset, as another holding of the same lease."""

    old: HoldingT
    again: HoldingT


class QueueOutdated(NamedTuple, Generic[HoldingT]):
    """The topic of a queue without a lease was created again."""

    holding: HoldingT


class QueuesDrained(NamedTuple, Generic[HoldingT]):
    """No listener has messages of these, or the grace period is over."""

    holdings: Sequence[HoldingT]


class QueuesReleased(NamedTuple, Generic[HoldingT]):
    """These were committed and released, or are left to the end of the membership."""

    holdings: Sequence[HoldingT]


class MemberClosed(NamedTuple):
    """The member leaves. `alone`: the tasks that drained and released queues have ended before their time."""

    alone: bool


OwnershipEvent = (
    TargetFound
    | LeasesDue
    | QueueGranted[HoldingT]
    | QueueRefused
    | RequestFailed
    | QueueLost[HoldingT]
    | QueuesReset
    | QueueRestarted[HoldingT]
    | QueueOutdated[HoldingT]
    | QueuesDrained[HoldingT]
    | QueuesReleased[HoldingT]
    | MemberClosed
)

# --- acts ------------------------------------------------------------------------------------------------------------


class StartQueue(NamedTuple, Generic[HoldingT]):
    """Pull and dispatch a queue."""

    holding: HoldingT


class RestartQueue(NamedTuple, Generic[HoldingT]):
    """Pull and dispatch a queue as another holding; results for the old one are ignored."""

    old: HoldingT
    again: HoldingT


class RenewQueue(NamedTuple, Generic[HoldingT]):
    """Go on with an owned queue under the lease of another grant."""

    holding: HoldingT
    grant: HoldingT


class StopQueue(NamedTuple, Generic[HoldingT]):
    """Stop to pull and to dispatch; what listeners finish is still committed."""

    holding: HoldingT
    why: str


class DropQueue(NamedTuple, Generic[HoldingT]):
    """Stop to pull and to dispatch, and commit nothing any more: the lease is not valid."""

    holding: HoldingT
    why: str


class DrainQueues(NamedTuple, Generic[HoldingT]):
    """Wait until no listener has messages of these; then `QueuesDrained`."""

    holdings: Sequence[HoldingT]


class AwaitReleases(NamedTuple):
    """Wait a moment for the release of those of these queues that are idle; then `LeasesDue`."""

    queues: Collection[MessageQueue]


class AskLeases(NamedTuple):
    """Request leases: of wanted queues, and again of others that may be held already."""

    wanted: Sequence[MessageQueue]
    again: Sequence[MessageQueue]


class ReleaseQueues(NamedTuple, Generic[HoldingT]):
    """Commit and release these, then `QueuesReleased`."""

    holdings: Sequence[HoldingT]


class FinishQueues(NamedTuple, Generic[HoldingT]):
    """Drain and release these, the last ones: as `DrainQueues`, but the caller waits, and may give up."""

    holdings: Sequence[HoldingT]


class WakePass(NamedTuple):
    """Run a pass: a queue may be asked for now. `anew`: the target may have changed unseen."""

    anew: bool


OwnershipAct = (
    StartQueue[HoldingT]
    | RestartQueue[HoldingT]
    | RenewQueue[HoldingT]
    | StopQueue[HoldingT]
    | DropQueue[HoldingT]
    | DrainQueues[HoldingT]
    | AwaitReleases
    | AskLeases
    | ReleaseQueues[HoldingT]
    | FinishQueues[HoldingT]
    | WakePass
)
