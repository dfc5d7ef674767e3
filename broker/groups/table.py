"""Membership of consumer groups: when a group's version changes, and when its members are notified. Pure.

RocketMQ: ConsumerManager, ConsumerGroupInfo, DefaultConsumerIdsChangeListener. The two rules that decide whether a
heartbeat changed its group keep RocketMQ's names:

- `update_channel` is true when the member is new. RocketMQ keys members by connection, so that a reconnect lists
  one client twice and causes a needless rebalance; here members are keyed by client id, and a newer connection
  replaces the older one without a change. The run id in the heartbeats distinguishes two processes with one
  client id: the second is refused while the first is connected (`conflicting_member`), and evicts it after that
  (`evict_previous_process`). Nor can it commit, release or leave in the first one's name (`check_sender`).
- `update_subscription` is true when a topic appears or disappears. A higher version of a known subscription replaces
  its expression without a change of the group; an equal or lower one is ignored. RocketMQ keeps one subscription
  table per group, where members with different topics delete each other's on every heartbeat; here it is per member.

Every change raises the group version and notifies the members; `broker/groups/notifications.py` decides when.

A member leaves when it unregisters, when its session expires, or when its connection closes: then it stays for a short
grace period, and if it reconnects in time, the group does not change. RocketMQ removes it at once, so that each hiccup
of the network moves queues twice.
"""

from __future__ import annotations

from dataclasses import replace

from broker.groups.capacity import GroupCapacity
from broker.groups.group import NEVER, RESTORED, ConsumerGroupInfo, Member, update_subscription
from broker.groups.notifications import Notifications
from broker.groups.outcomes import HeartbeatOutcome, Leave, LeaveReason
from model.errors import ClientIdConflict, GroupNotExist, SystemBusy
from model.group_agreement import MODEL
from model.heartbeat import ConsumerData, MessageModel
from model.limits import LEASE_CLOSE_GRACE_S, MAX_MEMBERS_PER_GROUP, NOTIFY_WINDOW_S
from model.quirks import Quirk
from remoting.overload.shares import NO_SHARER, ShareBook, Sharer


