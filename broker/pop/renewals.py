"""Renewals: which invisible times the broker extends by itself, under the handles that the client has.

RocketMQ: DefaultReceiptHandleManager of its proxy, which extends with a new handle each time, keeps the new ones in its
memory, and has a killed client's messages for a minute or two. Here a client that has received messages keeps them
(KEEP_MESSAGES), and not before: an answer may be lost. Its invisible time is a *slice* from then on, and at the end of
each slice the broker looks whether the client is connected:

    pop for 10 s, then kept     invisible until 10 s
    10 s, still connected       invisible until 20 s; the handle is the same
    14 s, the client is killed
    20 s                        visible: the next pop gets it, and the handle is dead then

A client is connected while the connection over which it last kept messages is open, or while it is a member whose
heartbeats come.
A client that unregisters, or whose process is replaced, has its messages made visible at once.
"""

from __future__ import annotations

from broker.feature import Core
from broker.groups.members import Groups
from broker.pop.journal import Times
from broker.pop.ledger import GroupQueue, PopLedger
from broker.pop.window import PopBatch
from model.limits import MAX_RENEWAL_S, MAX_RENEWED_OF_CONNECTION
from remoting.connection import Connection

_Client = tuple[str, str]
"""Group and client id."""


class Renewals:
    """The clients of one broker whose messages are extended."""

    def __init__(self, core: Core, groups: Groups, ledger: PopLedger) -> None:
        self._core = core
        self._groups = groups
        self._ledger = ledger
        self._connections: dict[_Client, Connection] = {}
        self._clients: dict[Connection, dict[_Client, None]] = {}

    def record_client(self, group: str, client_id: str, connection: Connection) -> None:
        """Record that a client keeps messages over this connection, which replaces its earlier one."""
        client = (group, client_id)
        old_connection = self._connections.get(client)
        if old_connection is connection:
            return
        if old_connection is not None:
            self._forget(group, client_id)
        self._connections[client] = connection
        clients = self._clients.setdefault(connection, {})
        clients[client] = None
        if len(clients) > MAX_RENEWED_OF_CONNECTION:
            self._forget(*next(iter(clients)))

    def member_left(self, group: str, client_id: str) -> None:
        """End the extensions of a member that left: at once if it is not connected, else when the slices end.

        A connected member leaves if its heartbeats have failed, or if a new process has its client id.
        """
        if (group, client_id) in self._connections:
            self._forget(group, client_id)
        else:
            self.end(group, client_id)

    def _forget(self, group: str, client_id: str) -> None:
        client = (group, client_id)
        connection = self._connections.pop(client, None)
        if connection is not None:
            clients = self._clients[connection]
            del clients[client]
            if not clients:
                del self._clients[connection]

    def closed(self, connection: Connection) -> None:
        """Forget a closed connection; its clients may return over another one before their slices end."""
        for client in self._clients.pop(connection, {}):
            del self._connections[client]

    def end(self, group: str, client_id: str) -> None:
        """Make the extended messages of a client visible at once, because it does not return."""
        self._forget(group, client_id)
        if not self._ledger.has_renewed:
            return
        core = self._core
        times = Times(core.loop.time(), core.clock_ms())
        for queue in self._ledger.of_group(group):
            for token, batch in list(queue.window.batches.items()):
                if batch.renew_s and batch.client_id == client_id:
                    self._ledger.end_invisible(queue, token, times)
                    core.barrier.metadata_changed()
                    core.driver.wake_by(times.now)

    def until(self, queue: GroupQueue, batch: PopBatch) -> float | None:
        """The new end of the invisible time of a batch, which ends now; None to let it end."""
        group, client_id = queue.key.group, batch.client_id
        connection = self._connections.get((group, client_id)) or self._groups.connection_of(group, client_id)
        if connection is None or connection.closed:
            return None
        now = self._core.loop.time()
        end = min(now + batch.renew_s, batch.since + MAX_RENEWAL_S)
        if end <= now:
            return None
        self._core.barrier.metadata_changed()
        return end
