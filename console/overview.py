"""The cluster, its topics and its groups as documents for pages."""

from __future__ import annotations

from typing import Any

import anyio

from client.admin.admin import Admin
from client.admin.records import BrokerInfo, TopicInfo
from model.errors import RlabError
from model.names import TRACE_TOPIC, is_system_topic


async def overview(admin: Admin, trace_problem: str) -> dict[str, Any]:
    """Name servers, brokers, topics and groups as far as they answer; errors are in `problems`.

    Cancellation: harmless.
    """
    problems = [trace_problem] if trace_problem else []
    infos: dict[str, BrokerInfo | RlabError] = {}
    registered: dict[str, str] = {}
    groups: list[dict[str, Any]] = []

    async def ask(name: str) -> None:
        try:
            infos[name] = await admin.broker_info(name)
        except RlabError as error:
            infos[name] = error

    try:
        registered = {each.broker_name: each.master or "" for each in await admin.brokers()}
        async with anyio.create_task_group() as tasks:
            for name in registered:
                tasks.start_soon(ask, name)
        groups = [
            {"group": each.group, "members": each.members, "brokers": list(each.brokers)}
            for each in await admin.groups()
        ]
    except RlabError as error:
        problems.append(str(error))
    return {
        "brokers": [_broker(name, address, infos.get(name)) for name, address in sorted(registered.items())],
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
        # To the minute, so that a page is not told of each second.
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
    }


def _topics(brokers: list[BrokerInfo]) -> list[dict[str, Any]]:
    """Every topic with its queues and messages on all brokers together; those of the system last."""
    found: dict[str, list[TopicInfo]] = {}
    for broker in brokers:
        for topic in broker.topics:
            found.setdefault(topic.config.topic, []).append(topic)
    return [
        {
            "topic": name,
            "system": is_system_topic(name) or name == TRACE_TOPIC,
            "brokers": len(parts),
            "queues": sum(part.config.read_queue_nums for part in parts),
            "messages": sum(each.max_offset - each.min_offset for part in parts for each in part.ranges),
        }
        for name, parts in sorted(found.items(), key=lambda item: (is_system_topic(item[0]), item[0]))
    ]


async def topic_document(admin: Admin, topic: str) -> dict[str, Any]:
    """The queues of a topic on every broker that has it.

    Raises:
        RlabError: the cluster does not answer.

    Cancellation: harmless.
    """
    queues: list[dict[str, Any]] = []
    for broker in await admin.brokers():
        info = (await admin.broker_info(broker.broker_name)).topic(topic)
        for queue_id, each in enumerate(() if info is None else info.ranges):
            queues.append(
                {
                    "queue": f"{broker.broker_name}:{queue_id}",
                    "min": each.min_offset,
                    "max": each.max_offset,
                    "damaged": each.damaged,
                    "read": info is not None and queue_id < info.config.read_queue_nums,
                    "write": info is not None and queue_id < info.config.write_queue_nums,
                }
            )
    return {"topic": topic, "queues": queues}
