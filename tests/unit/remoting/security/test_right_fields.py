from __future__ import annotations

from typing import Any

import msgpack
import pytest

from model.errors import InvalidParameter
from model.heartbeat import ConsumeFrom, ConsumerData, ConsumeType, HeartbeatData, MessageModel
from model.message import Message, encode_payload
from model.subscription import make_subscription
from remoting.command import Command
from remoting.request_code import RequestCode
from remoting.security.right_fields import claimed_ids, is_decided_by_header, required_rights, right_fields
from remoting.wire.field import CLIENT, GROUP, TOPIC, Field, Noun, RequestSchema, Right
from remoting.wire.schema import SCHEMA

pytestmark = pytest.mark.walk

PUSHED = {
    *(code for code, each in SCHEMA.items() if each.sender.startswith("broker -> ") and "one-way" in each.sender),
    *(code for code, each in SCHEMA.items() if each.sender.endswith("-> replica")),
    RequestCode.NOTIFY_ROUTE_CHANGED,
}
HANDSHAKE = {RequestCode.GET_CHALLENGE, RequestCode.AUTHENTICATE}
SERVED = sorted(set(RequestCode) - PUSHED - HANDSHAKE)

# Texts that name neither a topic nor a group, a client, a query, a transaction or a broker.
OTHER_TEXTS = {
    *("epoch", "cause", "to", "key", "consume_from", "strategy", "mode", "cluster", "address", "role", "sql"),
    "message_types",  # digits
    "handle of FORWARD_RECALL",  # as the next one: the broker of the handle answers it
    "handle of RECALL_MESSAGE",  # its handler compares the topic in it with the one in the header
    # Whoever may consume every topic may read each message.
    "message_id of VIEW_MESSAGE_BY_ID",
}
# Bodies without rows that have no names in them beyond `RequestSchema.names`.
OTHER_BODIES = {
    *(RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_MESSAGES, RequestCode.CONSUME_MESSAGE_DIRECTLY),
    RequestCode.PUT_REPLICA_SET,  # its handler compares the name in the row with the one in the header
}
# A number that names something: the half message of a transaction.
NAMING_NUMBERS = {(RequestCode.END_TRANSACTION, "offset")}


def request(code: RequestCode, header: dict[str, Any], body: object = None) -> Command:
    return Command(0, code, 1, header, None if body is None else msgpack.packb(body))


def is_text(field: Field) -> bool:
    return str in (field.type, field.items)


def uncovered(schema: RequestSchema) -> list[str]:
    """The fields that name something, without a right to it or a reason."""
    naming = [field for field in schema.all_fields if field.noun is not None]
    return [field.name for field in naming if not (field.right or field.why or schema.right is Right.ADMIN)]


@pytest.mark.parametrize("code", SERVED)
def test_each_field_that_names_something_is_covered_by_a_right_or_has_a_reason(code: RequestCode) -> None:
    schema = SCHEMA[code]
    assert uncovered(schema) == []
    for field in schema.all_fields:
        if is_text(field) and field.noun is None:
            assert OTHER_TEXTS & {field.name, f"{field.name} of {code.name}"}, f"what does {field.name} name?"
        assert not (field.right and field.why), field.name
        assert field.noun is not None or not (field.right or field.why or field.absent), field.name
        assert ((code, field.name) in NAMING_NUMBERS) == (field.noun is not None and not is_text(field)), field.name
    if schema.body and schema.rows is None:
        assert schema.names or code in OTHER_BODIES, "what does its body name?"


def test_the_walk_sees_a_field_that_names_a_topic_without_a_right() -> None:
    assert uncovered(RequestSchema("a -> b", "", (GROUP.requires(Right.MEMBER), TOPIC))) == ["topic"]
    assert uncovered(RequestSchema("a -> b", "", (), rows=(CLIENT,))) == ["client_id"]
    assert uncovered(RequestSchema("a -> b", "", (), names=(GROUP,))) == ["group"]
    assert uncovered(RequestSchema("a -> b", "", (GROUP.freely("why"),))) == []


def test_rights_fit_what_their_fields_name() -> None:
    fitting = {
        Noun.TOPIC: {*(Right.PRODUCE, Right.CONSUME, Right.CONSUME_OR_MANAGE, Right.KNOW, Right.MANAGE_TOPIC)},
        Noun.GROUP: {Right.MEMBER, Right.MANAGE_GROUP, Right.KNOW_GROUP},
        Noun.CLIENT: {Right.OWN},
        Noun.QUERY: {Right.OWN},
        Noun.TRANSACTION: set[Right](),
        Noun.BROKER: {Right.REGISTER, Right.REPLICATE, Right.CHANGE_SET},
    }
    for code in SERVED:
        for field in SCHEMA[code].all_fields:
            if field.noun is not None and field.right is not None:
                assert field.right in fitting[field.noun], (code, field.name)


def test_a_request_that_no_one_has_thought_of_takes_an_administrator() -> None:
    assert right_fields(RequestSchema("a -> b", "", (Field("number", int, ""),))).cluster is Right.ADMIN
    assert right_fields(RequestSchema("a -> b", "", (TOPIC.requires(Right.KNOW),))).cluster is None


