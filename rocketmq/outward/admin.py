"""Administration by our client at RocketMQ's brokers: topics, groups, progress, resets, messages by key or id. Pure.

The other direction of `rocketmq/admin.py`. Brokers of RocketMQ do not know the owners of queues, so each member is
asked for its queues. A group there has no settings that differ between members.
"""

from __future__ import annotations

import re
from typing import Any

from model.errors import GroupNotExist, IllegalOperation
from model.group_settings import GroupSettings
from model.heartbeat import ConsumeFrom, ConsumerData, ConsumeType, MessageModel
from model.limits import MEMBER_EXPIRY_S
from model.names import is_retry_topic, is_system_topic
from model.offset_reset import ResetKind, ResetTo
from model.response_code import ResponseCode
from model.subscription import make_subscription
from model.topic_route import READ_WRITE
from remoting.request_code import RequestCode
from rocketmq.fields import Fields
from rocketmq.frame import Frame
from rocketmq.message import KEYS, UNIQ_KEY, StoredMessage, decode_messages
from rocketmq.outward.answers import check_answer, index_by_queue, pack_body, parse_json_body, run_calls
from rocketmq.outward.edge import Calls, Server, Steps, StockCall, TranslatedAnswer
from rocketmq.outward.messages import encode_stock_record
from rocketmq.outward.queues import queue_fields
from rocketmq.outward.routes import queue_count

_GET_ALL_TOPICS = 21
_GET_ALL_GROUPS = 201
_TOPIC_STATS = 202
_NOT_ONLINE = 206
_LAST_TIME_MS = 2**63 - 1
_STRATEGY = "AVG"
"""The default strategy of RocketMQ's members; a broker does not know their strategy."""


def _settings(answer: Frame) -> dict[str, GroupSettings]:
    """The groups of which a broker has settings: all groups that it ever had, because it creates settings for each."""
    return {
        name: GroupSettings(
            consume=bool(each.get("consumeEnable", True)),
            broadcast=bool(each.get("consumeBroadcastEnable", True)),
            retry_queues=int(each.get("retryQueueNums", 1)),
            max_attempts=int(each.get("retryMaxTimes", 16)),
            fifo=bool(each.get("consumeMessageOrderly", False)),
        )
        for name, each in parse_json_body(answer)["subscriptionGroupTable"].items()
    }


def _uptime_s(text: str) -> int:
    """Seconds of a text like "[ 0 days, 1 hours, 2 minutes, 3 seconds ]"."""
    days, hours, minutes, seconds = map(int, re.findall(r"\d+", text))
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def broker_info(server: Server, header: dict[str, Any], body: bytes) -> Steps:
    """The topics of a broker with the offsets of their queues; our brokers' counters are unknown there, and are 0."""
    runtime, configs, groups = yield [
        StockCall(RequestCode.GET_BROKER_RUNTIME_INFO),
        StockCall(_GET_ALL_TOPICS),
        StockCall(_GET_ALL_GROUPS),
    ]
    table = parse_json_body(runtime)["table"]
    topics = sorted(parse_json_body(configs)["topicConfigTable"].items())
    answers = yield from run_calls([StockCall(_TOPIC_STATS, {"topic": name}) for name, _ in topics])
    rows = []
    for (name, config), stats in zip(topics, answers, strict=True):
        read, write = queue_count(config["readQueueNums"]), queue_count(config["writeQueueNums"])
        held = {} if stats.code else index_by_queue(parse_json_body(stats).get("offsetTable") or {})
        offsets_of = (held.get((name, queue_id), {}) for queue_id in range(max(read, write)))
        ranges = [[int(each.get("minOffset", 0)), int(each.get("maxOffset", 0))] for each in offsets_of]
        rows.append([name, read, write, int(config["perm"]) & READ_WRITE, ranges])
    return TranslatedAnswer(
        {},
        pack_body(
            {
                "name": server.cluster.name_of(server.address),
                "cluster": "",
                "uptime_s": _uptime_s(str(table["runtime"])),
                "topics": rows,
                "groups": len(_settings(groups)),
                **{"held_pulls": 0, "producers": 0, "events_dropped": 0, "quirks": []},
            }
        ),
    )


