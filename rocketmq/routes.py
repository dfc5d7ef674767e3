"""Translates requests about routes, brokers and topics, to name servers and to brokers. Pure.

RocketMQ: ClientRequestProcessor, AdminBrokerProcessor. Of the attributes of a topic, `message.type` is kept here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgpack

from model.names import is_retry_topic
from model.response_code import ResponseCode
from model.topic_route import MessageType
from remoting.request_code import RequestCode
from rocketmq.edge import Caller, StockAnswer, TranslatedRequest, empty_answer
from rocketmq.fields import (
    MESSAGE_TYPE,
    PROJECT_MARKER,
    Fields,
    json_bytes,
    parse_message_type,
    queue_object,
    table_by_queue,
)
from rocketmq.frame import Frame


def route(caller: Caller, fields: Fields, body: bytes, frame: Frame) -> TranslatedRequest:
    """Translate the request for the route of a topic."""
    return TranslatedRequest(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": fields.text("topic")}, None, _route)


def _route(answered: dict[str, Any], body: bytes | None, code: int) -> StockAnswer:
    route: Any = msgpack.unpackb(body or b"")
    queues = [
        {"brokerName": name, "perm": perm, "readQueueNums": read, "topicSysFlag": 0, "writeQueueNums": write}
        for name, read, write, perm in route["queues"]
    ]
    brokers = [_broker(*broker) for broker in route["brokers"]]
    return StockAnswer({}, json_bytes({"brokerDatas": brokers, "filterServerTable": {}, "queueDatas": queues}))


def _broker(cluster: str, name: str, addresses: Any) -> dict[str, object]:
    listed = {str(broker_id): address for broker_id, address in addresses}
    return {"brokerAddrs": listed, "brokerName": name, "cluster": cluster}


def cluster_info(caller: Caller, fields: Fields, body: bytes, frame: Frame) -> TranslatedRequest:
    """Translate the request for all brokers."""
    return TranslatedRequest(RequestCode.GET_BROKER_CLUSTER_INFO, {}, None, _cluster_info)


def _cluster_info(answered: dict[str, Any], body: bytes | None, code: int) -> StockAnswer:
    clusters: dict[str, list[str]] = {}
    brokers = {}
    listed: Any = msgpack.unpackb(body or b"\x90")
    for cluster, name, addresses in listed:
        clusters.setdefault(cluster, []).append(name)
        brokers[name] = _broker(cluster, name, addresses)
    return StockAnswer({PROJECT_MARKER: True}, json_bytes({"brokerAddrTable": brokers, "clusterAddrTable": clusters}))


def topics(caller: Caller, fields: Fields, body: bytes, frame: Frame) -> TranslatedRequest:
    """Translate the request for all topics."""
    return TranslatedRequest(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, {}, None, _topics)


def _topics(answered: dict[str, Any], body: bytes | None, code: int) -> StockAnswer:
    return StockAnswer({}, json_bytes({"topicList": msgpack.unpackb(body or b"\x90")}))


def delete_topic(caller: Caller, fields: Fields, body: bytes, frame: Frame) -> TranslatedRequest:
    """Remove a topic from the routes of every broker."""
    return TranslatedRequest(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": fields.text("topic")}, None, empty_answer)


def wipe_write_perm(caller: Caller, fields: Fields, body: bytes, frame: Frame) -> TranslatedRequest:
    """Make producers leave a broker."""
    return _write_perm(RequestCode.WIPE_WRITE_PERM_OF_BROKER, "wipeTopicCount", fields)


def add_write_perm(caller: Caller, fields: Fields, body: bytes, frame: Frame) -> TranslatedRequest:
    """Let producers use a broker again."""
    return _write_perm(RequestCode.ADD_WRITE_PERM_OF_BROKER, "addTopicCount", fields)


def _write_perm(code: RequestCode, count: str, fields: Fields) -> TranslatedRequest:
    def answer(answered: dict[str, Any], body: bytes | None, code: int) -> StockAnswer:
        return StockAnswer({count: answered["n"]})

    return TranslatedRequest(code, {"broker_name": fields.text("brokerName")}, None, answer)


def get_kv_config(caller: Caller, fields: Fields, body: bytes, frame: Frame) -> StockAnswer:
    """The settings that RocketMQ's name servers keep for other servers: there are none here."""
    return StockAnswer(code=ResponseCode.QUERY_NOT_FOUND, remark="no settings are kept here")


