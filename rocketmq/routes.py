"""Translates requests to name servers: routes, brokers, topics. Pure. RocketMQ: ClientRequestProcessor."""

from __future__ import annotations

from typing import Any

import msgpack

from model.response_code import ResponseCode
from remoting.request_code import RequestCode
from rocketmq.edge import Caller, StockAnswer, TranslatedRequest, nothing
from rocketmq.fields import OURS, Fields, json_bytes
from rocketmq.frame import Frame


def route(caller: Caller, fields: Fields, body: bytes, frame: Frame) -> TranslatedRequest:
    """Translate the request for the route of a topic."""
    return TranslatedRequest(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": fields.text("topic")}, None, _route)


def _route(answered: dict[str, Any], body: bytes | None, code: int) -> StockAnswer:
    found: Any = msgpack.unpackb(body or b"")
    queues = [
        {"brokerName": name, "perm": perm, "readQueueNums": read, "topicSysFlag": 0, "writeQueueNums": write}
        for name, read, write, perm in found["queues"]
    ]
    brokers = [_broker(*broker) for broker in found["brokers"]]
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
    return StockAnswer({OURS: True}, json_bytes({"brokerAddrTable": brokers, "clusterAddrTable": clusters}))


def topics(caller: Caller, fields: Fields, body: bytes, frame: Frame) -> TranslatedRequest:
    """Translate the request for all topics."""
    return TranslatedRequest(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, {}, None, _topics)


def _topics(answered: dict[str, Any], body: bytes | None, code: int) -> StockAnswer:
    return StockAnswer({}, json_bytes({"topicList": msgpack.unpackb(body or b"\x90")}))


def delete_topic(caller: Caller, fields: Fields, body: bytes, frame: Frame) -> TranslatedRequest:
    """Remove a topic from the routes of every broker."""
    return TranslatedRequest(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": fields.text("topic")}, None, nothing)


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
