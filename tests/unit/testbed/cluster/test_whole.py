from __future__ import annotations

from dataclasses import replace

import pytest

from model.replica_info import ReplicaInfo, ReplicaSetInfo
from model.replica_set import Replica, ReplicaSet
from testbed.cluster.whole import is_whole

MEMBERS = (Replica(replica_id=1, address="h:1"), Replica(replica_id=2, address="h:2"))
ROW = ReplicaSet(name="a", set_id=7, epoch=1, master=1, in_sync=(1, 2), members=MEMBERS, last_replica_id=2, copies=2)


def info_of(replica_id: int, role: str, *, connected: bool) -> ReplicaInfo:
    return ReplicaInfo(
        replica_id=replica_id,
        address=f"h:{replica_id}",
        role=role,
        in_sync=True,
        end_position=9,
        state="in sync",
        lag_bytes=0,
        lag_s=0.0,
        failure="",
        connected=connected,
    )


MASTER, OTHER = info_of(1, "master", connected=False), info_of(2, "following", connected=True)
WHOLE = ReplicaSetInfo(row=ROW, replicas=(MASTER, OTHER))


def test_a_set_is_whole_if_all_are_in_sync_and_follow_the_master() -> None:
    assert is_whole(WHOLE, 2)


@pytest.mark.parametrize(
    "info",
    [
        replace(WHOLE, row=replace(ROW, in_sync=(1,))),
        replace(WHOLE, row=replace(ROW, master=2)),
        replace(WHOLE, replicas=(MASTER, replace(OTHER, connected=False))),
        replace(WHOLE, replicas=(MASTER, replace(OTHER, role="waiting"))),
        replace(WHOLE, replicas=(replace(MASTER, role=""), OTHER)),
    ],
)
def test_a_set_is_not_whole_while_one_is_missing_or_the_master_has_changed(info: ReplicaSetInfo) -> None:
    assert not is_whole(info, 2)


def test_a_set_that_lacks_a_replica_is_not_whole() -> None:
    assert not is_whole(WHOLE, 3)
