"""The requests of operators about a set, which every replica answers in every role: its state, and a handover.

RocketMQ: GetReplicaInfo of the controller, which knows roles and the SyncStateSet. The replicas here also report the
log position of each of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import msgpack

from model.replica_set import ReplicaSet
from remoting.command import Command, Reply
from remoting.connection import Connection
from remoting.request_code import RequestCode
from remoting.server import Handler


class AskedReplica(Protocol):
    """What the requests need of a replica."""

    @property
    def row(self) -> ReplicaSet | None:
        """The newest row that it knows."""

    def state(self) -> Mapping[str, Any]:
        """The figures of this replica; see GET_REPLICAS in `remoting/wire/replicas.py`."""

    async def hand_over(self, to: int) -> ReplicaSet:
        """See `MasterRole.hand_over`."""


class SetRequests:
    """The handlers."""

    def __init__(self, replica: AskedReplica) -> None:
        self._replica = replica

    def by_code(self) -> dict[RequestCode, Handler]:
        """Request code -> handler."""
        return {RequestCode.GET_REPLICAS: self._state, RequestCode.HAND_OVER: self._hand_over}

    def _state(self, connection: Connection, request: Command) -> Reply:
        row = self._replica.row
        return Reply({}, msgpack.packb({**self._replica.state(), "row": None if row is None else row.to_wire()}))

    async def _hand_over(self, connection: Connection, request: Command) -> Reply:
        return Reply({}, (await self._replica.hand_over(request.header.get("replica_id", 0))).to_wire())
