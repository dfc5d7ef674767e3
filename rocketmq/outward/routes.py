"""Routes, brokers and topics: our client's requests to name servers as calls of RocketMQ. Pure.

The other direction of `rocketmq/routes.py`.
"""

from __future__ import annotations

from typing import Any

from model.errors import RequestCodeNotSupported
from model.limits import MAX_QUEUES_PER_TOPIC
from model.names import TEMPLATE_TOPIC, TRACE_TOPIC
from model.topic_route import MessageType
from remoting.request_code import RequestCode
from rocketmq.fields import PROJECT_MARKER, FieldError, parse_number
from rocketmq.outward.answers import check_answer, pack_body, parse_json_body
from rocketmq.outward.edge import Server, Steps, StockCall, TranslatedAnswer

_STANDARD_JSON = {"acceptStandardJsonOnly": True}


def _broker(server: Server, data: dict[str, Any]) -> list[Any]:
    addresses = sorted((int(broker_id), address) for broker_id, address in data["brokerAddrs"].items())
    server.cluster.record_names({address: data["brokerName"] for _, address in addresses})
    return [data.get("cluster", ""), data["brokerName"], addresses]


def queue_count(value: object) -> int:
    """A number of queues, checked because our client creates an object for each."""
    n = parse_number("queues", value)
    if not 0 <= n <= MAX_QUEUES_PER_TOPIC:
        raise FieldError(f"a topic with {n} queues on a broker: at most {MAX_QUEUES_PER_TOPIC} are allowed")
    return n


def state(server: Server, header: dict[str, Any], body: bytes) -> Steps:
    """Whether a server is a name server: only name servers know the brokers. Ours mark themselves as such."""
    [answer] = yield [StockCall(RequestCode.GET_BROKER_CLUSTER_INFO)]
    kind = "broker" if answer.code else "namesrv"
    return TranslatedAnswer({"kind": kind, "name": "of RocketMQ", "ours": PROJECT_MARKER in answer.fields})


def route(server: Server, header: dict[str, Any], body: bytes) -> Steps:
    """The route of a topic. Our brokers all have the topic of the trace, RocketMQ's the template of topics."""
    topic = TEMPLATE_TOPIC if header["topic"] == TRACE_TOPIC else header["topic"]
    [answer] = yield [StockCall(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic, **_STANDARD_JSON})]
    route_body = parse_json_body(answer)
    queues = [
        [q["brokerName"], queue_count(q["readQueueNums"]), queue_count(q["writeQueueNums"]), q["perm"] & 7]
        for q in route_body["queueDatas"]
    ]
    brokers = [_broker(server, each) for each in route_body["brokerDatas"]]
    server.cluster.record_topic(header["topic"], {name: n for name, n, *_ in queues})
    return TranslatedAnswer({}, pack_body({"topic": header["topic"], "queues": queues, "brokers": brokers}))


def brokers(server: Server, header: dict[str, Any], body: bytes) -> Steps:
    """All brokers."""
    [answer] = yield [StockCall(RequestCode.GET_BROKER_CLUSTER_INFO)]
    return TranslatedAnswer(
        {}, pack_body([_broker(server, each) for each in parse_json_body(answer)["brokerAddrTable"].values()])
    )


def topics(server: Server, header: dict[str, Any], body: bytes) -> Steps:
    """All topics."""
    [answer] = yield [StockCall(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)]
    return TranslatedAnswer({}, pack_body(sorted(parse_json_body(answer)["topicList"])))


def put_topic(server: Server, header: dict[str, Any], body: bytes) -> Steps:
    """Create or change a topic, at a broker.

    Its message type is not in RocketMQ's routes, so a change could not be confirmed.
    """
    if (message_type := header.get("message_type")) is not None:
        raise RequestCodeNotSupported(
            "servers of RocketMQ do not show message types in routes: use RocketMQ's mqadmin updateTopic "
            f"-a +message.type={MessageType(message_type).name}"
        )
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
    check_answer(answer)
    return TranslatedAnswer({})
