"""The replicas of a broker as an operator sees them: the row of the set, and how far each of them is. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from model.replica_set import ReplicaSet


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaInfo:
    """One replica of a set.

    Attributes:
        role: `master`, `following`, or `waiting`; empty if it does not answer.
        in_sync: whether the register counts it as in sync: it may take over without loss.
        end_position: log position behind its newest byte; -1 if it does not answer.
        state: how the master sees it, as `catching up`; empty without a master that answers.
        lag_bytes, lag_s: how far it is behind the master; -1 without a master that answers.
        connected: whether it follows the master that answers; False for that master itself.
        failure: why it does not answer; empty if it does.
        register_answers: whether the register answered it when it was last asked; True if it does not answer itself.
        register_at: where it asks the register, `host:port`; empty if that is not known.
        lease_margin_s: the least that was left of the lease of a master when it was renewed in the last two minutes;
            -1 without a renewal.
    """

    replica_id: int
    address: str
    role: str
    in_sync: bool
    end_position: int
    state: str
    lag_bytes: int
    lag_s: float
    failure: str
    register_answers: bool = True
    register_at: tuple[str, ...] = ()
    lease_margin_s: float = -1.0
    connected: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSetInfo:
    """A set of replicas and all its members, sorted by replica id."""

    row: ReplicaSet
    replicas: tuple[ReplicaInfo, ...]
