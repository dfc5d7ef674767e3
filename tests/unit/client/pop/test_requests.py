"""What a broker answers to a pop."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import msgpack
import pytest

from client.instance.instance import ClientInstance
from client.instance.routes import RouteCache
from client.options import ConsumerOptions
from client.pop.message import PopMessage
from client.pop.requests import ANY_QUEUE, Dead, PopRequests, decode_batches, targets_to_pop
from model.decode import Undecodable
from model.errors import ConnectionLost, FlowControl, GroupNotExist, ProtocolError, RlabError
from model.message import Message, encode_payload
from model.message_queue import MessageQueue
from model.record import RecordCorrupt, encode_record
from model.response_code import ResponseCode
from model.subscription import make_subscription
from model.topic_route import READ_WRITE, BrokerData, QueueData, TopicRoute
from remoting.command import RESPONSE, Command
from remoting.session import Waiter


def records(*offsets: int, failed: int = 0) -> bytes:
    payload = encode_payload(Message("orders", b"x"), 900, "id")
    return b"".join(encode_record(1, 2, offset, 1000, 0, 0, failed, payload) for offset in offsets)


def test_each_batch_gives_its_messages_their_queue_token_and_attempts() -> None:
    body = msgpack.packb(
        [
            ["orders", 2, 77, 5000, [1, 3], records(4, 6)],
            ["%RETRY%g", 0, 78, 6000, [2], records(0, failed=1)],
        ]
    )
    messages = decode_batches("broker-a", body)
    first, retry = MessageQueue("orders", "broker-a", 2), MessageQueue("%RETRY%g", "broker-a", 0)
    assert [(m.queue, m.offset, m.token, m.visible_ms, m.attempts) for m in messages] == [
        (first, 4, 77, 5000, 1),
        (first, 6, 77, 5000, 3),
        (retry, 0, 78, 6000, 2),
    ]


@pytest.mark.parametrize(
    "batches",
    [
        [["orders", 2, 77, 5000, [1], records(4, 6)]],
        [["orders", 2, 77, 5000, [1, 1], records(4, 6)[:-1]]],
        [["orders", 2, 77, 5000]],
        [5],
        7,
    ],
    ids=["too few attempts", "half a record", "too short", "no batch", "no batches"],
)
def test_a_damaged_answer_is_an_error_that_names_the_broker(batches: object) -> None:
    with pytest.raises(RecordCorrupt, match="broker-a"):
        decode_batches("broker-a", msgpack.packb(batches))


def test_what_is_not_a_message_is_left_out_of_its_batch_with_its_token_and_its_number_of_attempts() -> None:
    odd = encode_record(1, 2, 5, 1000, 0, 0, 0, b"odd")
    body = msgpack.packb(
        [
            ["orders", 2, 77, 5000, [1, 4, 3], records(4) + odd + records(6)],
            ["orders", 2, 78, 5000, [2], odd],
        ]
    )
    passed_over: list[tuple[Undecodable, int]] = []
    messages = decode_batches("broker-a", body, passed_over)
    assert [(m.offset, m.token, m.attempts) for m in messages] == [(4, 77, 1), (6, 77, 3)]
    queue = MessageQueue("orders", "broker-a", 2)
    assert [(each.queue, each.offset, token) for each, token in passed_over] == [(queue, 5, 77), (queue, 5, 78)]
    with pytest.raises(RecordCorrupt, match="broker-a"):
        decode_batches("broker-a", body)


class Peer:
    """A connection that keeps who waits, or takes nothing."""

    ready = True

    def __init__(self, error: RlabError | None = None) -> None:
        self.waiter: Waiter | None = None
        self.error = error

    def request_for(self, waiter: Waiter, *_: Any) -> None:
        if self.error is not None:
            raise self.error
        self.waiter = waiter

    def answer(self, body: bytes | None, code: int = 0) -> None:
        assert self.waiter is not None
        self.waiter.set_result(Command(RESPONSE, code, 1, {"remark": "no"} if code else {}, body))


def requests_of(peer: Peer | None) -> PopRequests:
    masters = {} if peer is None else {"broker-a": peer}
    instance = SimpleNamespace(masters=masters, client_id="c", config=SimpleNamespace(request_timeout_s=3.0))
    return PopRequests(cast(ClientInstance, instance), "g", ConsumerOptions(), lambda handle: None, order=False)


def start_pop(peer: Peer | None) -> tuple[bool, list[list[PopMessage] | RlabError]]:
    came: list[list[PopMessage] | RlabError] = []
    subscription = make_subscription("orders", "*", 1)
    sent = requests_of(peer).start_pop("broker-a", subscription, came.append, max_n=32, invisible_ms=1000, suspend_ms=0)
    return sent, came


def test_a_pop_without_a_task_calls_back_with_messages_or_with_what_went_wrong() -> None:
    peer = Peer()
    sent, came = start_pop(peer)
    assert (sent, came) == (True, [])
    peer.answer(msgpack.packb([["orders", 2, 77, 5000, [1], records(4)]]))
    peer.answer(None, ResponseCode.PULL_NOT_FOUND)
    peer.answer(None, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)
    peer.answer(b"\x07")
    assert peer.waiter is not None
    peer.waiter.set_exception(ConnectionLost("gone"))
    found, nothing, *errors = came
    assert isinstance(found, list)
    assert ([message.offset for message in found], nothing) == ([4], [])
    assert [type(error) for error in errors] == [GroupNotExist, RecordCorrupt, ConnectionLost]


@pytest.mark.parametrize(
    "peer",
    [None, Peer(ConnectionLost("closed")), Peer(FlowControl("many"))],
    ids=["not connected", "closed", "too much under way"],
)
def test_what_cannot_be_sent_at_once_is_not_sent_without_a_task(peer: Peer | None) -> None:
    assert start_pop(peer) == (False, [])


def test_an_acknowledgement_without_a_task_calls_back_with_the_dead_handles() -> None:
    peer = Peer()
    came: list[Dead | RlabError] = []
    assert requests_of(peer).start_ack("broker-a", {("orders", 2, 77): [4, 5]}, came.append)
    peer.answer(msgpack.packb([]))
    peer.answer(msgpack.packb([["orders", 2, 5]]))
    peer.answer(msgpack.packb([5]))
    assert came[:2] == [[], [("orders", 2, 5)]]
    assert isinstance(came[2], ProtocolError)
    assert not came[2].definite


def test_each_broker_of_a_topic_is_asked_for_all_its_queues_and_adds_what_is_to_be_tried_again_by_itself() -> None:
    routes = RouteCache()
    for topic, names in {"t": ("broker-a", "broker-b"), "%RETRY%g": ("broker-a",)}.items():
        queues = tuple(
            QueueData(broker_name=name, read_queue_nums=2, write_queue_nums=2, perm=READ_WRITE) for name in names
        )
        brokers = tuple(BrokerData(cluster="c", broker_name=name, addresses={0: "h:1"}) for name in names)
        routes.update(topic, TopicRoute(topic=topic, queues=queues, brokers=brokers))
    assert list(targets_to_pop(routes, ("%RETRY%g", "t", "unknown"))) == [
        MessageQueue("t", "broker-a", ANY_QUEUE),
        MessageQueue("t", "broker-b", ANY_QUEUE),
    ]
