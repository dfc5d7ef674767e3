"""The triggers of a rebalance pass. Pure."""

from __future__ import annotations

from enum import StrEnum


class Trigger(StrEnum):
    """What can set off a pass; each of them alone is enough to keep a group consumed."""

    START = "START"
    """A consumer started, or changed its subscriptions."""
    TIMER = "TIMER"
    """No other trigger came for a while; heals what the others missed."""
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
