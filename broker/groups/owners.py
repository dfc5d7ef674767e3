"""Stores which user owns a client id, for as long as the client is a member of some group.

A member belongs to the user that sent its heartbeats. Before another user may use the client id, the gate
(`remoting/security/gate.py`) asks here for its owner. The table outlives a restart of the broker. Without access
control nothing is kept.
"""

from __future__ import annotations

from broker.durability.metadata import MetadataStore, Table

_SCHEMA = """
create table if not exists owners (client_id text primary key, owner text not null);
"""


class MemberOwners:
    """The user of each client id that is a member at this broker, stored in the broker's metadata.

    At the start, `restored` is called for each member that the group table reads back, and then `all_restored` once.
    """

    def __init__(self, metadata: MetadataStore, *, is_kept: bool) -> None:
        self._is_kept = is_kept
        self._owners: dict[str, str] = {}
        self._groups: dict[str, dict[str, None]] = {}  # client id -> groups that it is a member of
        metadata.add_tables(_SCHEMA)
        self._rows = Table(metadata, "owners", replicated=True)
        self._stored: dict[str, str] = dict(self._rows.rows())

    def restored(self, group: str, client_id: str) -> None:
        """A member that was there before the restart is listed again, with the owner that is stored."""
        self._groups.setdefault(client_id, {})[group] = None
        if client_id in self._stored:
            self._owners[client_id] = self._stored[client_id]

    def all_restored(self) -> None:
        """Forget the owners of clients that are no longer members."""
        for client_id in self._stored.keys() - self._owners.keys():
            self._rows.delete(client_id)
        self._stored.clear()

    def joined(self, group: str, client_id: str, owner: str) -> None:
        """A member has joined a group, or has come back."""
        self._groups.setdefault(client_id, {})[group] = None
        if not self._is_kept:
            self._forget(client_id)
        elif self._owners.get(client_id) != owner:
            self._owners[client_id] = owner
            self._rows.put(client_id, owner)

    def member_left(self, group: str, client_id: str) -> None:
        """A member has left a group."""
        groups = self._groups.get(client_id, {})
        groups.pop(group, None)
        if not groups:
            self._groups.pop(client_id, None)
            self._forget(client_id)

    def _forget(self, client_id: str) -> None:
        if self._owners.pop(client_id, None) is not None:
            self._rows.delete(client_id)

    def owner_of(self, client_id: str) -> str | None:
        """The owner of a client id; None if it is not a member, or if an earlier version of the broker stored it."""
        return self._owners.get(client_id)

    def members(self) -> list[tuple[str, str, str]]:
        """(group, client id, owner) of every member whose owner is known."""
        return [(group, name, owner) for name, owner in self._owners.items() for group in self._groups[name]]