class GroupTable:
    """All groups of one broker.

    Use: call a method, emit an event for each change that it returns, then notify the members of the groups that
    `collect_notifications(now)` returns; wait for `next_deadline()`, then call `expire(now)` and
    `collect_notifications`.
    """

    def __init__(
        self,
        *,
        quirks: frozenset[Quirk] = frozenset(),
        notify_window_s: float = NOTIFY_WINDOW_S,
        close_grace_s: float = LEASE_CLOSE_GRACE_S,
        shares: ShareBook | None = None,
    ) -> None:
        self._groups: dict[str, ConsumerGroupInfo] = {}
        # connection -> (group, key) of the members that use it, so that its end does not scan every group.
        self._by_connection: dict[int, dict[tuple[str, str], None]] = {}
        self._notifications = Notifications(notify_window_s)
        self._capacity = GroupCapacity(shares)
        self._quirks = quirks
        self._close_grace_s = close_grace_s
        self._earliest_expiry = NEVER

    # --- looking up --------------------------------------------------------------------------------------------------

    def get(self, group: str) -> ConsumerGroupInfo | None:
        """The group, or None."""
        return self._groups.get(group)

    def groups(self) -> list[ConsumerGroupInfo]:
        """All groups, sorted by name."""
        return [self._groups[name] for name in sorted(self._groups)]

    def find(self, group: str, client_id: str) -> Member | None:
        """A member of a group, or None."""
        info = self._groups.get(group)
        return None if info is None else info.members.get(client_id)

    def is_leaseless(self, group: str, client_id: str) -> bool:
        """Whether a client is a member that asks for no leases."""
        member = self.find(group, client_id)
        return member is not None and member.data.leaseless

    def member(self, group: str, client_id: str, connection: int = RESTORED) -> Member:
        """A member of a group; if `connection` is given and the member is connected, it must be over this connection.

        Raises:
            GroupNotExist: there is no such group or member; the client has to send a heartbeat.
        """
        member = self.find(group, client_id)
        if member is None or (
            member.connected
            and connection not in (member.connection, RESTORED)
            and Quirk.DUPLICATE_MEMBERS not in self._quirks
        ):
            raise GroupNotExist(f"{client_id!r} is not a member of group {group!r} here: send a heartbeat first")
        return member

    def conflicting_member(self, group: str, client_id: str, run_id: str, connection: int) -> Member | None:
        """The connected member with this client id and another run id, so of another process; or None.

        There is no conflict if the same process reconnects, or if the member's connection is closed. A process sends
        its run id in every heartbeat or in none, so a heartbeat without one comes from another process.
        """
        member = self.find(group, client_id)
        if member is None or not member.connected or connection == member.connection:
            return None
        is_other = member.run_id not in ("", run_id)
        return member if is_other and Quirk.DUPLICATE_MEMBERS not in self._quirks else None

    def check_sender(self, group: str, client_id: str, connection: int, run_id: str) -> None:
        """Check who acts in the name of a live member: its own connection, or its process over a new one.

        The new connection may be faster than the heartbeat that announces it, and than the close of the old one.
        Nothing is checked of a member that is not connected: its fencing token has to suffice.

        Raises:
            ClientIdConflict: it is another client.
        """
        member = self.find(group, client_id)
        if (
            member is not None
            and connection != member.connection
            and member.connected
            and (run_id == "" or run_id != member.run_id)
            and Quirk.DUPLICATE_MEMBERS not in self._quirks
        ):
            raise ClientIdConflict(
                f"client id {client_id!r} is that of a live member of group {group!r} over another connection: only "
                "that process may commit, release and leave in its name"
            )

    def _key(self, info: ConsumerGroupInfo, client_id: str, connection: int) -> str:
        """Key of a member: its client id, or under `DUPLICATE_MEMBERS` a key per further connection with that id."""
        first, own_key = info.members.get(client_id), f"{client_id} {connection}"
        if own_key in info.members:
            return own_key
        alone = first is None or first.connection in (connection, RESTORED)
        return client_id if alone or Quirk.DUPLICATE_MEMBERS not in self._quirks else own_key

    # --- joining and staying -----------------------------------------------------------------------------------------

    def restore(self, group: str, version: int, created_ms: int, sharer: int = 0) -> ConsumerGroupInfo:
        """Restore a group that an earlier run of the broker has stored."""
        info = self._groups[group] = self._new_group(group, version, created_ms)
        self._capacity.add_group(info, sharer)
        return info

    def check_new(self, group: str, sharer: Sharer) -> bool:
        """Whether a heartbeat would create this group. Raises: SystemBusy, if there are too many groups."""
        if group in self._groups:
            return False
        self._capacity.check_group(len(self._groups), sharer)
        return True

    def _new_group(self, group: str, version: int, created_ms: int) -> ConsumerGroupInfo:
        always_whole = bool(self._quirks & {Quirk.DUPLICATE_MEMBERS, Quirk.GROUP_WIDE_SUBSCRIPTION})
        return ConsumerGroupInfo(group, version, created_ms, always_whole=always_whole)

    def restore_member(self, client_id: str, data: ConsumerData, expires_at: float, run_id: str = "") -> None:
        """Restore a member: it is listed until `expires_at`, and its next heartbeat does not change the group.

        Without this a restarted broker would list the first member that comes back as the only one, and it would take
        every queue, only to lose most of them again a moment later.
        """
        subscriptions = {s.topic: s for s in data.subscriptions}
        info = self._groups[data.group]
        info.members[client_id] = Member(client_id, RESTORED, data, subscriptions, expires_at, run_id=run_id)
        self._capacity.add(info, data)
        self._earliest_expiry = min(self._earliest_expiry, expires_at)

    def heartbeat(
        self,
        client_id: str,
        data: ConsumerData,
        *,
        connection: int,
        cause: str,
        now: float,
        now_ms: int,
        run_id: str = "",
        sharer: Sharer = NO_SHARER,
    ) -> HeartbeatOutcome:
        """Apply one group of a heartbeat. RocketMQ: ConsumerManager.registerConsumer.

        Before it, the caller looks for a `conflicting_member` and calls `evict_previous_process`.

        Raises:
            SystemBusy: too many groups, members of this one, or subscriptions; nothing has changed.
        """
        info = self._groups.get(data.group) or self._new_group(data.group, now_ms, now_ms)
        is_new = self.check_new(data.group, sharer)
        key = self._key(info, client_id, connection)
        old = info.members.get(key)
        old_data, old_sharer = (None, 0) if old is None else (old.data, old.sharer)
        self._capacity.check(info, old_data, data, sharer, old_sharer)
        member, has_joined = self._update_channel(info, key, client_id, data, connection, now)
        if is_new:
            self._capacity.add_group(info, sharer.number)
        data_changed, member.run_id = old_data != data or member.run_id != run_id, run_id
        if old_data != data or old_sharer != sharer.number:
            if old_data is not None:
                self._capacity.remove(info, old_data, old_sharer)
            self._capacity.add(info, data, sharer.number)
            member.sharer = sharer.number
        topics_changed, expression_changed = update_subscription(member, data)
        if Quirk.GROUP_WIDE_SUBSCRIPTION in self._quirks:
            topics = tuple(sorted(subscription.topic for subscription in data.subscriptions))
            topics_changed, info.shared_topics = topics != info.shared_topics, topics
        if data.group_created_ms > 0:
            info.created_ms = min(info.created_ms, data.group_created_ms)
        if has_joined or topics_changed:
            self.changed(info, cause, now, client_id, joined=has_joined)
        return HeartbeatOutcome(
            group=info,
            member=member,
            joined=has_joined,
            resubscribed=not has_joined and (topics_changed or expression_changed),
            data_changed=data_changed,
        )

    def _update_channel(
        self, info: ConsumerGroupInfo, key: str, client_id: str, data: ConsumerData, connection: int, now: float
    ) -> tuple[Member, bool]:
        """Record the connection and session end of a member; returns the member, and whether it is new."""
        expires_at = now + data.session_timeout_s
        member = info.members.get(key)
        has_joined = member is None
        if member is None:
            if len(info.members) >= MAX_MEMBERS_PER_GROUP:
                raise SystemBusy(f"group {info.group!r} has {MAX_MEMBERS_PER_GROUP} members already")
            info.record_join(now)
            self._groups[info.group] = info  # now that nothing can refuse its first member
            member = info.members[key] = Member(client_id, connection, data, {}, expires_at)
        else:
            if member.connection != connection:
                self._forget_connection(member.connection, info.group, key)
            member.connection, member.data, member.expires_at = connection, data, expires_at
            member.grace_ends_at = NEVER
        self._by_connection.setdefault(connection, {})[(info.group, key)] = None
        self._earliest_expiry = min(self._earliest_expiry, expires_at)
        return member, has_joined

    def touch(self, group: str, client_id: str, connection: int, now: float) -> bool:
        """Extend the session of a member that pulled under a lease over its connection: it counts as a heartbeat.

        Returns whether it is a member, over this connection.
        """
        info = self._groups.get(group)
        member = info.members.get(client_id) if info is not None else None
        if member is None or member.connection != connection:
            return False
        member.expires_at = max(member.expires_at, now + member.data.session_timeout_s)
        return True

    # --- leaving -----------------------------------------------------------------------------------------------------

    def evict_previous_process(
        self, group: str, client_id: str, run_id: str, *, cause: str, now: float
    ) -> Leave | None:
        """Remove the disconnected member of an earlier process with this client id: a new process must not inherit it.

        The grace period after a closed connection is for the process that had it. A successor that inherited the member
        would inherit its leases, and their fencing tokens could not distinguish the two when the first reconnects.

        Returns:
            The member that left; None if there was no member, or if it has this run id or no run id.
        """
        member = self.find(group, client_id)
        if member is None or member.run_id in ("", run_id) or Quirk.DUPLICATE_MEMBERS in self._quirks:
            return None
        if member.data.rejoin_within_s:
            return None  # see `rejoin`
        return self._leave(group, client_id, LeaveReason.CLOSE, cause, now)

    def take_over(self, group: str, client_id: str, run_id: str) -> bool:
        """Let a new process take over the assignment of a disconnected member that may rejoin; returns whether it did.

        Kafka: static membership, `group.instance.id`. Its leases end, so that the tokens of both processes differ.
        """
        member = self.find(group, client_id)
        if member is None or member.connected or member.run_id in ("", run_id) or not member.data.rejoin_within_s:
            return False
        # The new process counts the versions of its subscriptions from the beginning.
        member.subscriptions = {topic: replace(s, version=-1) for topic, s in member.subscriptions.items()}
        return True

    def unregister_temporarily(self, group: str, client_id: str, now: float) -> Member | None:
        """Keep the assignment of a member that unregisters and may rejoin; None if it has no `rejoin_within_s`."""
        member = self.find(group, client_id)
        if member is None or not member.data.rejoin_within_s:
            return None
        self._forget_connection(member.connection, group, client_id)
        self._begin_grace(member, now)
        return member

    def _begin_grace(self, member: Member, now: float) -> None:
        """Begin the time after which a member that is not connected leaves."""
        member.grace_ends_at = now + max(self._close_grace_s, member.data.rejoin_within_s)
        if member.data.rejoin_within_s:
            member.expires_at = max(member.expires_at, member.grace_ends_at)
        self._earliest_expiry = min(self._earliest_expiry, member.grace_ends_at)

    def unregister(
        self, group: str, client_id: str, *, cause: str, now: float, connection: int = RESTORED
    ) -> Leave | None:
        """Remove a member that unregisters; None, without a notification, if there was no such member.

        Before it, the caller calls `check_sender`.
        """
        info = self._groups.get(group)
        key = self._key(info, client_id, connection) if info is not None else client_id
        return self._leave(group, key, LeaveReason.UNREGISTER, cause, now)

    def remove(self, group: str, client_id: str, *, cause: str, now: float) -> Leave | None:
        """Remove a member whose user has lost a right; None if there is no such member."""
        return self._leave(group, client_id, LeaveReason.RIGHT, cause, now)

    def connection_closed(self, connection: int, now: float) -> int:
        """Begin the grace period of the members whose last heartbeat came over this connection; returns their number.

        RocketMQ: doChannelCloseEvent, which removes them.
        """
        pairs = self._by_connection.pop(connection, {})
        for group, key in pairs:
            self._begin_grace(self._groups[group].members[key], now)
        return len(pairs)

    def expire(self, now: float, *, cause: str) -> list[Leave]:
        """Remove every member whose session or grace period has ended. RocketMQ: scanNotActiveChannel."""
        if now < self._earliest_expiry:
            return []
        members = [(info.group, key, m) for info in self._groups.values() for key, m in info.members.items()]
        due = [(group, key, member) for group, key, member in members if member.leaves_at <= now]
        leaves = [self._leave(group, key, _reason(member, now), cause, now) for group, key, member in due]
        self._earliest_expiry = min(
            (member.leaves_at for _, _, member in members if member.leaves_at > now), default=NEVER
        )
        return [leave for leave in leaves if leave is not None]

    def _leave(self, group: str, key: str, reason: LeaveReason, cause: str, now: float) -> Leave | None:
        info = self._groups.get(group)
        member = info.members.pop(key, None) if info is not None else None
        if info is None or member is None:
            return None
        self._forget_connection(member.connection, group, key)
        self._capacity.remove(info, member.data, member.sharer)
        silent = reason is LeaveReason.EXPIRY and Quirk.SILENT_EXPIRY in self._quirks
        self.changed(info, cause, now, member.client_id, notify=not silent)
        return Leave(group=info, member=member, reason=reason)

    def _forget_connection(self, connection: int, group: str, key: str) -> None:
        pairs = self._by_connection.get(connection)
        if pairs is not None:
            pairs.pop((group, key), None)
            if not pairs:
                del self._by_connection[connection]

    def delete(self, group: str) -> None:
        """Delete a group, which must have no members, if it exists."""
        info = self._groups.pop(group, None)
        assert info is None or not info.members, f"group {group!r} is deleted while it has members"
        if info is not None:
            self._notifications.forget(info)
            self._capacity.remove_group(info)

    # --- notifications -----------------------------------------------------------------------------------------------

    def changed(
        self,
        info: ConsumerGroupInfo,
        cause: str,
        now: float,
        client_id: str = "",
        *,
        joined: bool = False,
        notify: bool = True,
    ) -> None:
        """Raise the version of a group and schedule a notification of its members; `client_id` has changed, if any."""
        info.version += 1
        info.cause, info.changed_at = cause, now
        info.changes.append((info.version, client_id))
        # A broadcasting member reads every queue, so changes of other members do not concern it.
        if not info.settings.has(MODEL, MessageModel.CLUSTERING.value):
            self._notifications.forget(info)
        elif notify:
            self._notifications.schedule(info, now, joined)

    def collect_notifications(self, now: float) -> list[ConsumerGroupInfo]:
        """The groups whose members are notified now; each opens a window in which it is not returned again."""
        return self._notifications.collect_due(now)

    def next_deadline(self) -> float | None:
        """When to call `expire` and `collect_notifications` next, or None when nothing is pending."""
        earliest = min(self._notifications.earliest(), self._earliest_expiry)
        return None if earliest == NEVER else earliest


def _reason(member: Member, now: float) -> LeaveReason:
    return LeaveReason.CLOSE if member.grace_ends_at <= now else LeaveReason.EXPIRY
