"""The groups of a running broker: stores them with their members, and notifies the members of changes.

`table.py` decides, and is pure. Here its decisions take effect: as rows of the metadata, as events of the trace, and as
NOTIFY_CONSUMER_IDS_CHANGED to the connected members. After a restart, the stored members are listed until a grace
period ends; a heartbeat in that time makes a member stay.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

import msgpack

from broker.durability.metadata import Table
from broker.feature import Core, CurrentRights, Feature
from broker.groups.client_id_users import ClientIdUsers
from broker.groups.group import ConsumerGroupInfo, Member
from broker.groups.outcomes import Leave
from broker.groups.table import GroupTable
from broker.groups.watch import GroupWatch
from model.events import EventKind
from model.grpc_limits import MAX_GRPC_CLIENTS
from model.heartbeat import ConsumerData, HeartbeatData
from model.quirks import Quirk
from remoting.connection import Connection
from remoting.request_code import RequestCode
from remoting.wire.field import Right

logger = logging.getLogger(__name__)

_SCHEMA = """
create table if not exists groups (name text primary key, version integer not null, created_ms integer not null);
create table if not exists members (
    group_name text not null, client_id text not null, data blob not null, primary key (group_name, client_id)
) without rowid;
create table if not exists epochs (
    group_name text not null, client_id text not null, epoch text not null, primary key (group_name, client_id)
) without rowid;
create table if not exists group_sharers (name text primary key, sharer integer not null);
"""


class Client(NamedTuple):
    """A client that has sent a heartbeat over a connection that is open."""

    connection: Connection
    client_id: str
    producer_groups: tuple[str, ...]
    checkers: tuple[str, ...] = ()  # the producer groups for which it answers checks of transactions
    heartbeat: HeartbeatData | None = None
    fingerprint: int | None = None  # of that heartbeat: if it had one, the client may next send the fingerprint alone


class Groups(Feature):
    """The groups of one broker: `table` to look groups and members up, and `clients` by number.

    The number of a client is that of its connection. Clients of RocketMQ 5 in one process may share a connection: the
    first one has its number, and the others have negative ones.

    Members of an earlier run stay listed for `restore_grace_s` without coming back. `versions_ahead`: how far the
    versions of groups are raised at the start, because an earlier master may have used more than are stored here.
    """

    def __init__(self, core: Core, restore_grace_s: float, *, versions_ahead: int = 0) -> None:
        self.table = GroupTable(quirks=core.quirks, shares=core.shares)
        self.watch = GroupWatch(core)
        self._users = ClientIdUsers(core.metadata, has_access_control=core.has_access_control)
        self.clients: dict[int, Client] = {}
        # Connection number -> client id -> number of the client, the last one to send a heartbeat at the end.
        self._numbers: dict[int, dict[str, int]] = {}
        self._last_number = 0
        # Producer group -> numbers of the clients that answer its checks, a dict as an ordered set.
        self.checkers: dict[str, dict[int, None]] = {}
        self._core = core
        core.metadata.add_tables(_SCHEMA)
        self._groups = Table(core.metadata, "groups", replicated=True)
        self._members = Table(core.metadata, "members", replicated=True)
        # Run ids and sharers have separate tables, because the files of earlier versions have no columns for them.
        self._run_ids = Table(core.metadata, "epochs", replicated=True)
        self._sharers = Table(core.metadata, "group_sharers", replicated=True)
        self._load(core.loop.time() + restore_grace_s, versions_ahead)

    def _load(self, expires_at: float, versions_ahead: int) -> None:
        """Load the groups and members that earlier runs have stored.

        Group versions continue at the wall clock or above: a power cut may have removed the newest versions from the
        file, and members that know these would ignore later versions with the same numbers. `versions_ahead` is for
        replicas, because the clock of another replica may be behind.
        """
        now_ms = int(self._core.clock_ms())
        sharers = dict[str, int](self._sharers.rows())
        for name, version, created_ms in self._groups.rows("name"):
            restored = max(version + versions_ahead, now_ms)
            self.table.restore(name, restored, created_ms, sharers.get(name, 0))
            if versions_ahead:
                self._groups.put(name, restored, created_ms)
        run_ids = {(group, client_id): run_id for group, client_id, run_id in self._run_ids.rows()}
        for group, client_id, data in self._members.rows("group_name, client_id"):
            member = ConsumerData.from_stored(msgpack.unpackb(data))
            self.table.restore_member(client_id, member, expires_at, run_ids.get((group, client_id), ""))
            self._users.restore_member(group, client_id)
        self._users.end_restore()

    # --- members -----------------------------------------------------------------------------------------------------

    def save_member(self, client_id: str, data: ConsumerData, run_id: str) -> None:
        """Store a member of a group, new or changed, and which run of the client it is."""
        self._members.put(data.group, client_id, msgpack.packb(data.to_stored()))
        self._run_ids.put(data.group, client_id, run_id)

    def record_user(self, group: str, client_id: str, connection: Connection) -> None:
        """Record that a member belongs to the owner of the connection over which its heartbeat arrived."""
        self._users.record_join(group, client_id, connection.owner)

    def user_of_id(self, name: str) -> str | None:
        """The owner of a member with this client id."""
        return self._users.user_of_id(name)

    def save_sharer(self, info: ConsumerGroupInfo) -> None:
        """Store the sharer of a group, if it has one."""
        if info.sharer:
            self._sharers.put(info.group, info.sharer)

    def save_group(self, info: ConsumerGroupInfo) -> None:
        """Store a group's version and creation time."""
        self._groups.put(info.group, info.version, info.created_ms)
        self._core.barrier.metadata_changed()

    def record_leave(self, leave: Leave, cause: str) -> None:
        """Record that a member left: emit the event, delete its rows, and announce it to the other features."""
        info, client_id = leave.group, leave.member.client_id
        self._core.emit(
            EventKind.MEMBER_LEAVE,
            cause=cause,
            group=info.group,
            client=client_id,
            version=info.version,
            n=len(info.members),
            detail=leave.reason.value,
        )
        self._members.delete(info.group, client_id)
        self._run_ids.delete(info.group, client_id)
        if self.table.find(info.group, client_id) is None:
            self._users.record_leave(info.group, client_id)
        self.save_group(info)
        self._core.features.member_left(info.group, client_id, cause, leave.reason.value)
        self.watch.report_disagreement(info, cause)

    def record_producer_groups(self, client: Client) -> None:
        """Record the producer groups in a heartbeat of a client; other clients of its connection keep theirs."""
        number = self._number_for(client)
        old_client = self.clients.get(number)
        self.clients[number] = client
        old_checkers = old_client.checkers if old_client is not None else ()
        if client.checkers != old_checkers:
            self._forget_checkers(number, old_checkers)
            for group in client.checkers:
                self.checkers.setdefault(group, {})[number] = None
            for group in client.checkers:
                self._core.features.producer_joined(group)

    def _number_for(self, client: Client) -> int:
        """The number of a client; of too many clients of a connection, that with the oldest heartbeat is forgotten."""
        connection = client.connection.number
        numbers = self._numbers.setdefault(connection, {})
        number = numbers.pop(client.client_id, None)
        if number is None:
            number = connection
            if numbers:
                self._last_number -= 1
                number = self._last_number
            if len(numbers) >= MAX_GRPC_CLIENTS:  # the first one stays: others look the connection up by its number
                oldest = next(each for each, used_by in numbers.items() if used_by != connection)
                self._forget_client(numbers.pop(oldest))
        numbers[client.client_id] = number
        return number

    def client_on(self, connection: Connection, client_id: str | None = None) -> tuple[int, Client | None]:
        """The client with an id on a connection, and its number; without an id that of the last heartbeat.

        Before its first heartbeat a client has the number of its connection.
        """
        numbers = self._numbers.get(connection.number)
        if numbers is None:
            return connection.number, None
        if client_id is not None and client_id not in numbers:
            return connection.number, None
        number = next(reversed(numbers.values())) if client_id is None else numbers[client_id]
        return number, self.clients[number]

    def forget_heartbeat(self, connection: Connection) -> None:
        """Forget a refused heartbeat, but not its sender: the next one must be complete, not a fingerprint alone."""
        for number in self._numbers[connection.number].values():
            self.clients[number] = self.clients[number]._replace(heartbeat=None, fingerprint=None)

    def _forget_client(self, number: int) -> None:
        client = self.clients.pop(number, None)
        if client is not None:
            self._forget_checkers(number, client.checkers)

    def _forget_checkers(self, number: int, groups: tuple[str, ...]) -> None:
        for group in groups:
            numbers = self.checkers.get(group, {})
            numbers.pop(number, None)
            if not numbers:
                self.checkers.pop(group, None)

    def end_old_connection(self, group: str, client_id: str, run_id: str, connection: Connection) -> None:
        """Close the connection that a member had before this one, if it is the same process.

        A client has one connection to a server, so it has left the old one: a router may have forgotten it, and then
        the system here notices nothing for minutes. Pops that wait on it would take messages that no member receives.
        """
        member = self.table.find(group, client_id)
        if member is None or not run_id or member.run_id != run_id or member.connection == connection.number:
            return
        old = self.clients.get(member.connection)
        if old is not None and Quirk.DUPLICATE_MEMBERS not in self._core.quirks:
            old.connection.abort()

    def connection_closed(self, connection: Connection) -> None:
        """Begin the grace period of the members behind a connection: they leave unless they reconnect in time."""
        for number in self._numbers.pop(connection.number, {}).values():
            self._forget_client(number)
        now = self._core.loop.time()
        if self.table.connection_closed(connection.number, now):
            self._core.driver.wake_by(self.table.next_deadline())

    def rights_changed(self, rights: CurrentRights) -> None:
        """Remove members whose user has lost the right to the group, and producers that may no longer answer checks.

        A client may send the fingerprint of its last heartbeat alone, which takes no right: that is forgotten, too.
        """
        cause, now = self._core.events.next_id(), self._core.loop.time()
        for group, client_id, owner in self._users.members():
            member = self.table.find(group, client_id)
            lost_right = "" if member is None else _lost(rights, owner, member)
            leave = self.table.remove(group, client_id, cause=cause, now=now) if lost_right else None
            if leave is not None:
                text = "member %s leaves group %s: %s has lost the right: %s"
                logger.warning(text, client_id, group, owner, lost_right)
                if leave.member.connection in self.clients:
                    self.forget_heartbeat(self.clients[leave.member.connection].connection)
                self.record_leave(leave, cause)
        for client in list(self.clients.values()):
            owner = client.connection.owner
            may_check = tuple(group for group in client.checkers if rights.allows(owner, Right.MEMBER, group))
            if may_check != client.checkers:
                self.record_producer_groups(client._replace(checkers=may_check, heartbeat=None, fingerprint=None))
        self.notify_members(now)

    def has_group_data(self, group: str) -> bool:
        """Whether the group has or had members."""
        return self.table.get(group) is not None

    def group_deleted(self, group: str, cause: str) -> None:
        """Forget a group without members."""
        self.table.delete(group)
        self._groups.delete(group)
        self._sharers.delete(group)
        self._members.delete_where("group_name", group)
        self._run_ids.delete_where("group_name", group)

    def stats(self) -> dict[str, int]:
        """How many groups there are, and how many producers have sent a heartbeat."""
        producers = sum(len(client.producer_groups) for client in self.clients.values())
        return {"groups": len(self.table.groups()), "producers": producers}

    # --- notifying ---------------------------------------------------------------------------------------------------

    def connection_of(self, group: str, client_id: str) -> Connection | None:
        """The connection over which a member of a group can be notified, or None."""
        member = self.table.find(group, client_id)
        client = self.clients.get(member.connection) if member is not None else None
        return None if client is None else client.connection

    def notify_members(self, now: float) -> None:
        """Notify the members of each group that changed and whose window is over.

        RocketMQ: ConsumerIdsChange, Broker2Client.notifyConsumerIdsChanged.
        """
        core = self._core
        for info in self.table.collect_notifications(now):
            header: dict[str, object] = {"group": info.group, "version": info.version, "cause": info.cause}
            body = None
            if Quirk.NOTIFY_WITHOUT_VERSION in core.quirks:
                header["version"] = -1
            elif (body := info.difference_since(info.notified_version)) is not None:
                header["since"] = info.notified_version
            info.notified_version = info.version
            sent = 0
            for member in info.members.values():
                client = self.clients.get(member.connection)
                if client is not None:
                    sent += client.connection.notify(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, header, body)
            core.emit(EventKind.NOTIFY_SENT, cause=info.cause, group=info.group, version=info.version, n=sent)
        core.driver.wake_by(self.table.next_deadline())

    def notify_all(self, info: ConsumerGroupInfo, cause: str) -> None:
        """Notify every member of a group to rebalance, although no member joined, left or changed."""
        now = self._core.loop.time()
        self.table.changed(info, cause, now)
        self.save_group(info)
        self.notify_members(now)

    def notify_released(self, waiting: dict[tuple[str, str], int], cause: str) -> None:
        """Notify members that were refused queues; (group, client id) -> how many of them are free now."""
        for (group, client_id), n in waiting.items():
            connection = self.connection_of(group, client_id)
            if connection is not None:
                connection.notify(RequestCode.NOTIFY_QUEUES_RELEASED, {"group": group, "n": n, "cause": cause})

    # --- deadlines ---------------------------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        """When a member expires, or a delayed notification is due."""
        return self.table.next_deadline()

    def expire(self, now: float) -> None:
        """Remove members whose session or grace period has ended, and send the notifications that are due."""
        cause = self._core.events.next_id()
        for leave in self.table.expire(now, cause=cause):
            self.record_leave(leave, cause)
        self.notify_members(now)


def _lost(rights: CurrentRights, owner: str, member: Member) -> str:
    """A right that this member needs and its owner does not have; "" if it has all of them."""
    if not rights.allows(owner, Right.MEMBER, member.data.group):
        return f"{Right.MEMBER.value} {member.data.group!r}"
    topics = (topic for topic in member.subscriptions if not rights.allows(owner, Right.CONSUME, topic))
    return next((f"{Right.CONSUME.value} {topic!r}" for topic in topics), "")
