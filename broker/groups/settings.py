"""The settings that operators give a group on this broker: stored, sent to members, and read by the rooms above.

UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, GET_SUBSCRIPTIONGROUP_CONFIG. RocketMQ: SubscriptionGroupManager.

    consume, broadcast   pulls and pops of members are refused while it is off; those that are parked, at the change
    retry_queues         not stored: it is the number of queues that the retry topic of the group can be written
    max_attempts         counts at once where the broker decides; members that decide in order receive it
    fifo                 pops are in order, whatever they ask for
    retry_delays_ms      before a failed message is delivered again, where its consumer leaves that to the broker

Leases, commits and acknowledgements go on while a group is switched off: its members stay, and the messages
that they have processed are not processed again.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import msgpack

from broker.durability.metadata import Table
from broker.feature import Core, Feature
from broker.groups.members import Groups
from broker.topics.service import Topics
from model.errors import NoPermission, SystemBusy
from model.events import EventKind
from model.group_settings import DEFAULT_SETTINGS, OWN_ATTEMPTS, GroupSettings
from model.heartbeat import MessageModel
from model.limits import MAX_GROUPS
from model.names import check_group, retry_topic
from model.topic_route import TopicConfig
from remoting.command import Command, Reply
from remoting.connection import Connection
from remoting.overload.shares import Sharer, find_sharer
from remoting.request_code import RequestCode
from remoting.server import Handler

logger = logging.getLogger(__name__)

_SCHEMA = """
create table if not exists group_settings (
    group_name text primary key, consume integer not null, broadcast integer not null, max_attempts integer not null
) without rowid;
create table if not exists group_delivery (
    group_name text primary key, fifo integer not null, retry_delays blob not null
) without rowid;
"""
_FIELDS = ("consume", "broadcast", "retry_queues", "max_attempts", "fifo", "retry_delays_ms")
_NO_DELAYS: bytes = msgpack.packb(())


def _unpacked(delays: bytes) -> tuple[int, ...]:
    unpacked: Any = msgpack.unpackb(delays)
    return tuple(unpacked)


class StoredGroupSettings(Feature):
    """The settings of every group of one broker.

    `switched_off` has the groups whose members may be refused, `max_attempts` those where that is set, and `fifo` those
    whose pops are in order: a pull or a pop of any other group costs no more than a look there.
    """

    def __init__(self, core: Core, topics: Topics, groups: Groups) -> None:
        self.switched_off: dict[str, GroupSettings] = {}
        self.max_attempts: dict[str, int] = {}
        self.fifo: dict[str, None] = {}
        self._core = core
        self._topics = topics
        self._groups = groups
        self._of: dict[str, GroupSettings] = {}  # those that differ from the defaults in more than the retry queues
        core.metadata.add_tables(_SCHEMA)
        self._rows = Table(core.metadata, "group_settings", replicated=True)
        # A table of its own: the files of earlier commits have no column for them.
        self._delivery = Table(core.metadata, "group_delivery", replicated=True)
        delivery: dict[str, tuple[int, bytes]] = {
            group: (fifo, delays) for group, fifo, delays in self._delivery.rows()
        }
        for group, consume, broadcast, max_attempts in self._rows.rows("group_name"):
            fifo, delays = delivery.get(group, (0, _NO_DELAYS))
            settings = GroupSettings(
                consume=bool(consume),
                broadcast=bool(broadcast),
                max_attempts=max_attempts,
                fifo=bool(fifo),
                retry_delays_ms=_unpacked(delays),
            )
            self._apply(group, settings)

    def _apply(self, group: str, settings: GroupSettings) -> None:
        self._of[group] = settings
        self.switched_off.pop(group, None)
        self.max_attempts.pop(group, None)
        self.fifo.pop(group, None)
        if settings.fifo:
            self.fifo[group] = None
        if not (settings.consume and settings.broadcast):
            self.switched_off[group] = settings
        if settings.max_attempts != OWN_ATTEMPTS:
            self.max_attempts[group] = settings.max_attempts

    # --- looking up --------------------------------------------------------------------------------------------------

    def groups(self) -> list[str]:
        """The groups with settings of their own, sorted."""
        return sorted(self._of)

    def of(self, group: str) -> GroupSettings:
        """The settings of a group."""
        entry = self._topics.table.get(retry_topic(group))
        queues = 1 if entry is None else entry.config.write_queue_nums
        return replace(self._of.get(group, DEFAULT_SETTINGS), retry_queues=max(1, queues))

    def retry_delay_ms(self, group: str, attempts: int) -> int | None:
        """The delay of a group's next retry after this many failed attempts; None if operators have set none."""
        settings = self._of.get(group)
        return None if settings is None else settings.retry_delay_ms(attempts)

    def check_may_consume(self, group: str, client_id: str) -> None:
        """Check that a member of a group in `switched_off` may get messages. RocketMQ: PullMessageProcessor.

        Raises:
            NoPermission: it may not.
        """
        settings = self.switched_off[group]
        if not settings.consume:
            raise NoPermission(
                f"group {group!r} is switched off on broker {self._core.name!r}: to let it consume again, "
                f"'rlab group set {group} --consume'"
            )
        member = self._groups.table.find(group, client_id)
        if member is not None and member.data.model is MessageModel.BROADCASTING:
            raise NoPermission(
                f"group {group!r} may not broadcast on broker {self._core.name!r}: to let it, "
                f"'rlab group set {group} --broadcast'"
            )

    # --- requests ----------------------------------------------------------------------------------------------------

    def handlers(self) -> dict[RequestCode, Handler]:
        """Request code -> handler."""
        return {
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: self.update,
            RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: self.get,
        }

    def get(self, connection: Connection, request: Command) -> Reply:
        """The settings of a group; the defaults for one that is not known."""
        group = check_group(request.header["group"])
        settings = self.of(group)
        return Reply({"is_set": group in self._of, **settings.added}, msgpack.packb(settings.to_wire()))

    def update(self, connection: Connection, request: Command) -> None:
        """Change the settings that the request names; the answer follows once they are stored."""
        core, header, cause = self._core, request.header, ""
        group = check_group(header["group"])
        changes: dict[str, Any] = {name: header[name] for name in _FIELDS if header.get(name) is not None}
        if "retry_delays_ms" in changes:
            changes["retry_delays_ms"] = tuple(changes["retry_delays_ms"])
        old = self.of(group)
        settings = replace(old, **changes)
        if group not in self._of and len(self._of) >= MAX_GROUPS:
            raise SystemBusy(f"this broker has settings of {MAX_GROUPS} groups: delete groups that are not needed")
        if group not in self._of or settings != old:
            cause = core.events.cause_of(header.get("cause"))
            self._change(group, old, settings, cause, find_sharer(connection.owner))
        answer = {"cause": cause, **settings.added}
        core.barrier.respond_after_commit(connection, request, answer, msgpack.packb(settings.to_wire()))

    def _change(self, group: str, old: GroupSettings, settings: GroupSettings, cause: str, sharer: Sharer) -> None:
        core = self._core
        if settings.retry_queues != old.retry_queues:
            # First, because it may be refused. All queues stay readable: failed messages may wait in them.
            read = max(settings.retry_queues, self._topics.ensure_retry(group, cause, sharer).config.read_queue_nums)
            config = TopicConfig(topic=retry_topic(group), read_queue_nums=read, write_queue_nums=settings.retry_queues)
            self._topics.put(config, cause)
        core.emit(EventKind.GROUP_SETTINGS_CHANGED, cause=cause, group=group, detail=str(settings))
        self._apply(group, settings)
        self._rows.put(group, int(settings.consume), int(settings.broadcast), settings.max_attempts)
        self._delivery.put(group, int(settings.fifo), msgpack.packb(settings.retry_delays_ms))
        core.barrier.metadata_changed()
        if settings.max_attempts != old.max_attempts:
            self._notify_members(group, settings, cause)
        core.features.group_settings_changed(group)
        logger.info("broker %s: settings of group %r: %s", core.name, group, settings)

    def _notify_members(self, group: str, settings: GroupSettings, cause: str) -> None:
        info = self._groups.table.get(group)
        header = {"group": group, "max_attempts": settings.max_attempts, "cause": cause}
        for client_id in () if info is None else info.members:
            member_connection = self._groups.connection_of(group, client_id)
            if member_connection is not None:
                member_connection.notify(RequestCode.NOTIFY_GROUP_SETTINGS, header)

    # --- what happens elsewhere --------------------------------------------------------------------------------------

    def has_group_data(self, group: str) -> bool:
        """Whether a group has settings of its own."""
        return group in self._of

    def group_deleted(self, group: str, cause: str) -> None:
        """Forget the settings of a group."""
        self._apply(group, DEFAULT_SETTINGS)
        del self._of[group]
        self._rows.delete(group)
        self._delivery.delete(group)
