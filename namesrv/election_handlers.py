"""Answers the requests about replica sets from the register, and refuses them at a name server without one."""

from __future__ import annotations

import msgpack

from model.errors import InvalidParameter, RequestCodeNotSupported
from model.replica_set import ReplicaSet, SetChanged
from namesrv.elections import Elections
from remoting.command import Command, Reply
from remoting.connection import Connection
from remoting.request_code import RequestCode
from remoting.server import Handler


class ElectionHandlers:
    """The handlers of the register; `elections` is None in a name server without one."""

    def __init__(self, elections: Elections | None) -> None:
        self._elections = elections

    def by_code(self) -> dict[RequestCode, Handler]:
        """Request code -> handler."""
        return {
            RequestCode.GET_REPLICA_SET: self.get_replica_set,
            RequestCode.PUT_REPLICA_SET: self.put_replica_set,
            RequestCode.REMOVE_REPLICA_SET: self.remove_replica_set,
        }

    async def get_replica_set(self, connection: Connection, request: Command) -> Reply:
        """Answer with the row of a set, or with all rows. Cancellation: harmless."""
        elections, name = self._open(), request.header.get("broker_name")
        rows = await elections.rows() if name is None else [await elections.read(name)]
        sets = [row.to_wire() for row in rows if row is not None]
        return Reply({"register_id": elections.register_id}, msgpack.packb(sets))

    async def put_replica_set(self, connection: Connection, request: Command) -> Reply:
        """Replace a row of the expected version. Cancellation: the row may have been written or not."""
        elections, header = self._open(), request.header
        new = ReplicaSet.from_wire(request.body or b"")
        if new.name != header["broker_name"]:
            # The rights of the request were checked for the name in the header.
            raise InvalidParameter(f"the row is of set {new.name}, the request names {header['broker_name']!r}")
        try:
            row: ReplicaSet | None = await elections.write(new, header["expected_version"])
            was_written = True
        except SetChanged as changed:
            row, was_written = changed.current, False
        return Reply({"written": was_written}, b"" if row is None else row.to_wire())

    async def remove_replica_set(self, connection: Connection, request: Command) -> Reply:
        """Remove a row of the expected version. Cancellation: the row may be removed or not."""
        header = request.header
        try:
            await self._open().remove(header["broker_name"], header["expected_version"])
        except SetChanged as changed:
            return Reply({"removed": False}, b"" if changed.current is None else changed.current.to_wire())
        return Reply({"removed": True})

    def _open(self) -> Elections:
        if self._elections is None:
            raise RequestCodeNotSupported(
                "this name server keeps no elections: start one name server of the cluster with --elections DIR"
            )
        return self._elections
