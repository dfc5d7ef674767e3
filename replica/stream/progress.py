"""ReplicaProgress: how far one replica is, as its master sees it; for operators and for a handover. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaProgress:
    """One other replica of a set.

    Attributes:
        replica_id: its id.
        address: where it listens, as the row has it.
        state: "in sync", or the phase that it is in (`phases.py`).
        position: log position up to which it has the log.
        lag_bytes: bytes of the log that it has not confirmed.
        lag_s: age of the oldest flush that it has not confirmed, in seconds; 0 without one.
        connected: whether it follows this master now.
    """

    replica_id: int
    address: str
    state: str
    position: int
    lag_bytes: int
    lag_s: float
    connected: bool
