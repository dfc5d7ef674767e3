"""Our client's side of a connection to a server of RocketMQ, also one that answers wrongly."""

from __future__ import annotations

import json
from typing import Any

import msgpack
import pytest

from model.errors import RequestCodeNotSupported
from model.limits import MAX_IN_FLIGHT_REQUESTS
from model.response_code import ResponseCode
from remoting.codec import Codec, Decoder
from remoting.command import ONE_WAY, REQUEST, RESPONSE, Command
from remoting.request_code import RequestCode
from rocketmq.frame import ONE_WAY_BIT, RESPONSE_BIT, Frame, FrameDecoder, encode_frame
from rocketmq.outward.dialect import OutwardDialect


class Server:
    """The other end of a connection: `asked` are the calls that came, and `say` answers one."""

    peer, number, local_host, local_port = "10.0.0.1:10911", 1, "10.0.0.2", 1

    def __init__(self, dialect: OutwardDialect | None = None) -> None:
        dialect = dialect or OutwardDialect()
        self.edge = dialect.codec(self, self.peer)
        self.edge._server.cluster.record_names({self.peer: "broker-a"})
        self.asked: list[Frame] = []
        self._decoder = FrameDecoder()

    def send_frame(self, frame: bytes) -> None:
        self.asked += self._decoder.feed(frame)

    def handle_soon(self, command: Command) -> None:
        raise AssertionError("this protocol asks nothing by itself")

    def use(self, codec: Codec) -> Decoder:
        return codec.decoder()

    def ask(self, code: int, header: dict[str, Any], body: object = None, opaque: int = 7) -> list[Frame]:
        """What our client asks, as calls of RocketMQ."""
        self.asked.clear()
        packed = body if body is None or isinstance(body, bytes) else msgpack.packb(body)
        self.send_frame(self.edge.encode(REQUEST, code, opaque, header, packed))
        return self.asked

    def say(self, call: Frame, code: int = 0, body: bytes | None = None, **fields: object) -> list[Command]:
        """Answer a call; returns what our client hears then."""
        self.asked = [each for each in self.asked if each is not call]
        texts = {name: str(value) for name, value in fields.items()}
        return self.edge.feed(encode_frame(Frame(code, RESPONSE_BIT, call.opaque, texts, body)))


def test_a_request_that_takes_two_rounds_is_answered_once_and_in_its_order() -> None:
    server = Server()
    beat: dict[str, Any] = {"client_id": "c@1", "producers": [], "epoch": "", "consumers": []}
    beat["consumers"] = [["g", "PASSIVELY", "CLUSTERING", "LAST_OFFSET", "AVG", 30.0, 0, 0, [["t", "*", 1]]]]
    [call] = server.ask(RequestCode.HEART_BEAT, {}, beat)
    [command] = server.say(call)
    assert (command.opaque, command.header) == (7, {"groups": {"g": [0, 0, True]}})
    first, second = server.ask(RequestCode.LOCK_BATCH_MQ, {"group": "g"}, [["t", 0], ["t", 1]], opaque=8)
    assert {first.code, second.code} == {14}
    assert server.say(second, 22) == []
    assert server.say(first, offset=5) == []
    [third] = server.asked
    assert (third.code, third.fields) == (30, {"topic": "t", "queueId": "1"})
    [command] = server.say(third, offset=9)
    assert (command.flags, command.code, command.opaque) == (RESPONSE, 0, 8)
    leases: Any = msgpack.unpackb(command.body or b"")
    granted, refused = leases
    assert [(row[1], row[3]) for row in granted] == [(0, 5), (1, 9)]
    assert refused == []


@pytest.mark.parametrize(
    "body", [None, b"", b"no json", b"[]", b'{"queueDatas":null,"brokerDatas":[]}', b'"' + b"[" * 9999]
)
def test_an_answer_that_cannot_be_read_is_an_error_that_says_so(body: bytes | None) -> None:
    server = Server()
    [call] = server.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "t"})
    [command] = server.say(call, body=body)
    assert command.code == ResponseCode.SYSTEM_ERROR
    assert "the answer of RocketMQ to GET_ROUTEINFO_BY_TOPIC cannot be read" in command.header["remark"]


def test_answers_to_nothing_and_second_answers_are_dropped() -> None:
    server = Server()
    [call] = server.ask(RequestCode.GET_MAX_OFFSET, {"topic": "t", "queue_id": 0})
    assert server.edge.feed(encode_frame(Frame(0, RESPONSE_BIT, call.opaque + 1, {"offset": "1"}))) == []
    assert [command.header["offset"] for command in server.say(call, offset=3)] == [3]
    assert server.say(call, offset=4) == []


def test_a_refusal_keeps_its_code_if_there_is_one_like_it_here() -> None:
    for code, ours in ((17, ResponseCode.TOPIC_NOT_EXIST), (1500, ResponseCode.SYSTEM_ERROR)):
        server = Server()
        [call] = server.ask(RequestCode.GET_MAX_OFFSET, {"topic": "t", "queue_id": 0})
        [command] = server.say(call, code)
        assert command.code == ours


def test_lying_lengths_break_the_stream_with_one_error() -> None:
    for data in (
        b"\x7f\xff\xff\xff\x00\x00\x00\x01{",
        b"\x00\x00\x00\x08\x00\x00\xff\xff....",
        b"\x00\x00\x00\x04\x05\x00\x00\x00",
    ):
        server = Server()
        assert server.edge.feed(data) == []
        assert server.edge.error is not None
        assert server.edge.feed(data) == []


def test_a_notification_sets_off_a_pass_and_other_questions_are_answered_that_no_one_knows_them() -> None:
    server = Server()
    [command] = server.edge.feed(encode_frame(Frame(40, ONE_WAY_BIT, 1, {"consumerGroup": "g"})))
    assert (command.flags, command.code) == (ONE_WAY, RequestCode.NOTIFY_CONSUMER_IDS_CHANGED)
    assert command.header == {"group": "g", "version": -1, "cause": ""}
    assert server.edge.feed(encode_frame(Frame(309, 0, 5, {"consumerGroup": "g"}))) == []
    [answer] = server.asked
    assert (answer.code, answer.opaque, answer.flag) == (3, 5, RESPONSE_BIT)


def test_a_notification_that_cannot_be_read_is_dropped() -> None:
    server = Server()
    assert server.edge.feed(encode_frame(Frame(40, ONE_WAY_BIT, 1, {}))) == []


def test_requests_that_are_never_answered_are_forgotten_from_a_limit_on() -> None:
    server = Server()
    [oldest] = server.ask(RequestCode.GET_MAX_OFFSET, {"topic": "t", "queue_id": 0})
    newest = oldest
    for _ in range(MAX_IN_FLIGHT_REQUESTS):
        [newest] = server.ask(RequestCode.GET_MAX_OFFSET, {"topic": "t", "queue_id": 0})
    assert server.say(oldest, offset=1) == []
    assert len(server.say(newest, offset=1)) == 1


def test_what_rocketmq_has_no_request_for_is_refused_before_it_is_sent() -> None:
    server = Server()
    with pytest.raises(RequestCodeNotSupported, match="no request like GET_POP_STATS"):
        server.ask(RequestCode.GET_POP_STATS, {"group": "g"})
    assert json.dumps(server.asked) == "[]"
