"""The requests of our client as calls of RocketMQ's servers, and their answers in our words. Pure.

The other direction of `routes` and `joining`; `messages` is that of messages. A server of RocketMQ grants no
leases: a member gets the queues that it asks for, each with the offset from which its group goes on. It knows of
members only their ids, so all of them count as subscribers of what this member subscribes to.
"""

from __future__ import annotations

import json
import re
import zlib
from typing import Any

import msgpack

from model.heartbeat import ConsumeFrom, HeartbeatData
from model.message import tag_hash
from model.names import TEMPLATE_TOPIC, is_retry_topic
from model.response_code import ResponseCode
from remoting.request_code import RequestCode
from rocketmq.fields import Fields, json_bytes
from rocketmq.frame import Frame
from rocketmq.outward.edge import Answered, Refused, Server, Steps, StockCall

_LIKE_JAVA = re.compile(r"([{,])(\d+):")
_STANDARD_JSON = {"acceptStandardJsonOnly": True}
_FROM = {
    ConsumeFrom.LAST_OFFSET: "CONSUME_FROM_LAST_OFFSET",
    ConsumeFrom.FIRST_OFFSET: "CONSUME_FROM_FIRST_OFFSET",
    ConsumeFrom.TIMESTAMP: "CONSUME_FROM_TIMESTAMP",
}
_MAX_VERSION = 2**31


def good(frame: Frame, *others: int) -> Frame:
    """The answer, if its code is success or one of the others."""
    if frame.code and frame.code not in others:
        raise Refused(frame)
    return frame


def _json(frame: Frame) -> Any:
    """The body of an answer; servers before 4.9.4 write numbers as keys without quotation marks."""
    text = (good(frame).body or b"{}").decode()
    try:
        return json.loads(text)
    except ValueError:
        return json.loads(_LIKE_JAVA.sub(r'\1"\2":', text))


def packed(value: object) -> bytes:
    """A body of ours."""
    written: bytes = msgpack.packb(value)
    return written


def unpacked(body: bytes) -> Any:
    """What a body of ours holds."""
    return msgpack.unpackb(body)


# --- name servers ----------------------------------------------------------------------------------------------------


def _broker(data: dict[str, Any]) -> list[Any]:
    addresses = sorted((int(broker_id), address) for broker_id, address in data["brokerAddrs"].items())
    return [data.get("cluster", ""), data["brokerName"], addresses]


def state(server: Server, header: dict[str, Any], body: bytes) -> Steps:
    """Whether a server is a name server: only those know the brokers."""
    [answer] = yield [StockCall(RequestCode.GET_BROKER_CLUSTER_INFO)]
    return Answered({"kind": "broker" if answer.code else "namesrv", "name": "of RocketMQ"})


