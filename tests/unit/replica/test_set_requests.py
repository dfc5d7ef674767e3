"""The requests of operators about a set, at a replica in any role."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgpack

from model.errors import NotMaster
from model.replica_set import ReplicaSet
from remoting.command import Command, Reply
from remoting.request_code import RequestCode
from replica.set_requests import SetRequests
from replica.sets import create
from testbed.simulation.kernel.run import Simulation, run_simulation

ROW = create("broker-a", "h:1", set_id=7)


class FakeReplica:
    """A replica that notes to whom it hands over."""

    def __init__(self, row: ReplicaSet | None) -> None:
        self.row = row
        self.handed_to: list[int] = []

    def state(self) -> Mapping[str, Any]:
        return {"role": "waiting", "replica_id": 0}

    async def hand_over(self, to: int) -> ReplicaSet:
        self.handed_to.append(to)
        return ROW

    def not_master(self) -> NotMaster:
        return NotMaster("elsewhere")


def unpacked(reply: Reply) -> Any:
    """The body of an answer."""
    return msgpack.unpackb(reply.body or b"")


def ask(replica: FakeReplica, code: RequestCode, header: dict[str, Any]) -> Reply:
    async def main(_: Simulation) -> Reply:
        request = Command(0, code, 1, header, None)
        outcome = SetRequests(replica).by_code()[code](cast(Any, None), request)
        return outcome if isinstance(outcome, Reply) else cast(Reply, await cast(Any, outcome))

    return run_simulation(main)


def test_the_state_comes_with_the_row_if_there_is_one() -> None:
    assert unpacked(ask(FakeReplica(None), RequestCode.GET_REPLICAS, {}))["row"] is None
    found = unpacked(ask(FakeReplica(ROW), RequestCode.GET_REPLICAS, {}))
    assert ReplicaSet.from_wire(found["row"]) == ROW
    assert found["role"] == "waiting"


def test_a_handover_answers_with_the_new_row() -> None:
    replica = FakeReplica(ROW)
    assert ReplicaSet.from_wire(ask(replica, RequestCode.HAND_OVER, {"replica_id": 3}).body or b"") == ROW
    assert replica.handed_to == [3]
