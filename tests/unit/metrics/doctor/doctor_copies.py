"""Sets of replicas as the doctor sees them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from model.replica_info import ReplicaInfo, ReplicaSetInfo
from model.replica_set import Replica, ReplicaSet

Sets = Mapping[str, tuple[ReplicaSetInfo, ReplicaSetInfo]]


def replica(replica_id: int, **changes: Any) -> ReplicaInfo:
    """A replica on a machine of its own, in sync, the master if it is the first; with a failure it has no role."""
    fields: dict[str, Any] = {
        "address": f"h{replica_id}:1",
        "role": "" if "failure" in changes else "master" if replica_id == 1 else "following",
        "in_sync": True,
        "end_position": 100,
        "state": "",
        "lag_bytes": 0,
        "lag_s": 0.0,
        "failure": "",
    }
    return ReplicaInfo(replica_id=replica_id, **{**fields, **changes})


def look_at(*replicas: ReplicaInfo, **row: Any) -> ReplicaSetInfo:
    """One look at the set of broker b, which should have these replicas; `row` changes its row."""
    fields: dict[str, Any] = {
        "name": "b",
        "set_id": 7,
        "epoch": 3,
        "master": 1,
        "in_sync": tuple(each.replica_id for each in replicas if each.in_sync),
        "members": tuple(Replica(replica_id=each.replica_id, address=each.address, incarnation=1) for each in replicas),
        "last_replica_id": len(replicas),
        "copies": len(replicas),
    }
    return ReplicaSetInfo(row=ReplicaSet(**{**fields, **row}), replicas=replicas)


def copies_of(*replicas: ReplicaInfo, **row: Any) -> Sets:
    """The set of broker b, which is so at both looks."""
    seen = look_at(*replicas, **row)
    return {"b": (seen, seen)}