def route(server: Server, header: dict[str, Any], body: bytes) -> Steps:
    """The route of a topic."""
    [answer] = yield [StockCall(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": header["topic"], **_STANDARD_JSON})]
    found = _json(answer)
    queues = [[q["brokerName"], q["readQueueNums"], q["writeQueueNums"], q["perm"] & 7] for q in found["queueDatas"]]
    brokers = [_broker(each) for each in found["brokerDatas"]]
    return Answered({}, packed({"topic": header["topic"], "queues": queues, "brokers": brokers}))


def brokers(server: Server, header: dict[str, Any], body: bytes) -> Steps:
    """All brokers."""
    [answer] = yield [StockCall(RequestCode.GET_BROKER_CLUSTER_INFO)]
    return Answered({}, packed([_broker(each) for each in _json(answer)["brokerAddrTable"].values()]))


def topics(server: Server, header: dict[str, Any], body: bytes) -> Steps:
    """All topics."""
    [answer] = yield [StockCall(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)]
    return Answered({}, packed(sorted(_json(answer)["topicList"])))


def put_topic(server: Server, header: dict[str, Any], body: bytes) -> Steps:
    """Create or change a topic, at a broker."""
    fields = {
        "topic": header["topic"],
        "defaultTopic": TEMPLATE_TOPIC,
        "readQueueNums": header["read_queue_nums"],
        "writeQueueNums": header["write_queue_nums"],
        "perm": header["perm"],
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "order": False,
    }
    [answer] = yield [StockCall(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)]
    good(answer)
    return Answered({})


# --- membership ------------------------------------------------------------------------------------------------------


def heartbeat(server: Server, header: dict[str, Any], body: bytes) -> Steps:
    """All groups of a client, joined one after another by whoever listens."""
    beat = HeartbeatData.from_wire(unpacked(body))
    server.client_id = beat.client_id
    server.producer_group = next(iter(beat.producer_groups), server.producer_group)
    known = set(server.subscribed)
    server.subscribed = {
        each.group: {one.topic: one.expression for one in each.subscriptions} for each in beat.consumers
    }
    server.starts = {each.group: (each.consume_from.value, each.consume_timestamp_ms) for each in beat.consumers}
    consumers = [
        {
            "groupName": each.group,
            "consumeType": "CONSUME_PASSIVELY",
            "messageModel": each.model.value,
            "consumeFromWhere": _FROM[each.consume_from],
            "unitMode": False,
            "subscriptionDataSet": [
                {
                    **{"topic": one.topic, "subString": one.expression, "subVersion": one.version},
                    **{"expressionType": "TAG", "classFilterMode": False},
                    "tagsSet": sorted(one.tags or ()),
                    "codeSet": sorted(map(tag_hash, one.tags or ())),
                }
                for one in each.subscriptions
            ],
        }
        for each in beat.consumers
    ]
    said = {
        "clientID": beat.client_id,
        "consumerDataSet": consumers,
        "producerDataSet": [{"groupName": group} for group in beat.producer_groups],
    }
    [answer] = yield [StockCall(RequestCode.HEART_BEAT, {}, json_bytes(said))]
    good(answer)
    return Answered({"groups": {each.group: [0, 0, each.group not in known] for each in beat.consumers}})


def leave(server: Server, header: dict[str, Any], body: bytes) -> Steps:
    """A client that leaves groups."""
    answers = yield [
        StockCall(RequestCode.UNREGISTER_CLIENT, {"clientID": header["client_id"], "consumerGroup": group})
        for group in header["groups"] or [""]
    ]
    for answer in answers:
        good(answer)
    return Answered({})


def members(server: Server, header: dict[str, Any], body: bytes) -> Steps:
    """The members of a group. Their ids make the version: whoever asks, equal lists have equal versions."""
    group = header["group"]
    [answer] = yield [StockCall(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group})]
    ids = sorted(_json(answer)["consumerIdList"])
    topics = sorted(server.subscribed.get(group, {}))
    version = zlib.crc32("\n".join((*topics, "", *ids)).encode()) % _MAX_VERSION
    return Answered({"version": version}, packed([version, [[topics, ids]]]))


def members_changed(server: Server, frame: Frame) -> tuple[int, dict[str, Any]]:
    """A notification that a group has changed, which does not say to what."""
    header = {"group": Fields(frame.fields).text("consumerGroup"), "version": -1, "cause": ""}
    return RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, header


# --- queues ----------------------------------------------------------------------------------------------------------


def _queue(topic: str, queue_id: int) -> dict[str, object]:
    return {"topic": topic, "queueId": queue_id}


def lock(server: Server, header: dict[str, Any], body: bytes) -> Steps:
    """Every queue that is asked for, from its committed offset, or from where the group begins."""
    group, rows = header["group"], [(topic, queue_id) for topic, queue_id in unpacked(body)]
    answers = yield [
        StockCall(RequestCode.QUERY_CONSUMER_OFFSET, {"consumerGroup": group, **_queue(*queue)}) for queue in rows
    ]
    offsets: dict[tuple[str, int], int] = {}
    for queue, answer in zip(rows, answers, strict=True):
        if good(answer, ResponseCode.QUERY_NOT_FOUND).code == 0:
            offsets[queue] = Fields(answer.fields).number("offset")
    new = [queue for queue in rows if queue not in offsets]
    if new:
        answers = yield [_start(server, group, *queue) for queue in new]
        for queue, answer in zip(new, answers, strict=True):
            offsets[queue] = Fields(good(answer).fields).number("offset")
    granted: list[list[Any]] = []
    for topic, queue_id in rows:
        server.leases += 1
        granted.append([topic, queue_id, server.leases, offsets[topic, queue_id]])
    return Answered({}, packed([granted, []]))


def _start(server: Server, group: str, topic: str, queue_id: int) -> StockCall:
    """The question for the offset at which a group begins. RocketMQ: RebalancePushImpl.computePullFromWhere."""
    start, timestamp_ms = server.starts.get(group, (ConsumeFrom.LAST_OFFSET.value, 0))
    if is_retry_topic(topic) or start == ConsumeFrom.FIRST_OFFSET.value:
        return StockCall(RequestCode.GET_MIN_OFFSET, _queue(topic, queue_id))
    if start == ConsumeFrom.TIMESTAMP.value:
        fields = {**_queue(topic, queue_id), "timestamp": timestamp_ms}
        return StockCall(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, fields)
    return StockCall(RequestCode.GET_MAX_OFFSET, _queue(topic, queue_id))


def commit(server: Server, header: dict[str, Any], body: bytes) -> Steps:
    """Commits of queues, also those that are given up; the answer names the refused ones."""
    rows = [row for row in unpacked(body) if row[2] >= 0]
    if not rows:
        # Nothing to say, but an answer is expected: a cheap question brings one.
        yield [StockCall(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": header["group"]})]
        return Answered({}, packed([]))
    calls = [
        StockCall(
            RequestCode.UPDATE_CONSUMER_OFFSET,
            {"consumerGroup": header["group"], **_queue(topic, queue_id), "commitOffset": offset},
        )
        for topic, queue_id, offset, _ in rows
    ]
    answers = yield calls
    refused = [
        [row[0], row[1], Refused(answer).code, answer.remark or ""]
        for row, answer in zip(rows, answers, strict=True)
        if answer.code
    ]
    return Answered({}, packed(refused))


def _offset(call: StockCall, **more: int) -> Steps:
    """The offset that a call is answered with."""
    [answer] = yield [call]
    return Answered({"offset": Fields(good(answer).fields).number("offset"), **more})


def committed(server: Server, header: dict[str, Any], body: bytes) -> Steps:
    """The committed offset of a group."""
    fields = {"consumerGroup": header["group"], **_queue(header["topic"], header["queue_id"])}
    return _offset(StockCall(RequestCode.QUERY_CONSUMER_OFFSET, fields))


def max_offset(server: Server, header: dict[str, Any], body: bytes) -> Steps:
    """The end of a queue; RocketMQ has no numbers of topics."""
    return _offset(StockCall(RequestCode.GET_MAX_OFFSET, _queue(header["topic"], header["queue_id"])), topic_id=0)


def min_offset(server: Server, header: dict[str, Any], body: bytes) -> Steps:
    """The beginning of a queue."""
    return _offset(StockCall(RequestCode.GET_MIN_OFFSET, _queue(header["topic"], header["queue_id"])))


def search_offset(server: Server, header: dict[str, Any], body: bytes) -> Steps:
    """The first offset that is stored at or after a time."""
    fields = {**_queue(header["topic"], header["queue_id"]), "timestamp": header["timestamp_ms"]}
    return _offset(StockCall(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, fields))
