"""Defects of the reference that can be switched on by name, so that people can study what users saw.

The default everywhere is the sound behaviour. Each quirk is one small `if` at the place that it belongs to; search for
its name to find it.
"""

from __future__ import annotations

from enum import StrEnum


class Quirk(StrEnum):
    """A behaviour of RocketMQ that users suffer from."""

    SILENT_EXPIRY = "SILENT_EXPIRY"
    """A member that expires is removed and nobody is told: survivors find out at their own 20 s turn."""
    LOCKS_SURVIVE_CLOSE = "LOCKS_SURVIVE_CLOSE"
    """A dead member's queue leases are not released with its connection: they block the queues until they expire."""
    RANDOM_VIEW = "RANDOM_VIEW"
    """Each member asks one random broker for the member list: views differ, queues have two owners or none."""
    NOTIFY_WITHOUT_VERSION = "NOTIFY_WITHOUT_VERSION"
    """A notification does not say which version it is about: every one of them sets off a pass."""
    OFFSETS_GO_BACK = "OFFSETS_GO_BACK"
    """A commit below the stored offset is accepted, and any member may commit any queue."""
    OVERLAPPING_HANDOVER = "OVERLAPPING_HANDOVER"
    """No lease: the new owner starts while the old one still consumes, and both may see the same messages."""
