"""Reads groups from all brokers of a cluster, and lists the queues of absent brokers.

Every broker knows only its own part of a group: its queues, and the members that send heartbeats to it. The parts are
merged here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from client.admin.expected_owners import group_info, newest_assignment
from client.admin.group_settings import settings_by_broker
from client.admin.records import AssignmentInfo, GroupInfo, GroupReport, GroupSummary, PoppedQueue
from client.admin.requests import Answer, ClusterRequests, list_names, successful_answers, unpack, unpack_group
from client.allocate.registry import strategies_named
from model.absent_broker import Absence
from model.counted import plural
from model.errors import GroupNotExist, IllegalOperation, RequestCodeNotSupported, RlabError
from model.limits import ABSENT_BROKER_KEPT_S
from model.topic_route import MASTER_ID, BrokerData, QueueData, TopicRoute
from remoting.command import Command
from remoting.request_code import RequestCode

_GROUP_REQUESTS = (
    RequestCode.GET_CONSUMER_CONNECTION_LIST,
    RequestCode.GET_CONSUME_STATS,
    RequestCode.GET_POP_STATS,
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG,
)


async def list_groups(cluster: ClusterRequests) -> tuple[GroupSummary, ...]:
    """See `Admin.groups`."""
    answers, _ = await cluster.ask_reachable(await cluster.masters(), RequestCode.GET_GROUP_LIST, {})
    members: dict[str, dict[str, int]] = {}
    for name, answer in answers.items():
        for group, n, _ in unpack(answer):
            members.setdefault(group, {})[name] = n
    # Every broker lists the whole group, so the counts are not added up.
    return tuple(
        GroupSummary(group=group, members=max(counts.values()), brokers=tuple(counts))
        for group, counts in sorted(members.items())
    )


async def group_now(cluster: ClusterRequests, group: str) -> GroupInfo:
    """See `Admin.group`."""
    header, masters = {"group": group}, await cluster.masters()
    reachable = [await cluster.ask_reachable(masters, code, header) for code in _GROUP_REQUESTS]
    lists, stats, pops, configs = (answers for answers, _ in reachable)
    reports = [
        GroupReport.from_wire(name, unpack_group(lists[name]), unpack_group(stats[name]), header_of(stats[name]))
        for name in lists
        if name in stats
    ]
    absence = await cluster.absent()
    is_set = any(isinstance(answer, Command) and answer.header["is_set"] for answer in configs.values())
    if not is_set and not any(report.members or report.queues for report in reports):
        listed = [each.group for each in await list_groups(cluster)]
        if group not in listed:  # its members may have left before they committed anything
            raise unknown_group(group, listed, absence)
    topics = {s.topic for report in reports for member in report.members for s in member.consumer.subscriptions}
    routes = {topic: await cluster.name_servers.route(topic) for topic in sorted(topics)}
    known_routes: dict[str, TopicRoute] = {topic: route for topic, route in routes.items() if route is not None}
    popped = [
        PoppedQueue.from_wire(name, row)
        for name, answer in pops.items()
        if not isinstance(answer, RequestCodeNotSupported)  # a broker without POP has popped nothing
        for row in unpack(answer)
    ]
    strategies = strategies_named({member.consumer.strategy for report in reports for member in report.members})
    silent = {name for _, away in reachable for name in away}
    kept_routes = with_kept_queues(known_routes, topics, absence)
    info = group_info(group, reports, kept_routes, silent, strategies, await assignment_of(cluster, group), popped)
    topics |= {row.queue.topic for row in info.queues}
    away = [queue for broker in absence.brokers for topic in topics for queue in broker.queues_of(topic)]
    return replace(info, settings=settings_by_broker(configs), absence=absence, absent_queues=tuple(sorted(away)))


def with_kept_queues(
    routes: Mapping[str, TopicRoute], topics: Iterable[str], absence: Absence
) -> Mapping[str, TopicRoute]:
    """The routes as members use them: including the queues that members keep for absent brokers.

    Members keep these queues for some time (`client/instance/routes.py`), so their targets contain them.
    """
    kept_routes = dict(routes)
    for topic in sorted(topics):
        for broker in absence.masters.values():
            config = broker.topic(topic)
            if config is None or broker.away_s >= ABSENT_BROKER_KEPT_S:
                continue
            old_route = kept_routes.get(topic, TopicRoute(topic=topic, queues=(), brokers=()))
            queue = QueueData(
                broker_name=broker.broker_name,
                read_queue_nums=config.read_queue_nums,
                write_queue_nums=config.write_queue_nums,
                perm=config.perm,
            )
            data = BrokerData(
                cluster=broker.cluster, broker_name=broker.broker_name, addresses={MASTER_ID: broker.address}
            )
            kept_routes[topic] = TopicRoute(
                topic=topic,
                queues=tuple(sorted((*old_route.queues, queue), key=lambda each: each.broker_name)),
                brokers=tuple(sorted((*old_route.brokers, data), key=lambda each: each.broker_name)),
            )
    return kept_routes


async def assignment_of(cluster: ClusterRequests, group: str) -> AssignmentInfo:
    """See `Admin.assignment`."""
    masters = await cluster.masters()
    answers, _ = await cluster.ask_reachable(masters, RequestCode.GET_GROUP_ASSIGNMENT, {"group": group})
    return newest_assignment(
        (name, answer.header["version"], unpack(answer))
        for name, answer in sorted(answers.items())
        if not isinstance(answer, RlabError)
    )


def header_of(answer: Answer) -> Mapping[str, Any]:
    """The fields that a broker adds to the progress of a group: damaged messages, and start offsets."""
    return {} if isinstance(answer, RlabError) else answer.header


def unknown_group(group: str, group_names: Iterable[str], absence: Absence | None = None) -> GroupNotExist:
    """The error about a group that no broker knows; it names the absent brokers, which may know it."""
    away = "".join(f"; {broker}, and may know it" for broker in (absence.masters.values() if absence else ()))
    return GroupNotExist(f"no broker knows group {group!r}; {list_names('known groups', group_names)}{away}")


async def delete_group(cluster: ClusterRequests, group: str) -> None:
    """See `Admin.delete_group`."""
    masters = await cluster.masters()
    lists = successful_answers(await cluster.ask(masters, RequestCode.GET_GROUP_LIST, {}), "nothing was deleted:")
    counts = {name: {row[0]: row[1] for row in unpack(answer)} for name, answer in lists.items()}
    members = {name: members_of[group] for name, members_of in counts.items() if group in members_of}
    if not members:
        raise unknown_group(group, sorted({name for members_of in counts.values() for name in members_of}))
    if any(members.values()):
        raise IllegalOperation(
            f"group {group!r} has {plural(max(members.values()), 'member')}: stop its members first; "
            f"'rlab group show {group}' lists them"
        )
    holders = {name: masters[name] for name in members}
    answers = await cluster.ask(holders, RequestCode.DELETE_SUBSCRIPTIONGROUP, {"group": group})
    successful_answers(answers, f"group {group!r} could not be deleted on", GroupNotExist)
