"""The rows of a group: the owner, the target and the lag of each queue, and why owner and target differ. Pure.

    rows_of(info)           ->  {"orders@broker-a:3": ["orders@broker-a:3", "c1", ["c2"], 17, 4, "c1 still ...", None]}
    changed_rows(before, now)    ->  the rows to send to a page

A row is [queue, owner, targets, lag, messages in flight, why the owner is not the target, holders]. A queue whose
messages are shared has no owner. It has holders instead: [[client id, its messages in flight], ...].
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from client.admin.records import GroupInfo, QueueProgress
from model.heartbeat import ConsumeType
from model.names import retry_topic

Row = list[Any]
LAG, IN_FLIGHT, WHY, HOLDERS = 3, 4, 5, 6
"""Indexes in a row; lag, messages in flight and holders change with every message, and are sent less often."""


def with_progress(info: GroupInfo, progress: Iterable[QueueProgress]) -> GroupInfo:
    """Return a group with newer owners and offsets of its queues; targets stay until the next poll of the group."""
    newer = {each.queue: each for each in progress}
    return replace(
        info,
        queues=tuple(
            replace(newer[each.queue], targets=each.targets) if each.queue in newer else each for each in info.queues
        ),
    )


def rows_of(info: GroupInfo) -> dict[str, Row]:
    """Return the rows of a group by queue."""
    popped = {each.queue: each.in_flight for each in info.popped_queues}
    holders = {
        each.queue: [list(count_of_client) for count_of_client in each.in_flight_of.items()]
        for each in info.popped_queues
    }
    shared = _shared_topics(info)
    why = _OwnerExplainer(info)
    return {
        str(each.queue): [
            str(each.queue),
            each.owner,
            list(each.targets),
            each.lag,
            popped.get(each.queue, each.in_flight),
            why.of(each),
            holders.get(each.queue, []) if each.owner is None and each.queue.topic in shared else None,
        ]
        for each in info.queues
    } | {
        str(queue): [str(queue), None, [], None, None, f"{info.away[queue.broker_name].why}: it is away", None]
        for queue in info.absent_queues
    }


def _shared_topics(info: GroupInfo) -> frozenset[str]:
    """Topics whose messages are shared, instead of their queues; a retry topic if every member shares messages."""
    topics = {topic for member in info.members for topic in info.popped_by(member)}
    if info.members and all(info.mode_of(member) == "pop" for member in info.members):
        topics.add(retry_topic(info.group))
    return frozenset(topics)


class _OwnerExplainer:
    """Explains why the owner of a queue is not its target."""

    def __init__(self, info: GroupInfo) -> None:
        self._is_broadcasting = info.broadcasting
        self._members = {member.client_id: member for member in info.members}
        self._away = frozenset(info.unreachable)
        self._stranded = frozenset(info.stranded)
        self._off = frozenset(info.switched_off)
        self._popped = _shared_topics(info)

    def of(self, progress: QueueProgress) -> str:
        """Return a sentence without its full stop; empty if nothing is wrong."""
        owner, targets, queue = progress.owner, progress.targets, progress.queue
        if queue.broker_name in self._away:
            return f"{queue.broker_name} does not answer"
        if queue.broker_name in self._off:
            return f"the group is switched off at {queue.broker_name}"
        if queue in self._stranded:
            return "the members' strategies assign it to no member"
        if len(targets) > 1 and not self._is_broadcasting:
            return f"members disagree: it is the target of {len(targets)} of them"
        if owner is not None and owner not in self._members:
            return f"{owner} has left, and its lease has not ended yet"
        if owner is not None and (why := self._members[owner].away_at.get(queue.broker_name)):
            return f"{owner} does not answer: {why}"
        if owner is not None and self._members[owner].suspended:
            return f"{owner} is suspended: it calls no listener"
        if progress.settled or self._is_broadcasting or queue.topic in self._popped:
            return ""
        return self._moving(owner, targets)

    def _moving(self, owner: str | None, targets: Sequence[str]) -> str:
        if not targets:
            if owner is None:
                return ""
            return f"{owner} holds it, and no member should"
        if owner is None:
            return f"{targets[0]} has not requested it yet, or the answer is in flight"
        return f"{targets[0]} waits: {owner} has not drained and released it yet"


def members_of(info: GroupInfo) -> list[dict[str, Any]]:
    """Return the members of a group for its page."""
    return [
        {
            "id": member.client_id,
            "address": member.address,
            "strategy": member.strategy if member.consume_type is not ConsumeType.POP else "",
            "mode": info.mode_of(member),
            "queues": len(member.queues),
            "suspended": member.suspended,
            "silent": bool(member.away_at),
        }
        for member in info.members
    ]


def changed_rows(old_rows: Mapping[str, Row], new_rows: Mapping[str, Row], *, counts: bool) -> list[Row]:
    """Return the rows that are new or have changed; without `counts`, changes of counts alone are ignored."""
    if counts:
        return [row for name, row in new_rows.items() if old_rows.get(name) != row]
    return [row for name, row in new_rows.items() if name not in old_rows or _plain(old_rows[name]) != _plain(row)]


def _plain(row: Row) -> Row:
    return [*row[:LAG], row[WHY], row[HOLDERS] is None]


def removed_queues(old_rows: Mapping[str, Row], new_rows: Mapping[str, Row]) -> list[str]:
    """Return the queues that no longer exist."""
    return [name for name in old_rows if name not in new_rows]
