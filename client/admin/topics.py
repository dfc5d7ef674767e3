"""Creates, scales and deletes topics for `Admin`. RocketMQ: UpdateTopicSubCommand, DeleteTopicSubCommand.

A topic is changed on brokers, which register it with the name servers. Name servers do not know each other, so a change
is complete when each reachable name server shows it: every route that is requested afterwards is the new one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace

import anyio

from client.admin.records import BrokerInfo, QueueProgress, TopicInfo
from client.admin.requests import (
    ClusterRequests,
    fail,
    masters_of,
    successful_answers,
    unpack,
    unpack_group,
    unpack_route,
)
from model.arguments import check_iterable, short_repr
from model.errors import IllegalOperation, InvalidParameter, NetworkError, RequestTimeout, RlabError, TopicNotExist
from model.message_queue import MessageQueue
from model.names import is_system_topic
from model.topic_route import READ_WRITE, MessageType, TopicConfig, TopicRoute, checked_topic_config
from remoting.request_code import RequestCode

VISIBLE_TIMEOUT_S = 5.0
"""How long a change may take from the brokers to the name servers; brokers register it at once, so this is plenty."""
VISIBLE_POLL_S = 0.02


async def create_topic(
    cluster: ClusterRequests,
    topic: str,
    queues: int,
    read: int | None,
    write: int | None,
    brokers: Sequence[str] | None,
    message_type: MessageType | None,
) -> TopicRoute:
    """See `Admin.create_topic`."""
    config = checked_topic_config(
        topic,
        queues if read is None else read,
        queues if write is None else write,
        READ_WRITE,
        _checked_type(topic, message_type or MessageType.MIXED),
    )
    _check_not_system("created", topic)
    if brokers is not None:
        check_iterable("brokers", brokers)
    names = list(await cluster.masters(brokers))
    existing = await cluster.name_servers.route(topic)
    if existing is not None and message_type is None and len({data.message_type for data in existing.queues}) == 1:
        message_type = existing.queues[0].message_type or None  # as the other brokers have it
    for data in existing.queues if existing is not None else ():
        counts = (data.read_queue_nums, data.write_queue_nums)
        if data.broker_name in names and counts != (config.read_queue_nums, config.write_queue_nums):
            raise IllegalOperation(
                f"topic {topic!r} exists on {data.broker_name} with {counts[0]} read and {counts[1]} write queues: "
                "scale it instead of creating it"
            )
        if data.broker_name in names and message_type not in (None, data.message_type):
            raise IllegalOperation(
                f"topic {topic!r} exists on {data.broker_name} with messages of the type {data.message_type.name}: "
                "set its type instead of creating it"
            )
    return await _put(cluster, topic, dict.fromkeys(names, config), message_type)


async def set_topic(cluster: ClusterRequests, topic: str, message_type: MessageType) -> TopicRoute:
    """See `Admin.set_topic`."""
    _check_not_system("set", topic)
    _checked_type(topic, message_type)
    topics = await _found(cluster, topic)
    configs = {info.name: replace(topic_info.config, message_type=message_type) for info, topic_info in topics}
    return await _put(cluster, topic, configs, message_type)


async def scale_topic(
    cluster: ClusterRequests, topic: str, read: int | None, write: int | None, *, force: bool
) -> TopicRoute:
    """See `Admin.scale_topic`."""
    _check_not_system("scaled", topic)
    if read is None and write is None:
        raise InvalidParameter(f"nothing to change: name the read or the write queues that {topic!r} should have")
    configs: dict[str, TopicConfig] = {}
    for info, topic_info in await _found(cluster, topic):
        old = topic_info.config
        configs[info.name] = new = checked_topic_config(
            topic,
            old.read_queue_nums if read is None else read,
            old.write_queue_nums if write is None else write,
            old.perm,
        )
        if new.read_queue_nums < old.read_queue_nums and not force:
            await _check_drained(cluster, info, topic_info, new.read_queue_nums)
    return await _put(cluster, topic, configs)


async def _found(cluster: ClusterRequests, topic: str) -> list[tuple[BrokerInfo, TopicInfo]]:
    """The brokers that have a topic, each with the topic as it has it."""
    masters = masters_of((await cluster.route(topic)).brokers)
    answers = await cluster.ask(masters, RequestCode.GET_BROKER_RUNTIME_INFO, {})
    infos = [
        BrokerInfo.from_wire(masters[name], unpack(answer))
        for name, answer in successful_answers(answers, f"topic {topic!r} has queues on").items()
    ]
    return [(info, topic_info) for info in infos if (topic_info := info.topic(topic)) is not None]


async def delete_topic(cluster: ClusterRequests, topic: str) -> None:
    """See `Admin.delete_topic`."""
    _check_not_system("deleted", topic)
    masters = masters_of((await cluster.route(topic)).brokers)
    header = {"topic": topic}
    answers = await cluster.ask(masters, RequestCode.DELETE_TOPIC_IN_BROKER, header)
    successful_answers(answers, f"topic {topic!r} could not be deleted on", TopicNotExist)
    # A name server that is unreachable now removes the topic when the brokers register with it again.
    await cluster.ask(cluster.servers, RequestCode.DELETE_TOPIC_IN_NAMESRV, header)


async def _check_drained(cluster: ClusterRequests, info: BrokerInfo, topic_info: TopicInfo, read: int) -> None:
    """Refuse to remove read queues whose messages some group has still to consume, or no group has begun to consume.

    Groups miss messages that a producer with an old route stores there after this check; lowering the write count
    first avoids that.
    """
    topic = topic_info.config.topic
    filled = {
        MessageQueue(topic, info.name, queue_id): False
        for queue_id, offset_range in enumerate(topic_info.ranges)
        if queue_id >= read and offset_range.max_offset > offset_range.min_offset
    }
    if not filled:
        return
    for group, *_ in unpack(await cluster.request(info.address, RequestCode.GET_GROUP_LIST, broker=info.name)):
        header = {"group": group, "topic": topic}
        answers = await cluster.ask({info.name: info.address}, RequestCode.GET_CONSUME_STATS, header)
        for row in unpack_group(answers[info.name]) or ():
            progress = QueueProgress.from_wire(info.name, row)
            if progress.queue not in filled:
                continue
            if progress.committed is None or progress.committed < progress.max_offset:
                _refuse_to_remove(progress.queue, f"group {group!r} has not consumed")
            filled[progress.queue] = True
    for queue, consumed in filled.items():
        if not consumed:
            _refuse_to_remove(queue, "no group has consumed")


async def _put(
    cluster: ClusterRequests,
    topic: str,
    configs: Mapping[str, TopicConfig],
    message_type: MessageType | None = None,
) -> TopicRoute:
    """Send brokers their config of a topic, one after another, then wait until the name servers show it.

    Without a message type each broker leaves its own.
    """
    masters = await cluster.masters(configs)
    for name, config in configs.items():
        header = {**asdict(config), "perm": int(config.perm)}
        del header["message_type"]
        if message_type is not None:
            header["message_type"] = int(message_type)
        try:
            await cluster.request(masters[name], RequestCode.UPDATE_AND_CREATE_TOPIC, header, broker=name)
        except RlabError as error:
            fail(f"broker {name}", error)
    return await _wait_visible(cluster, topic, configs, message_type)


async def _wait_visible(
    cluster: ClusterRequests, topic: str, configs: Mapping[str, TopicConfig], message_type: MessageType | None
) -> TopicRoute:
    behind = list(cluster.servers)
    with anyio.move_on_after(VISIBLE_TIMEOUT_S):
        while True:
            answers = await cluster.ask(cluster.servers, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
            # A name server that is unreachable now gets the change when the brokers register with it again.
            routes = {
                address: unpack_route(answer)
                for address, answer in answers.items()
                if not isinstance(answer, NetworkError)
            }
            behind = [address for address, route in routes.items() if not _shows(route, configs, message_type)]
            visible_route = next((route for route in routes.values() if route is not None), None)
            if visible_route is not None and not behind:
                return visible_route
            await anyio.sleep(VISIBLE_POLL_S)
    raise RequestTimeout(
        f"the brokers have topic {topic!r}, but name server {', '.join(behind or cluster.servers)} does not show it "
        f"after {VISIBLE_TIMEOUT_S:g} s: does every broker register with every name server?"
        + ("" if message_type is None else " Brokers and name servers of an earlier version know no message types.")
    )


def _check_not_system(action: str, topic: str) -> None:
    if is_system_topic(topic):
        raise IllegalOperation(f"{topic} is a system topic of every broker; it cannot be {action}")


def _refuse_to_remove(queue: MessageQueue, why: str) -> None:
    raise IllegalOperation(
        f"queue {queue} holds messages that {why}, and would no longer be read: lower the write queues alone, wait "
        "until the groups have drained the rest, then lower the read queues; or force it"
    )


def _checked_type(topic: str, message_type: MessageType) -> MessageType:
    if not isinstance(message_type, MessageType):
        raise InvalidParameter(f"the type of topic {topic!r} must be a MessageType, got {short_repr(message_type)}")
    return message_type


def _shows(route: TopicRoute | None, configs: Mapping[str, TopicConfig], message_type: MessageType | None) -> bool:
    """Whether a route has the queue counts of all these brokers, and the message type if one is asked for."""
    by_broker = {q.broker_name: q for q in (route.queues if route else ())}
    return all(
        (data := by_broker.get(name)) is not None
        and (data.read_queue_nums, data.write_queue_nums) == (config.read_queue_nums, config.write_queue_nums)
        and message_type in (None, data.message_type)
        for name, config in configs.items()
    )
