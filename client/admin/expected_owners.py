"""The queues that each member of a group should own, computed from outside; and the group as one record. Pure.

Each member computes its own assignment (`client/rebalance/plan.py`). So an observer can compute all of them, from the
same inputs: the route, the member list of the broker that the member asks, and the strategy that its heartbeat names.

    broker-a lists members A, B of group "orders", 3 queues on broker-a, strategy AVG
    compute_expected_owners(...)  ->  {orders@broker-a:0: (A,), orders@broker-a:1: (A,), orders@broker-a:2: (B,)}

Current and target owners differ for a moment in every rebalance. If they stay different, something is wrong, and the
record shows which input of the computation differs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from client.admin.records import (
    NO_ASSIGNMENT,
    AssignmentInfo,
    GroupInfo,
    GroupMemberInfo,
    GroupReport,
    MemberReport,
    PoppedQueue,
    TopicModeInfo,
    describe_expiry,
)
from client.allocate import AllocateMessageQueueStrategy
from client.rebalance.plan import allocate_target
from model.assignment import BROKER_STRATEGY, MemberAssignment, RequestMode
from model.group_agreement import disagreements
from model.heartbeat import ConsumeType, GroupView
from model.limits import HEARTBEAT_INTERVAL_S
from model.message_queue import MessageQueue
from model.names import is_retry_topic
from model.topic_route import TopicRoute


def merge_members(reports: Sequence[GroupReport]) -> tuple[GroupMemberInfo, ...]:
    """The members of a group, sorted by client id; each is merged from the reports of all brokers.

    Where reports of one member differ, it has just changed and only some brokers know. The newest report counts: the
    report of the broker where the member expires last.
    """
    brokers_of: dict[str, list[str]] = {}
    queues: dict[str, list[MessageQueue]] = {}
    away: dict[str, dict[str, str]] = {}
    for report in reports:
        for member in report.members:
            brokers_of.setdefault(member.client_id, []).append(report.broker_name)
            queues.setdefault(member.client_id, []).extend(member.queues)
            if why := absence_reason(member):
                away.setdefault(member.client_id, {})[report.broker_name] = why
    return tuple(
        GroupMemberInfo(
            client_id=client_id,
            address=newest.address,
            subscriptions=newest.consumer.subscriptions,
            strategy=newest.consumer.strategy,
            model=newest.consumer.model,
            consume_type=newest.consumer.consume_type,
            expires_in_s=newest.expires_in_s,
            queues=tuple(sorted(dict.fromkeys(queues[client_id]))),
            brokers=tuple(sorted(dict.fromkeys(brokers_of[client_id]))),
            suspended=newest.consumer.suspended,
            away_at=away.get(client_id, {}),
        )
        for client_id, newest in sorted(_newest(reports).items())
    )


def absence_reason(member: MemberReport) -> str:
    """Why a member seems dead at the broker that reports it, and when it leaves there; "" if it does not seem so.

    An open connection proves little: a killed host or a cut network closes none. Members send heartbeats at least three
    times in a session, and pulls count as well, so a member that is silent for two intervals does not answer.
    """
    leaves = f"it leaves in {describe_expiry(member.expires_in_s)} unless it comes back"
    if not member.address:
        return f"its connection is closed, and {leaves}"
    session_s = member.consumer.session_timeout_s
    silent_s = session_s - member.expires_in_s
    is_silent = silent_s > 2 * min(HEARTBEAT_INTERVAL_S, session_s / 3)
    return f"no heartbeat for {silent_s:.0f} s, and {leaves}" if is_silent else ""


def _newest(reports: Sequence[GroupReport]) -> dict[str, MemberReport]:
    """Client id -> the report of the broker that received its last heartbeat."""
    newest: dict[str, MemberReport] = {}
    for report in reports:
        for member in report.members:
            other = newest.get(member.client_id)
            if other is None or other.expires_in_s < member.expires_in_s:
                newest[member.client_id] = member
    return newest


def compute_expected_owners(
    group: str,
    members: Sequence[GroupMemberInfo],
    routes: Mapping[str, TopicRoute],
    views: Mapping[str, GroupView],
    strategies: Mapping[str, AllocateMessageQueueStrategy],
) -> dict[MessageQueue, tuple[str, ...]]:
    """Compute which queues every member should own.

    Members that pop, and those whose strategy is not in `strategies`, are left out. A topic that is not in `routes`
    does not exist; `views` has the member lists by broker name, of brokers that answered. If members made
    CONSISTENT_HASH with other arguments, which the name does not show, the target is wrong.

    Client ids are sorted; queues without an owner are left out.
    """
    queues_of = {topic: route.subscribe_queues() for topic, route in routes.items()}
    target: dict[MessageQueue, tuple[str, ...]] = {}
    for member in sorted(members, key=lambda member: member.client_id):
        topics = [subscription.topic for subscription in member.subscriptions]
        view = _view_of(topics, routes, views)
        strategy = strategies.get(member.strategy)
        if view is None or strategy is None or member.consume_type is ConsumeType.POP:
            continue
        for queue in allocate_target(strategy, group, member.client_id, member.model, topics, queues_of, view):
            target[queue] = (*target.get(queue, ()), member.client_id)
    return target


def _view_of(
    topics: Sequence[str], routes: Mapping[str, TopicRoute], views: Mapping[str, GroupView]
) -> GroupView | None:
    # The rule of `client/instance/views.py`: the first broker, by name, that serves a topic of the member and answers.
    serving = {
        broker.broker_name
        for topic in topics
        if topic in routes and not is_retry_topic(topic)
        for broker in routes[topic].brokers
    }
    return next((views[name] for name in sorted(serving) if name in views), None)


def newest_assignment(answers: Iterable[tuple[str, int, Any]]) -> AssignmentInfo:
    """Choose the newest of the assignments that brokers have: `answers` are broker name, version and body of each."""
    newest = NO_ASSIGNMENT
    modes: dict[str, TopicModeInfo] = {}
    for name, version, (rows, set_modes) in answers:
        for topic, mode, share in set_modes:
            modes[topic] = TopicModeInfo(topic=topic, mode=RequestMode(mode), pop_share_queue_num=share)
        if version > newest.version:
            assigned = {client_id: MemberAssignment.from_wire(version, wire) for client_id, *wire in rows}
            newest = AssignmentInfo(coordinator=name, version=version, members=assigned, modes=())
    return replace(newest, modes=tuple(modes[topic] for topic in sorted(modes)))


def group_info(
    group: str,
    reports: Sequence[GroupReport],
    routes: Mapping[str, TopicRoute],
    unreachable: Iterable[str],
    strategies: Mapping[str, AllocateMessageQueueStrategy],
    assignment: AssignmentInfo = NO_ASSIGNMENT,
    popped_queues: Iterable[PoppedQueue] = (),
) -> GroupInfo:
    """Make the record of a group from the reports of all brokers that answered, also of those that do not know it.

    `routes` and `strategies` are as in `compute_expected_owners`; `assignment` is for members that leave it to a
    broker.
    """
    members = merge_members(reports)
    views = {
        report.broker_name: GroupView(
            group=group,
            version=report.version,
            members={
                member.client_id: tuple(subscription.topic for subscription in member.consumer.subscriptions)
                for member in report.members
            },
            copies={cid: n for cid, n in Counter(each.client_id for each in report.members).items() if n > 1},
        )
        for report in reports
    }
    target = compute_expected_owners(group, members, routes, views, strategies)
    for queue, client_id in assignment.targets().items():
        target[queue] = tuple(sorted({*target.get(queue, ()), client_id}))
    progress = (progress for report in reports for progress in report.queues)
    return GroupInfo(
        group=group,
        version=max((report.version for report in reports), default=0),
        created_ms=min((report.created_ms for report in reports if report.created_ms), default=0),
        members=members,
        queues=tuple(
            replace(each, targets=target.get(each.queue, ())) for each in sorted(progress, key=lambda each: each.queue)
        ),
        disagreements=disagreements({cid: member.consumer for cid, member in _newest(reports).items()}),
        unknown_strategies=tuple(sorted({member.strategy for member in members} - {*strategies, BROKER_STRATEGY})),
        assignment=assignment,
        popped_queues=tuple(sorted(popped_queues, key=lambda each: each.queue)),
        unreachable=tuple(sorted(unreachable)),
    )
