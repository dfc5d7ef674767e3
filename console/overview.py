"""The cluster, its topics and its groups as documents for pages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import anyio

from client.admin.admin import Admin
from client.admin.records import BrokerInfo, TopicInfo
from model.absent_broker import AbsentBroker
from model.counted import plural
from model.errors import RlabError, TopicNotExist
from model.names import DLQ_PREFIX, RETRY_PREFIX, TRACE_TOPIC, is_system_topic

_GROUP_TOPICS = {RETRY_PREFIX: "retries", DLQ_PREFIX: "dead letters"}
_KINDS = ["", *_GROUP_TOPICS.values(), "system"]
"""The kinds of topics in the order of a list."""


async def overview(admin: Admin, trace_problem: str) -> dict[str, Any]:
    """Return name servers, brokers, topics and groups; `problems` has the errors of those that do not answer.

    The group with most members is first.

    Cancellation: harmless.
    """
    problems = [trace_problem] if trace_problem else []
    infos: dict[str, BrokerInfo | RlabError] = {}
    registered: dict[str, str] = {}
    sets: dict[str, dict[str, Any]] = {}
    groups: list[dict[str, Any]] = []

    absence = await admin.absent_brokers()
    problems += [
        f"{broker.why}: its queues and its part of the trace are missing" for broker in absence.masters.values()
    ]
    if absence.known_for_s is None:
        problems.append(absence.limit)
    try:
        brokers = await admin.brokers()
        registered = {each.broker_name: each.master or "" for each in brokers}
        infos = await _infos(admin, registered)
        sets = await _sets(admin, [each.broker_name for each in brokers if each.set_id])
        groups = [
            {"group": each.group, "members": each.members, "brokers": list(each.brokers)}
            for each in sorted(await admin.groups(), key=lambda group: (-group.members, group.group))
        ]
    except RlabError as error:
        problems.append(str(error))
    return {
        "brokers": [
            _broker(name, address, infos.get(name)) | {"copies": sets.get(name)}
            for name, address in sorted(registered.items())
        ]
        + [_absent(broker) for broker in absence.brokers if broker.broker_name not in registered],
        "topics": _topics([info for info in infos.values() if isinstance(info, BrokerInfo)]),
        "groups": groups,
        "problems": problems,
    }


def _broker(name: str, address: str, info: BrokerInfo | RlabError | None) -> dict[str, Any]:
    if not isinstance(info, BrokerInfo):
        return {"name": name, "address": address, "error": str(info or "not asked")}
    return {
        "name": name,
        "address": address,
        "error": "",
        "cluster": info.cluster,
        # To the minute, so that a page is not updated each second.
        "up_minutes": int(info.uptime_s // 60),
        "topics": len(info.topics),
        "groups": info.groups,
        "held_pulls": info.held_pulls,
        "producers": info.producers,
        "events_dropped": info.events_dropped,
        "quirks": list(info.quirks),
        "disk_full": info.disk_full,
        "disk_free_gb": round(info.disk_free_bytes / 1e9, 1),
        "disk_total_gb": round(info.disk_total_bytes / 1e9, 1),
        "log_held_by": info.log_held_by,
    }


async def _sets(admin: Admin, names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The replicas of each set that answers; all are asked at the same time."""
    sets: dict[str, dict[str, Any]] = {}

    async def ask(name: str) -> None:
        try:
            seen = await admin.replicas(name)
        except RlabError:
            return  # no replica answers, as the state of the broker shows
        replicas = [
            {
                "id": each.replica_id,
                "address": each.address,
                "role": each.role or "does not answer",
                "in_sync": each.in_sync,
            }
            for each in seen.replicas
        ]
        sets[name] = {"epoch": seen.row.epoch, "wanted": seen.row.copies, "replicas": replicas}

    async with anyio.create_task_group() as tasks:
        for name in names:
            tasks.start_soon(ask, name)
    return sets


def _absent(broker: AbsentBroker) -> dict[str, Any]:
    # To the minute, so that a page is not updated each second.
    error = f"away: it {broker.reason} {int(broker.away_s // 60)} min ago without unregistering"
    return {"name": broker.broker_name, "address": broker.address, "error": error, "away": True}


def _topics(brokers: list[BrokerInfo]) -> list[dict[str, Any]]:
    """Return every topic with its queues and messages on all brokers together, topics of users first."""
    by_name: dict[str, list[TopicInfo]] = {}
    for broker in brokers:
        for topic in broker.topics:
            by_name.setdefault(topic.config.topic, []).append(topic)
    return [
        {
            "topic": name,
            "kind": _kind(name),
            "brokers": len(parts),
            "queues": sum(part.config.read_queue_nums for part in parts),
            "messages": sum(each.max_offset - each.min_offset for part in parts for each in part.ranges),
        }
        for name, parts in sorted(by_name.items(), key=lambda item: (_KINDS.index(_kind(item[0])), item[0]))
    ]


def _kind(topic: str) -> str:
    """Return the purpose of a topic that is not a topic of users."""
    if is_system_topic(topic) or topic == TRACE_TOPIC:
        return "system"
    return next((kind for prefix, kind in _GROUP_TOPICS.items() if topic.startswith(prefix)), "")


async def topic_document(admin: Admin, topic: str) -> dict[str, Any]:
    """Return the queues of a topic on every broker that has it; `problems` names the brokers that do not answer.

    Raises:
        TopicNotExist: no broker has it.
        RlabError: no name server or no broker answers.

    Cancellation: harmless.
    """
    infos = await _infos(admin, [broker.broker_name for broker in await admin.brokers()])
    errors = [info for info in infos.values() if isinstance(info, RlabError)]
    if errors and len(errors) == len(infos):
        raise errors[0]
    parts = {name: info.topic(topic) for name, info in sorted(infos.items()) if isinstance(info, BrokerInfo)}
    queues = [
        {
            "queue": f"{name}:{queue_id}",
            "min": each.min_offset,
            "max": each.max_offset,
            "damaged": each.damaged,
            "read": queue_id < part.config.read_queue_nums,
            "write": queue_id < part.config.write_queue_nums,
        }
        for name, part in parts.items()
        if part is not None
        for queue_id, each in enumerate(part.ranges)
    ]
    away = [broker for broker in (await admin.absent_brokers()).brokers if broker.queues_of(topic)]
    if not queues and not errors and not away:
        raise TopicNotExist(f"no broker has topic {topic!r}")
    problems = [f"broker {name}: {info}" for name, info in sorted(infos.items()) if isinstance(info, RlabError)]
    problems += [
        f"{broker.why}: its {plural(len(broker.queues_of(topic)), 'queue', 'is', 'are')} away" for broker in away
    ]
    return {"topic": topic, "queues": queues, "problems": problems}


async def _infos(admin: Admin, names: Iterable[str]) -> dict[str, BrokerInfo | RlabError]:
    """Return the state of each broker of these names, or its error; all requests are sent at the same time."""
    infos: dict[str, BrokerInfo | RlabError] = {}

    async def ask(name: str) -> None:
        try:
            infos[name] = await admin.broker_info(name)
        except RlabError as error:
            infos[name] = error

    async with anyio.create_task_group() as tasks:
        for name in names:
            tasks.start_soon(ask, name)
    return infos
