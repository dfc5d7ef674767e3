"""Membership: HEART_BEAT, UNREGISTER_CLIENT, GET_CONSUMER_LIST_BY_GROUP; and DELETE_SUBSCRIPTIONGROUP.

A heartbeat has all groups of a client with its subscriptions: in each group the client joins, stays, or changes its
data. A client whose heartbeat has not changed sends only the fingerprint of the last one.

RocketMQ: ClientManageProcessor.
"""

from __future__ import annotations

import logging
import math
from typing import Any

import msgpack

from broker.feature import Core, Feature
from broker.groups.group import NEVER
from broker.groups.members import Client, Groups
from broker.groups.outcomes import HeartbeatOutcome
from broker.groups.settings import StoredGroupSettings
from broker.topics.service import Topics
from model.errors import GroupNotExist, IllegalOperation, RlabError
from model.events import EventKind
from model.heartbeat import ConsumerData, HeartbeatData
from model.names import check_group, retry_topic
from remoting.body import unpack_body
from remoting.command import Command, Reply
from remoting.connection import Connection
from remoting.overload.shares import find_sharer
from remoting.request_code import RequestCode
from remoting.server import Handler

logger = logging.getLogger(__name__)

_MAX_WARNINGS = 16
"""Most warnings in one answer, whatever the number of groups of the client."""
_SHOWN_MEMBERS = 5


