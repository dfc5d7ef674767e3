"""Runs one replica as a daemon."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import TYPE_CHECKING, Any

from cli.servers.copies.options import CopiesGiven
from model.replica_set import Elect
from process.orders import FaultOrders, Orders
from process.output import document

if TYPE_CHECKING:
    from broker.config import BrokerConfig
    from replica.config import ReplicaConfig
    from replica.host import RunningReplica
    from replica.register import Register


def replica_config(copies_given: CopiesGiven, broker: BrokerConfig, register: Register) -> ReplicaConfig:
    """The options of a replica."""
    from replica.config import ReplicaConfig

    return ReplicaConfig(
        broker=broker,
        register=register,
        makes=copies_given.replica_of is None,
        copies=copies_given.copies,
        acks=copies_given.acks,
        min_in_sync=copies_given.min_in_sync,
        lease_s=copies_given.replica_lease,
        elect=copies_given.elect or Elect.AUTO,
    )


def announcement_fields(replica: RunningReplica) -> dict[str, Any]:
    """The fields that the announcement of a replica has in addition to the fields of a broker."""
    membership, running = replica.membership, replica.running
    fields: dict[str, Any] = {
        "replica_id": 0 if membership is None else membership.replica_id,
        "role": replica.role.value,
    }
    if running is not None:
        fields["recovery"] = {"seconds": running.recovery_s, **document(running.broker.store.recovery)}
    return fields


class ReplicaOrders(Orders):
    """The orders of a replica: its connections are those of the server of its role, which changes."""

    def __init__(self, replica: RunningReplica, rng: Random) -> None:
        self._replica = replica
        self._server: object = None
        super().__init__(_faults_of(replica), rng)

    def answer(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """See `Orders.answer`."""
        if self._server is not self._replica.server:
            self._server = self._replica.server
            self._hook, self._faults = None, _faults_of(self._replica)
        return super().answer(order)


def _faults_of(replica: RunningReplica) -> FaultOrders:
    from broker.groups.faults import BrokerFaults
    from namesrv.faults import NameServerFaults

    running = replica.running
    if running is None:
        return NameServerFaults(replica.server)
    broker = running.broker
    store_trace = broker.store_trace if broker.config.trace else lambda: None
    return BrokerFaults(running.server, broker.groups, broker.events, store_trace)
