"""The triggers of a rebalance pass: the reasons why a member compares its queues with its target. Pure."""

from __future__ import annotations

from enum import StrEnum


class Trigger(StrEnum):
    """The reason of a pass. The timer alone keeps a group consumed; the others make a member react sooner."""

    START = "START"
    """A consumer started, or changed its subscriptions."""
    TIMER = "TIMER"
    """No other trigger came for a while; repairs the effect of a lost notification."""
    NOTIFY = "NOTIFY"
    """A broker notified that the member list of the group changed."""
    ROUTE = "ROUTE"
    """A polled route differs from the cached one."""
    LOCK = "LOCK"
    """A lease may be granted that was not: it was refused, lost, or its queue was still being released."""
    RECONNECT = "RECONNECT"
    """A connection to a broker came back, and this client is registered there again."""

    @property
    def from_outside(self) -> bool:
        """Whether its cause lies outside the member's own passes, so that a replay takes it from the trace."""
        return self not in (Trigger.TIMER, Trigger.LOCK)
