"""The acts that an ownership table answers an event with, for the caller to carry out in their order. Pure.

Those that wait are `AwaitReleases`, `AskLeases`, `ReleaseQueues` and `FinishQueues`; the event that each names follows.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Generic

from client.rebalance.ownership_events import HoldingT
from model.message_queue import MessageQueue


@dataclass(frozen=True, slots=True)
class StartQueue(Generic[HoldingT]):
    """Pull and dispatch a queue."""

    holding: HoldingT


@dataclass(frozen=True, slots=True)
class RestartQueue(Generic[HoldingT]):
    """Pull and dispatch a queue as another holding; results for the old one are ignored."""

    old: HoldingT
    again: HoldingT


@dataclass(frozen=True, slots=True)
class RenewQueue(Generic[HoldingT]):
    """Go on with an owned queue under the lease of another grant."""

    holding: HoldingT
    grant: HoldingT


@dataclass(frozen=True, slots=True)
class StopQueue(Generic[HoldingT]):
    """Stop to pull and to dispatch; what listeners finish is still committed."""

    holding: HoldingT
    why: str


@dataclass(frozen=True, slots=True)
class DropQueue(Generic[HoldingT]):
    """Stop to pull and to dispatch, and commit nothing any more: the lease is not valid."""

    holding: HoldingT
    why: str


@dataclass(frozen=True, slots=True)
class DrainQueues(Generic[HoldingT]):
    """Wait until no listener has messages of these; then `QueuesDrained`."""

    holdings: Sequence[HoldingT]


@dataclass(frozen=True, slots=True)
class AwaitReleases:
    """Wait a moment for the release of the idle ones among these queues; then `LeasesDue`."""

    queues: Collection[MessageQueue]


@dataclass(frozen=True, slots=True)
class AskLeases:
    """Request leases: of wanted queues, and again of others that may be held already."""

    wanted: Sequence[MessageQueue]
    again: Sequence[MessageQueue]


@dataclass(frozen=True, slots=True)
class ReleaseQueues(Generic[HoldingT]):
    """Commit and release these, then `QueuesReleased`."""

    holdings: Sequence[HoldingT]


@dataclass(frozen=True, slots=True)
class FinishQueues(Generic[HoldingT]):
    """Drain and release these, the last ones: as `DrainQueues`, but the caller waits, and may give up."""

    holdings: Sequence[HoldingT]


@dataclass(frozen=True, slots=True)
class WakePass:
    """Run a pass: a queue may be asked for now. `anew`: the target may have changed unseen."""

    anew: bool


_OfOne = (
    StartQueue[HoldingT] | RestartQueue[HoldingT] | RenewQueue[HoldingT] | StopQueue[HoldingT] | DropQueue[HoldingT]
)
_OfMany = DrainQueues[HoldingT] | ReleaseQueues[HoldingT] | FinishQueues[HoldingT]
OwnershipAct = _OfOne[HoldingT] | _OfMany[HoldingT] | AwaitReleases | AskLeases | WakePass