class GroupHandlers(Feature):
    """Serves members: they join, stay, change and leave, and ask for the member list. Operators delete a group."""

    def __init__(self, core: Core, topics: Topics, groups: Groups, settings: StoredGroupSettings) -> None:
        self._core = core
        self._topics = topics
        self._groups = groups
        self._settings = settings

    def handlers(self) -> dict[RequestCode, Handler]:
        """Request code -> handler."""
        return {
            RequestCode.HEART_BEAT: self.heartbeat,
            RequestCode.UNREGISTER_CLIENT: self.unregister,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: self.consumer_list,
            RequestCode.DELETE_SUBSCRIPTIONGROUP: self.delete,
        }

    def heartbeat(self, connection: Connection, request: Command) -> Reply:
        """Join, stay in or change groups."""
        groups = self._groups
        heartbeat = self._heartbeat_of(connection, request)
        if heartbeat is None:
            return Reply({"groups": {}, "unknown": True})
        now = self._core.loop.time()
        self._refuse_conflicts(heartbeat, connection, now)
        fingerprint = request.header.get("fingerprint")
        groups.record_producer_groups(
            Client(
                connection, heartbeat.client_id, heartbeat.producer_groups, heartbeat.checkers, heartbeat, fingerprint
            )
        )
        outcomes: dict[str, tuple[int, int, bool]] = {}
        warnings: list[str] = []
        try:
            for data in heartbeat.consumers:
                outcome = self._apply_group(heartbeat, data, connection, now)
                outcomes[data.group] = (outcome.group.version, outcome.group.created_ms, outcome.joined)
                warnings += groups.watch.warnings(outcome.group, outcome.member)
        except RlabError:
            # A refused heartbeat is not kept: it may be as large as a frame, and no limit on members counts it.
            groups.forget_heartbeat(connection)
            raise
        finally:
            # Even if a group was refused: the groups before it in this heartbeat have changed, and their members have
            # to be notified.
            groups.notify_members(now)
        answer: dict[str, Any] = {"groups": outcomes, "takes_fingerprints": True}
        if warnings:
            answer["warnings"] = warnings[:_MAX_WARNINGS]
        if self._settings.max_attempts:
            answer["max_attempts"] = {
                group: self._settings.max_attempts[group] for group in outcomes if group in self._settings.max_attempts
            }
        return Reply(answer)

    def _heartbeat_of(self, connection: Connection, request: Command) -> HeartbeatData | None:
        """The heartbeat of a request, or the last one if it sends only a fingerprint; None if that does not match."""
        fingerprint = request.header.get("fingerprint")
        if request.body or fingerprint is None:
            return HeartbeatData.from_wire(unpack_body(request.body))
        _, client = self._groups.client_on(connection)
        return client.heartbeat if client is not None and client.fingerprint == fingerprint else None

    def _refuse_conflicts(self, heartbeat: HeartbeatData, connection: Connection, now: float) -> None:
        """Refuse a second process with the client id of a live member, before it joins any of its groups."""
        table = self._groups.table
        for data in heartbeat.consumers:
            member = table.conflicting_member(data.group, heartbeat.client_id, heartbeat.run_id, connection.number)
            if member is not None:
                raise self._groups.watch.refuse(
                    data.group,
                    member,
                    self._groups.clients[member.connection].connection.peer,
                    run_id=heartbeat.run_id,
                    refused_at=connection.peer,
                    cause=self._core.events.cause_of(heartbeat.cause),
                    now=now,
                )

    def _apply_group(
        self, heartbeat: HeartbeatData, data: ConsumerData, connection: Connection, now: float
    ) -> HeartbeatOutcome:
        """Apply one group of a heartbeat to the table, and make the changes visible and durable."""
        core, groups, client_id = self._core, self._groups, heartbeat.client_id
        sharer = find_sharer(connection.owner)
        is_new = groups.table.check_new(data.group, sharer)
        # Before the group changes: if the retry topic is refused, no member must have joined.
        self._topics.ensure_retry(data.group, heartbeat.cause, sharer)
        cause = core.events.cause_of(heartbeat.cause)
        # In this order: first the member of an earlier process goes, or the new process takes its place. Then only an
        # old connection of the same process is closed.
        evicted = groups.table.evict_previous_process(data.group, client_id, heartbeat.run_id, cause=cause, now=now)
        if evicted is not None:
            groups.record_leave(evicted, cause)
        if groups.table.take_over(data.group, client_id, heartbeat.run_id):
            self._emit_member(EventKind.MEMBER_BACK, data.group, client_id, cause)
            core.features.process_replaced(data.group, client_id, cause)
        groups.end_old_connection(data.group, client_id, heartbeat.run_id, connection)
        outcome = groups.table.heartbeat(
            client_id,
            data,
            connection=connection.number,
            cause=cause,
            now=now,
            now_ms=int(core.clock_ms()),
            run_id=heartbeat.run_id,
            sharer=sharer,
        )
        info = outcome.group
        groups.record_user(data.group, client_id, connection)
        if is_new:
            groups.save_sharer(info)
        core.driver.wake_by(now + data.session_timeout_s)
        if outcome.joined or outcome.resubscribed:
            core.emit(
                EventKind.MEMBER_JOIN if outcome.joined else EventKind.SUBSCRIPTION_CHANGE,
                cause=cause,
                group=info.group,
                client=client_id,
                version=info.version,
                n=len(info.members),
                detail=" ".join(map(str, data.subscriptions)),
            )
        groups.watch.report_disagreement(info, cause)
        if outcome.data_changed:
            groups.save_member(client_id, data, heartbeat.run_id)
            groups.save_group(info)
        return outcome

    def unregister(self, connection: Connection, request: Command) -> Reply:
        """Leave groups. If no member was removed, no member is notified; RocketMQ notifies them all the same."""
        core, groups, header = self._core, self._groups, request.header
        client_id, run_id = header["client_id"], header.get("epoch") or ""
        for group in header["groups"]:
            groups.table.check_sender(group, client_id, connection.number, run_id)
        cause = core.events.cause_of(header.get("cause"))
        now = core.loop.time()
        for group in header["groups"]:
            if header.get("rejoin") and groups.table.unregister_temporarily(group, client_id, now) is not None:
                self._emit_member(EventKind.MEMBER_AWAY, group, client_id, cause)
                core.driver.wake_by(groups.table.next_deadline() or now)
                core.features.client_unregistered(connection, group, client_id)
                continue
            leave = groups.table.unregister(group, client_id, cause=cause, now=now, connection=connection.number)
            if leave is not None:
                groups.record_leave(leave, cause)
            core.features.client_unregistered(connection, group, client_id)
        groups.notify_members(now)
        return Reply({})

    def _emit_member(self, kind: EventKind, group: str, client_id: str, cause: str) -> None:
        info = self._groups.table.get(group)
        assert info is not None, "a member's group exists"
        self._core.emit(kind, cause=cause, group=group, client=client_id, version=info.version, n=len(info.members))

    def consumer_list(self, connection: Connection, request: Command) -> Reply:
        """Answer with the members of a group, or with the difference from the caller's version, if that is shorter."""
        group = check_group(request.header["group"])
        info = self._groups.table.get(group)
        if info is None:
            return Reply({"version": 0}, msgpack.packb([0, []]))
        header: dict[str, object] = {"version": info.version}
        until_notification_s = info.notify_at - self._core.loop.time()
        if 0 < until_notification_s < NEVER:
            header["notify_in_ms"] = math.ceil(until_notification_s * 1000)
        known_version = request.header["known_version"]
        if known_version == info.version:
            return Reply({**header, "unchanged": True})
        difference = info.difference_since(known_version) if request.header.get("difference") else None
        if difference is not None:
            return Reply({**header, "difference": True}, difference)
        return Reply(header, info.whole_list())

    def delete(self, connection: Connection, request: Command) -> None:
        """Delete a group with its offsets and its retry topic; its dead-letter messages stay.

        The answer follows once that is stored.

        RocketMQ: AdminBrokerProcessor.deleteSubscriptionGroup, which deletes the settings of a group even while it
        consumes, and its offsets only if asked. Here it is refused while there are members: they would continue to
        commit, and so create the group again with only a part of its offsets.
        """
        core, group, cause = self._core, check_group(request.header["group"]), request.header.get("cause") or ""
        if not core.features.has_group_data(group):
            raise GroupNotExist(f"group {group!r} is not known to broker {core.name!r}")
        info = self._groups.table.get(group)
        if info is not None and info.members:
            names = sorted(info.members)
            more_text = f" and {len(names) - _SHOWN_MEMBERS} more" if len(names) > _SHOWN_MEMBERS else ""
            raise IllegalOperation(
                f"group {group!r} has members on broker {core.name!r}: {', '.join(names[:_SHOWN_MEMBERS])}"
                f"{more_text}; stop them first. A killed consumer is a member until its session, or after a restart "
                "of the broker the grace period, ends"
            )
        core.features.group_deleted(group, cause)
        if self._topics.table.get(retry_topic(group)) is not None:
            # A later group of this name must not get the failed messages of this one.
            self._topics.delete(retry_topic(group), cause)
        logger.info("broker %s: group %r was deleted", core.name, group)
        core.barrier.respond_after_commit(connection, request)
