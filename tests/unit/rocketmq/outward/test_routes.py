"""The questions of our client to name servers, and what servers of RocketMQ answer."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

from model.errors import RequestCodeNotSupported
from model.names import TEMPLATE_TOPIC, TRACE_TOPIC
from remoting.request_code import RequestCode
from rocketmq.frame import Frame
from tests.unit.rocketmq.outward.test_edge import Server


def asked(code: int, header: dict[str, Any], body: object = None) -> tuple[Server, Frame]:
    server = Server()
    [call] = server.ask(code, header, body)
    return server, call


@pytest.mark.parametrize("key", ["0", '"0"'])
def test_a_route_is_read_in_standard_json_and_as_old_servers_write_it(key: str) -> None:
    server, call = asked(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "t"})
    assert (call.code, call.fields["topic"]) == (105, "t")
    queues = '[{"brokerName":"a","perm":6,"readQueueNums":4,"writeQueueNums":2,"topicSysFlag":0}]'
    brokers = f'[{{"brokerAddrs":{{{key}:"10.0.0.1:10911"}},"brokerName":"a","cluster":"c"}}]'
    [command] = server.say(call, body=f'{{"brokerDatas":{brokers},"queueDatas":{queues}}}'.encode())
    assert msgpack.unpackb(command.body or b"") == {
        "topic": "t",
        "queues": [["a", 4, 2, 6]],
        "brokers": [["c", "a", [[0, "10.0.0.1:10911"]]]],
    }


@pytest.mark.parametrize(("code", "kind"), [(0, "namesrv"), (3, "broker")])
def test_a_name_server_is_distinguished_from_a_broker_by_what_it_knows(code: int, kind: str) -> None:
    server, call = asked(RequestCode.GET_SERVER_STATE, {})
    assert server.say(call, code)[0].header["kind"] == kind


def test_a_message_type_is_refused_with_the_command_that_sets_it_there() -> None:
    header = {"topic": "t", "read_queue_nums": 1, "write_queue_nums": 1, "perm": 6}
    assert asked(RequestCode.UPDATE_AND_CREATE_TOPIC, header)[1].code == 17
    with pytest.raises(RequestCodeNotSupported, match=r"mqadmin updateTopic -a \+message.type=FIFO"):
        asked(RequestCode.UPDATE_AND_CREATE_TOPIC, {**header, "message_type": 2})


def test_the_topic_that_every_broker_here_has_is_the_template_there() -> None:
    server, call = asked(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": TRACE_TOPIC})
    assert call.fields["topic"] == TEMPLATE_TOPIC
    queues = '[{"brokerName":"a","perm":7,"readQueueNums":4,"writeQueueNums":4}]'
    body = f'{{"brokerDatas":[{{"brokerAddrs":{{"0":"h:1"}},"brokerName":"a"}}],"queueDatas":{queues}}}'
    [command] = server.say(call, body=body.encode())
    route: Any = msgpack.unpackb(command.body or b"")
    assert route["topic"] == TRACE_TOPIC