def groups(server: Server, header: dict[str, Any], body: bytes) -> Steps:
    """All groups with the number of their members."""
    [answer] = yield [StockCall(_GET_ALL_GROUPS)]
    names = sorted(_settings(answer))
    answers = yield from run_calls(
        [StockCall(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": name}) for name in names]
    )
    counts = [0 if each.code else len(parse_json_body(each)["consumerIdList"]) for each in answers]
    return TranslatedAnswer({}, pack_body([[name, n, 0] for name, n in zip(names, counts, strict=True)]))


def settings(server: Server, header: dict[str, Any], body: bytes) -> Steps:
    """The settings of one group."""
    [answer] = yield [StockCall(_GET_ALL_GROUPS)]
    group_settings = _settings(answer).get(header["group"])
    settings = group_settings or GroupSettings()
    return TranslatedAnswer({"is_set": group_settings is not None, **settings.added}, pack_body(settings.to_wire()))


def connections(server: Server, header: dict[str, Any], body: bytes) -> Steps:
    """The members of a group; RocketMQ has one list of subscriptions for all of them."""
    [answer] = yield [StockCall(RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": header["group"]})]
    if answer.code == _NOT_ONLINE:
        raise GroupNotExist(f"group {header['group']!r} has no members here")
    fields = parse_json_body(answer)
    kind = str(fields.get("consumeType") or "CONSUME_PASSIVELY").removeprefix("CONSUME_")
    data = ConsumerData(
        group=header["group"],
        consume_type=ConsumeType(kind),
        model=MessageModel(fields.get("messageModel") or "CLUSTERING"),
        consume_from=ConsumeFrom.LAST_OFFSET,
        strategy=_STRATEGY,
        subscriptions=tuple(
            make_subscription(topic, each.get("subString") or "*", 0)
            for topic, each in sorted(fields["subscriptionTable"].items())
        ),
        session_timeout_s=MEMBER_EXPIRY_S,
    )
    common = {"expires_in_s": MEMBER_EXPIRY_S, "consumer": data.to_wire(), "queues": []}
    members = [
        {"client_id": each["clientId"], "address": each["clientAddr"], **common} for each in fields["connectionSet"]
    ]
    return TranslatedAnswer({}, pack_body({"version": 0, "created_ms": 0, "members": members}))


def progress(server: Server, header: dict[str, Any], body: bytes) -> Steps:
    """The progress of a group on each queue of this broker."""
    fields = {"consumerGroup": header["group"], **({"topic": header["topic"]} if header.get("topic") else {})}
    [answer] = yield [StockCall(RequestCode.GET_CONSUME_STATS, fields)]
    by_queue = index_by_queue(parse_json_body(answer).get("offsetTable") or {})
    queues = sorted(by_queue)
    ranges = yield from _ranges(header["group"], queues)
    owners = yield from _owners(header["group"])
    rows = [
        [*queue, *limits, -1 if committed is None else committed, owners.get(queue, ""), 0]
        for queue, *limits, committed in ranges
    ]
    return TranslatedAnswer({}, pack_body(rows))


def _owners(group: str) -> Calls[dict[tuple[str, int], str]]:
    """The queues of a group by the members that report them; a member that cannot answer counts as having none."""
    [answer] = yield [StockCall(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group})]
    ids = [] if answer.code else parse_json_body(answer)["consumerIdList"]
    if not ids:
        return {}
    query = {"consumerGroup": group, "jstackEnable": False}
    answers = yield from run_calls(
        [StockCall(RequestCode.GET_CONSUMER_RUNNING_INFO, {**query, "clientId": name}) for name in ids]
    )
    return {
        queue: name
        for name, reported in zip(ids, answers, strict=True)
        if not reported.code
        for queue in index_by_queue(parse_json_body(reported).get("mqTable") or {})
    }


def _ranges(group: str, queues: list[tuple[str, int]]) -> Calls[list[tuple[tuple[str, int], int, int, int | None]]]:
    """First offset, end and committed offset of queues."""
    if not queues:
        return []
    answers = yield [
        call
        for queue in queues
        for call in (
            StockCall(RequestCode.GET_MIN_OFFSET, queue_fields(*queue)),
            StockCall(RequestCode.GET_MAX_OFFSET, queue_fields(*queue)),
            StockCall(RequestCode.QUERY_CONSUMER_OFFSET, {"consumerGroup": group, **queue_fields(*queue)}),
        )
    ]
    ranges = []
    for index, queue in enumerate(queues):
        low, high, committed = answers[3 * index : 3 * index + 3]
        first, end = (Fields(check_answer(each).fields).number("offset") for each in (low, high))
        is_new = check_answer(committed, ResponseCode.QUERY_NOT_FOUND).code
        ranges.append((queue, first, end, None if is_new else Fields(committed.fields).number("offset")))
    return ranges


def reset(server: Server, header: dict[str, Any], body: bytes) -> Steps:
    """Translate a reset of a group without members. RocketMQ: ResetOffsetByTimeOldCommand.

    A group with members can be reset by time only, and RocketMQ stops it for 10 s: its own tool does that.
    """
    group, topic, to = header["group"], header["topic"], ResetTo(ResetKind(header["to"]), header.get("value", 0))
    [online] = yield [StockCall(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group})]
    if not online.code and parse_json_body(online)["consumerIdList"] and not header.get("dry_run"):
        raise IllegalOperation(
            f"group {group!r} has members, which would commit their old offsets over the new ones: stop them first"
        )
    wanted_ids = header.get("queue_ids")
    n_queues = server.cluster.queues_of(server.address, topic)
    ids = list(range(n_queues)) if wanted_ids is None else wanted_ids
    ranges = yield from _ranges(group, [(topic, queue_id) for queue_id in ids])
    offset_at: dict[int, int] = {}
    if to.kind is ResetKind.TIME and ids:
        answers = yield [
            StockCall(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, {**queue_fields(topic, n), "timestamp": to.value})
            for n in ids
        ]
        offset_at = {
            n: Fields(check_answer(each).fields).number("offset") for n, each in zip(ids, answers, strict=True)
        }
    rows: list[list[Any]] = []
    for (_, queue_id), low, high, committed in ranges:
        target = to.offset_in(low, high, committed, lambda _: offset_at[queue_id])  # noqa: B023 - called at once
        after = min(max(target, low), high)
        rows.append([queue_id, -1 if committed is None else committed, after, after != target, ""])
    if rows and not header.get("dry_run"):
        answers = yield [
            StockCall(
                RequestCode.UPDATE_CONSUMER_OFFSET,
                {"consumerGroup": group, **queue_fields(topic, row[0]), "commitOffset": row[2]},
            )
            for row in rows
        ]
        for answer in answers:
            check_answer(answer)
    is_known = not online.code or any(committed is not None for *_, committed in ranges)
    return TranslatedAnswer({"known": is_known}, pack_body(rows))


def query_message(server: Server, header: dict[str, Any], body: bytes) -> Steps:
    """Messages of a topic by one of their keys, the newest first."""
    times = header.get("begin_ms", 0), header.get("end_ms") or _LAST_TIME_MS
    [answer] = yield [_query(header["topic"], header["key"], header["max_n"], *times)]
    messages = [
        each
        for each in _found(answer)
        if header["key"] in each.properties.get(KEYS, "").split() or is_retry_topic(each.topic)
    ]
    return _copies(messages, header["max_n"])


def view_message(server: Server, header: dict[str, Any], body: bytes) -> Steps:
    """Every copy of a message by the id that its client assigned: a broker has an index of these ids for each topic."""
    [configs] = yield [StockCall(_GET_ALL_TOPICS)]
    topics = [name for name in sorted(parse_json_body(configs)["topicConfigTable"]) if not is_system_topic(name)]
    message_id, n = header["message_id"], header["max_n"]
    answers = yield from run_calls([_query(topic, message_id, n, is_id=True) for topic in topics])
    copies = [each for answer in answers if not answer.code for each in _found(answer)]
    return _copies([each for each in copies if each.properties.get(UNIQ_KEY) == message_id], n)


def _query(
    topic: str, key: str, n: int, begin_ms: int = 0, end_ms: int = _LAST_TIME_MS, *, is_id: bool = False
) -> StockCall:
    fields = {"topic": topic, "key": key, "maxNum": n, "beginTimestamp": begin_ms, "endTimestamp": end_ms}
    return StockCall(RequestCode.QUERY_MESSAGE, {**fields, "_UNIQUE_KEY_QUERY": is_id})


def _found(answer: Frame) -> list[StoredMessage]:
    return list(decode_messages(check_answer(answer, ResponseCode.QUERY_NOT_FOUND).body or b""))


def _copies(messages: list[StoredMessage], n: int) -> TranslatedAnswer:
    newest = sorted(messages, key=lambda each: -each.stored_ms)[:n]
    return TranslatedAnswer(
        {"next_before": -1}, pack_body([[each.topic, each.queue_id, -1, encode_stock_record(each)] for each in newest])
    )


def delete_topic(server: Server, header: dict[str, Any], body: bytes) -> Steps:
    """Delete a topic at a broker."""
    [answer] = yield [StockCall(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": header["topic"]})]
    check_answer(answer)
    return TranslatedAnswer({})


def forget_topic(server: Server, header: dict[str, Any], body: bytes) -> Steps:
    """Delete a topic at a name server."""
    [answer] = yield [StockCall(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": header["topic"]})]
    check_answer(answer)
    return TranslatedAnswer({})
