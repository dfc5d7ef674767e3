"""The acts that an ownership table returns for an event; the caller carries them out in their order. Pure.

When an act that names an event is complete, the caller applies that event to the table. The caller waits for
`AwaitReleases`, `RequestLeases`, `ReleaseQueues` and `FinishQueues`; `DrainQueues` runs in the background.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Generic

from client.rebalance.ownership_events import HoldingT
from model.message_queue import MessageQueue


@dataclass(frozen=True, slots=True)
class StartQueue(Generic[HoldingT]):
    """Start to pull and dispatch a queue."""

    holding: HoldingT


@dataclass(frozen=True, slots=True)
class RestartQueue(Generic[HoldingT]):
    """Start to pull and dispatch a queue again, as another holding; results for the old one are ignored."""

    old: HoldingT
    again: HoldingT


@dataclass(frozen=True, slots=True)
class RenewQueue(Generic[HoldingT]):
    """Go on with an owned queue under the lease of another grant."""

    holding: HoldingT
    grant: HoldingT


@dataclass(frozen=True, slots=True)
class StopQueue(Generic[HoldingT]):
    """Stop to pull and to dispatch; messages that listeners finish later are still committed."""

    holding: HoldingT
    why: str


@dataclass(frozen=True, slots=True)
class DropQueue(Generic[HoldingT]):
    """Stop to pull and to dispatch, and commit no more: the lease is not valid."""

    holding: HoldingT
    why: str


@dataclass(frozen=True, slots=True)
class DrainQueues(Generic[HoldingT]):
    """Wait until no listener has messages of these queues; then `QueuesDrained`."""

    holdings: Sequence[HoldingT]


@dataclass(frozen=True, slots=True)
class AwaitReleases:
    """Wait a moment for the release of the idle queues among these; then `LeasesDue`."""

    queues: Collection[MessageQueue]


@dataclass(frozen=True, slots=True)
class RequestLeases:
    """Request leases of wanted queues, and again of queues whose lease this member may have."""

    wanted: Sequence[MessageQueue]
    again: Sequence[MessageQueue]


@dataclass(frozen=True, slots=True)
class ReleaseQueues(Generic[HoldingT]):
    """Commit and release these queues; then `QueuesReleased`."""

    holdings: Sequence[HoldingT]


@dataclass(frozen=True, slots=True)
class FinishQueues(Generic[HoldingT]):
    """Drain and release the last queues: as `DrainQueues`, but the caller waits itself, and may stop waiting."""

    holdings: Sequence[HoldingT]


@dataclass(frozen=True, slots=True)
class WakePass:
    """Run a pass: a lease may be free now. `recompute`: the target may have changed unseen, and is computed again."""

    recompute: bool


_OfOne = (
    StartQueue[HoldingT] | RestartQueue[HoldingT] | RenewQueue[HoldingT] | StopQueue[HoldingT] | DropQueue[HoldingT]
)
_OfMany = DrainQueues[HoldingT] | ReleaseQueues[HoldingT] | FinishQueues[HoldingT]
OwnershipAct = _OfOne[HoldingT] | _OfMany[HoldingT] | AwaitReleases | RequestLeases | WakePass