def delete_kv_config(caller: Caller, fields: Fields, body: bytes, frame: Frame) -> StockAnswer:
    """Delete a setting; always succeeds, because name servers here have no settings."""
    return StockAnswer()


# --- to brokers -------------------------------------------------------------------------------------------------------


def update_topic(caller: Caller, fields: Fields, body: bytes, frame: Frame) -> TranslatedRequest:
    """Translate the creation of a topic, or a change of its queues or its message type."""
    header = {
        "topic": fields.text("topic"),
        "read_queue_nums": fields.number("readQueueNums"),
        "write_queue_nums": fields.number("writeQueueNums"),
        "perm": fields.number("perm"),
    }
    message_type = parse_message_type(fields.text("attributes", ""))
    if message_type is not None:
        header["message_type"] = int(message_type)
    return TranslatedRequest(RequestCode.UPDATE_AND_CREATE_TOPIC, header, None, empty_answer)


def delete_broker_topic(caller: Caller, fields: Fields, body: bytes, frame: Frame) -> TranslatedRequest | StockAnswer:
    """Translate the deletion of a topic on this broker."""
    topic = fields.text("topic")
    if is_retry_topic(topic) or caller.facts.topic_id(topic) == 0:
        # The tool deletes the topics of a group after the group, which has already removed them.
        return StockAnswer()
    return TranslatedRequest(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic}, None, empty_answer)


def _of_topic(topic: str, translate: Callable[[list[Any], MessageType], dict[str, object]]) -> TranslatedRequest:
    """The state of a topic at a broker: [topic, read queues, write queues, perm, [[first, end, last time], ...]]."""

    def answer(answered: dict[str, Any], body: bytes | None, code: int) -> StockAnswer:
        info: Any = msgpack.unpackb(body or b"\x80")
        if not info["topics"]:
            return StockAnswer(code=ResponseCode.TOPIC_NOT_EXIST, remark=f"topic {topic!r} is not on this broker")
        message_type = MessageType(info["message_types"].get(topic, 0))
        return StockAnswer({}, json_bytes(translate(info["topics"][0], message_type)))

    return TranslatedRequest(RequestCode.GET_BROKER_RUNTIME_INFO, {"topic": topic, "times": True}, None, answer)


def topic_config(caller: Caller, fields: Fields, body: bytes, frame: Frame) -> TranslatedRequest:
    """Translate the request for the queues, the permission and the message type of a topic."""

    def translate(row: list[Any], message_type: MessageType) -> dict[str, object]:
        name, read, write, perm, _ = row
        queues = {"topicName": name, "readQueueNums": read, "writeQueueNums": write, "perm": perm}
        attributes = {MESSAGE_TYPE: message_type.name} if message_type else {}
        return {**queues, "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": False, "attributes": attributes}

    return _of_topic(fields.text("topic"), translate)


def topic_stats(caller: Caller, fields: Fields, body: bytes, frame: Frame) -> TranslatedRequest:
    """Translate the request for the first and last offset of each queue of a topic, and its last message's time."""
    topic, broker = fields.text("topic"), caller.facts.broker_name()

    def translate(row: list[Any], message_type: MessageType) -> dict[str, object]:
        offsets = (
            {"minOffset": low, "maxOffset": high, "lastUpdateTimestamp": stored_ms} for low, high, stored_ms in row[-1]
        )
        return {"offsetTable": table_by_queue((queue_object(broker, topic, n), each) for n, each in enumerate(offsets))}

    return _of_topic(topic, translate)