def test_a_heartbeat_takes_the_groups_and_the_topics_that_it_names() -> None:
    data = HeartbeatData(client_id="c1", consumers=(), producer_groups=("p",), checkers=("q",))
    body = request(RequestCode.HEART_BEAT, {}, data.to_wire())
    assert list(required_rights(body)) == [(Right.MEMBER, "q")]
    assert claimed_ids(body) == ["c1"]
    consumer = ConsumerData(
        group="g",
        consume_type=ConsumeType.PASSIVELY,
        model=MessageModel.CLUSTERING,
        consume_from=ConsumeFrom.LAST_OFFSET,
        strategy="AVG",
        subscriptions=(make_subscription("orders", "*", 1),),
        session_timeout_s=30.0,
    )
    body = request(RequestCode.HEART_BEAT, {}, HeartbeatData(client_id="c1", consumers=(consumer,)).to_wire())
    assert list(required_rights(body)) == [(Right.MEMBER, "g"), (Right.CONSUME, "orders")]
    assert list(required_rights(request(RequestCode.HEART_BEAT, {"fingerprint": 1}))) == []


def test_a_pull_that_only_reads_takes_no_right_to_its_group() -> None:
    read = {"topic": "orders", "group": "g"}
    assert list(required_rights(request(RequestCode.PULL_MESSAGE, read))) == [(Right.CONSUME, "orders")]
    for more in ({"client_id": "c"}, {"token": 1}, {"commit": 1}):
        assert (Right.MEMBER, "g") in required_rights(request(RequestCode.PULL_MESSAGE, {**read, **more}))


def test_rows_of_a_body_take_a_right_to_each_of_their_topics() -> None:
    staged = request(RequestCode.SINK_STAGE, {"query_id": "q"}, [["a", 0, 0, b""], ["b", 0, 0, b""], ["a", 1, 0, b""]])
    assert list(required_rights(staged)) == [(Right.PRODUCE, "a"), (Right.PRODUCE, "b")]
    half = request(RequestCode.SEND_HALF_MESSAGE, {"group": "g"}, [["a", 0, 0, -1, b""]])
    assert list(required_rights(half)) == [(Right.MEMBER, "g"), (Right.PRODUCE, "a")]
    member = {"group": "g", "client_id": "c"}
    for code, more in (
        (RequestCode.UPDATE_CONSUMER_OFFSET, [5, 1]),
        (RequestCode.UNLOCK_BATCH_MQ, [5, 1]),
        (RequestCode.LOCK_BATCH_MQ, list[int]()),
    ):
        rows = request(code, member, [["a", 0, *more], ["b", 0, *more], ["a", 1, *more]])
        assert list(required_rights(rows)) == [(Right.MEMBER, "g"), (Right.CONSUME, "a"), (Right.CONSUME, "b")]
        assert claimed_ids(rows) == ["c"]
    bodies: tuple[object, ...] = (5, [1], [[]], [{}])
    for body in bodies:
        with pytest.raises(InvalidParameter):
            list(required_rights(request(RequestCode.SINK_STAGE, {"query_id": "q"}, body)))


def test_each_group_that_is_left_takes_a_right() -> None:
    leave = request(RequestCode.UNREGISTER_CLIENT, {"client_id": "c", "groups": ["g", "h"]})
    assert list(required_rights(leave)) == [(Right.MEMBER, "g"), (Right.MEMBER, "h")]


def test_a_reset_and_a_request_mode_take_a_right_to_their_topic() -> None:
    header = {"group": "g", "topic": "a"}
    for code in (RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, RequestCode.SET_MESSAGE_REQUEST_MODE):
        assert list(required_rights(request(code, header))) == [
            (Right.MANAGE_GROUP, "g"),
            (Right.CONSUME_OR_MANAGE, "a"),
        ]


def test_a_copy_for_a_retry_takes_a_right_to_the_topic_that_it_was_sent_to_first() -> None:
    copy = encode_payload(Message("orders", b"x"), 1, "id")
    for topic in ("%RETRY%g", "%DLQ%g"):
        sent = Command(0, RequestCode.SEND_MESSAGE, 1, {"topic": topic}, copy)
        assert list(required_rights(sent)) == [(Right.PRODUCE, topic), (Right.CONSUME_OR_MANAGE, "orders")]
        assert not is_decided_by_header(sent)
        foreign = Command(0, RequestCode.SEND_MESSAGE, 1, {"topic": topic}, b"no message")
        assert list(required_rights(foreign)) == [(Right.PRODUCE, topic)]
    plain = Command(0, RequestCode.SEND_MESSAGE, 1, {"topic": "orders"}, copy)
    assert list(required_rights(plain)) == [(Right.PRODUCE, "orders")]
    assert is_decided_by_header(plain)


def test_what_is_about_the_whole_cluster_takes_an_administrator() -> None:
    for code in (RequestCode.GET_BROKER_RUNTIME_INFO, RequestCode.GET_GROUP_LIST, RequestCode.GET_ABSENT_BROKERS):
        assert list(required_rights(request(code, {}))) == [(Right.ADMIN, "")]
        assert list(required_rights(request(code, {"topic": "a"}))) == [(Right.KNOW, "a")]
    assert list(required_rights(request(RequestCode.VIEW_MESSAGE_BY_ID, {}))) == [(Right.CONSUME_ALL, "")]


def test_a_query_of_a_sink_and_a_client_have_different_ids() -> None:
    assert claimed_ids(request(RequestCode.SINK_COMMIT, {"query_id": "q"})) == ["query q"]
    asked = {"group": "g", "client_id": "of-another-user"}
    assert claimed_ids(request(RequestCode.GET_CONSUMER_RUNNING_INFO, asked)) == []
