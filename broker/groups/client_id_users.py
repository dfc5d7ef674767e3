"""Stores the user of each client id, for as long as the client is a member of some group.

A member belongs to the user that sent its heartbeats. Before another user may use the client id, the gate
(`remoting/security/gate.py`) asks here for its user. The table outlives a restart of the broker. Without access
control nothing is kept.
"""

from __future__ import annotations

from broker.durability.metadata import MetadataStore, Table

_SCHEMA = """
create table if not exists owners (client_id text primary key, owner text not null);
"""


class ClientIdUsers:
    """The user of each client id that is a member at this broker, stored in the broker's metadata.

    At the start, `restore_member` is called for each member that the group table reads back, and then `end_restore`
    once.
    """

    def __init__(self, metadata: MetadataStore, *, has_access_control: bool) -> None:
        self._has_access_control = has_access_control
        self._users: dict[str, str] = {}
        self._groups: dict[str, dict[str, None]] = {}  # client id -> groups that it is a member of
        metadata.add_tables(_SCHEMA)
        self._rows = Table(metadata, "owners", replicated=True)
        self._stored: dict[str, str] = dict(self._rows.rows())

    def restore_member(self, group: str, client_id: str) -> None:
        """Restore a member that was there before the restart, with the user that is stored."""
        self._groups.setdefault(client_id, {})[group] = None
        if client_id in self._stored:
            self._users[client_id] = self._stored[client_id]

    def end_restore(self) -> None:
        """Forget the users of clients that are no longer members."""
        for client_id in self._stored.keys() - self._users.keys():
            self._rows.delete(client_id)
        self._stored.clear()

    def record_join(self, group: str, client_id: str, user: str) -> None:
        """Record that a member has joined a group, or has come back."""
        self._groups.setdefault(client_id, {})[group] = None
        if not self._has_access_control:
            self._forget(client_id)
        elif self._users.get(client_id) != user:
            self._users[client_id] = user
            self._rows.put(client_id, user)

    def record_leave(self, group: str, client_id: str) -> None:
        """Record that a member has left a group."""
        groups = self._groups.get(client_id, {})
        groups.pop(group, None)
        if not groups:
            self._groups.pop(client_id, None)
            self._forget(client_id)

    def _forget(self, client_id: str) -> None:
        if self._users.pop(client_id, None) is not None:
            self._rows.delete(client_id)

    def user_of_id(self, client_id: str) -> str | None:
        """The user of a client id; None if it is not a member, or if an earlier version of the broker stored it."""
        return self._users.get(client_id)

    def members(self) -> list[tuple[str, str, str]]:
        """(group, client id, user) of every member whose user is known."""
        return [(group, name, user) for name, user in self._users.items() for group in self._groups[name]]
