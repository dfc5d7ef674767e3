from __future__ import annotations

from typing import Any

import msgpack
import pytest

from model.errors import InvalidParameter
from model.heartbeat import HeartbeatData
from remoting.command import Command
from remoting.request_code import RequestCode
from remoting.security.needs import NEEDS, names_of, wanted
from remoting.security.policy import Right
from remoting.wire.schema import SCHEMA

PUSHED = {
    code for code, schema in SCHEMA.items() if schema.sender.startswith("broker -> ") and "one-way" in schema.sender
}
HANDSHAKE = {RequestCode.GET_CHALLENGE, RequestCode.AUTHENTICATE}


def request(code: RequestCode, header: dict[str, Any], body: object = None) -> Command:
    return Command(0, code, 1, header, None if body is None else msgpack.packb(body))


def test_every_request_to_a_server_has_the_rights_that_it_takes() -> None:
    assert set(NEEDS) == set(RequestCode) - PUSHED - HANDSHAKE


def test_a_right_to_a_name_is_asked_of_a_field_that_the_request_has() -> None:
    for code, need in NEEDS.items():
        fields = {field.name: field.required for field in SCHEMA[code].fields}
        assert need.group is None or fields["group"], code
        assert (
            need.topic is None
            or fields.get("topic", False)
            or code
            in (
                RequestCode.VIEW_MESSAGE_BY_ID,
                RequestCode.GET_BROKER_RUNTIME_INFO,
                RequestCode.GET_GROUP_LIST,
                RequestCode.GET_ABSENT_BROKERS,
            )
        )


def test_a_heartbeat_takes_the_groups_and_the_topics_that_it_names() -> None:
    data = HeartbeatData(client_id="c1", consumers=(), producer_groups=("p",), checkers=("q",))
    body = request(RequestCode.HEART_BEAT, {}, data.to_wire())
    assert list(wanted(body)) == [(Right.MEMBER, "q")]
    assert names_of(body) == ["c1"]
    assert list(wanted(request(RequestCode.HEART_BEAT, {"fingerprint": 1}))) == []


def test_a_pull_that_only_reads_takes_no_right_to_its_group() -> None:
    read = {"topic": "orders", "group": "g"}
    assert list(wanted(request(RequestCode.PULL_MESSAGE, read))) == [(Right.CONSUME, "orders")]
    for more in ({"client_id": "c"}, {"token": 1}, {"commit": 1}):
        assert (Right.MEMBER, "g") in wanted(request(RequestCode.PULL_MESSAGE, {**read, **more}))


def test_messages_of_a_body_take_a_right_to_each_of_their_topics() -> None:
    staged = request(RequestCode.SINK_STAGE, {}, [["a", 0, 0, b""], ["b", 0, 0, b""], ["a", 1, 0, b""]])
    assert list(wanted(staged)) == [(Right.PRODUCE, "a"), (Right.PRODUCE, "b")]
    half = request(RequestCode.SEND_HALF_MESSAGE, {"group": "g"}, [["a", 0, 0, -1, b""]])
    assert list(wanted(half)) == [(Right.MEMBER, "g"), (Right.PRODUCE, "a")]
    bodies: tuple[object, ...] = (5, [1], [[]], [{}])
    for body in bodies:
        with pytest.raises(InvalidParameter):
            list(wanted(request(RequestCode.SINK_STAGE, {}, body)))


def test_what_is_about_the_whole_cluster_takes_an_administrator() -> None:
    for code in (RequestCode.GET_BROKER_RUNTIME_INFO, RequestCode.GET_GROUP_LIST):
        assert list(wanted(request(code, {}))) == [(Right.ADMIN, "")]
        assert list(wanted(request(code, {"topic": "a"}))) == [(Right.KNOW, "a")]
    assert list(wanted(request(RequestCode.VIEW_MESSAGE_BY_ID, {}))) == [(Right.CONSUME, "*")]


def test_a_query_of_a_sink_belongs_to_whoever_began_it() -> None:
    assert names_of(request(RequestCode.SINK_COMMIT, {"query_id": "q"})) == ["query q"]
