"""Decides if a set of replicas is whole: no effect of an earlier fault is left, so the next fault may begin. Pure."""

from __future__ import annotations

from model.replica_info import ReplicaSetInfo


def is_whole(info: ReplicaSetInfo, copies: int) -> bool:
    """Whether the master answers, and this many replicas, all members of the set, are in sync and connected to it."""
    masters = [each.replica_id for each in info.replicas if each.role == "master"]
    others = [each for each in info.replicas if each.role == "following" and each.connected]
    row = info.row
    return masters == [row.master] and len(row.in_sync) == len(row.members) == 1 + len(others) == copies
