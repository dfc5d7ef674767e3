from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest

from model.errors import (
    ConnectFailed,
    ConnectionLost,
    IllegalOperation,
    InvalidParameter,
    ProtocolError,
    RequestTimeout,
    ServiceNotAvailable,
    SystemBusy,
)
from model.limits import MAX_FRAME_BYTES
from model.message_queue import MessageQueue
from model.response_code import ResponseCode
from pipeline.wire import MAX_WAIT_S, WireConnection, raise_refusal
from remoting.codec import CODEC, MsgpackDecoder
from remoting.command import ONE_WAY, RESPONSE, Command
from remoting.request_code import RequestCode
from remoting.security.key import Key
from remoting.security.login import ClientHandshake
from remoting.security.records import RecordDecoder
from tests.unit.pipeline.fake_cluster import NAME_SERVER, FakeCluster

HEART_BEAT = int(RequestCode.HEART_BEAT)


@contextmanager
def server(talk: Callable[[socket.socket], None]) -> Iterator[str]:
    """Serve one connection in a thread; `talk` gets its socket, and it is closed behind it."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:

        def serve() -> None:
            peer, _ = listening.accept()
            with peer:
                talk(peer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            host, port = listening.getsockname()
            yield f"{host}:{port}"
        finally:
            thread.join()


def ask(talk: Callable[[socket.socket], None], timeout_s: float = 60.0) -> Command:
    """One request to a server that talks like this."""
    with server(talk) as address, closing(WireConnection(address, timeout_s)) as connection:
        return connection.receive(connection.send(HEART_BEAT, {"cause": "x"}))


def test_a_request_gets_its_own_answer_among_others_and_pushes() -> None:
    def talk(peer: socket.socket) -> None:
        asked = CODEC.decoder().feed(peer.recv(1_000))
        while len(asked) < 2:
            asked += CODEC.decoder().feed(peer.recv(1_000))
        peer.sendall(CODEC.encode(ONE_WAY, 40, 1, {"group": "g"}, None))
        for command in reversed(asked):
            frame = CODEC.encode(RESPONSE, 0, command.opaque, {"n": command.header["n"]}, b"b" * 100_000)
            for start in range(0, len(frame), 30_000):
                peer.sendall(frame[start : start + 30_000])

    with server(talk) as address, closing(WireConnection(address)) as connection:
        first, second = connection.send(HEART_BEAT, {"n": 1}), connection.send(HEART_BEAT, {"n": 2})
        assert connection.receive(first).header == {"n": 1}
        answer = connection.receive(second)
        assert (answer.header, len(answer.body or b"")) == ({"n": 2}, 100_000)


def test_a_fork_of_the_process_is_refused_by_name_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    received: list[bytes] = []
    refused = pytest.raises(IllegalOperation, match=r"belongs to process \d+, and process -1 was forked from it")
    with (
        server(lambda peer: received.append(peer.recv(1_000))) as address,
        closing(WireConnection(address)) as connection,
        refused,
    ):
        monkeypatch.setattr(os, "getpid", lambda: -1)
        connection.send(HEART_BEAT, {})
    assert received == [b""]


def test_the_system_watches_a_server_that_is_asked_seldom() -> None:
    with server(lambda peer: None) as address, closing(WireConnection(address)) as connection:
        assert connection._socket.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


def test_a_server_that_is_not_there_is_reported_at_once() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        host, port = listening.getsockname()
    with pytest.raises(ConnectFailed, match=f"cannot connect to {host}:{port}"):
        WireConnection(f"{host}:{port}")


@pytest.mark.parametrize("said", [b"", CODEC.encode(RESPONSE, 0, 1, {}, b"whole")[:-1]])
def test_an_answer_that_is_cut_off_is_a_lost_connection(said: bytes) -> None:
    def talk(peer: socket.socket) -> None:
        peer.recv(1_000)
        peer.sendall(said)

    with pytest.raises(ConnectionLost):
        ask(talk)


def test_a_silent_server_is_abandoned_after_the_timeout() -> None:
    receipts = threading.Event()

    def talk(peer: socket.socket) -> None:
        peer.recv(1_000)
        receipts.wait(60)

    with server(talk) as address, closing(WireConnection(address, 0.02)) as connection:
        opaque = connection.send(HEART_BEAT, {})
        with pytest.raises(RequestTimeout, match=r"within 0\.02 s"):
            connection.receive(opaque)
        receipts.set()
        with pytest.raises(ConnectionLost):
            connection.receive(opaque)


@pytest.mark.parametrize("said", [b"HTTP/1.1 400", (MAX_FRAME_BYTES + 1).to_bytes(4, "big"), b"\x00\x00\x00\x01\xc0"])
def test_bytes_that_are_not_frame_are_reported_as_such_before_they_are_read(said: bytes) -> None:
    def talk(peer: socket.socket) -> None:
        peer.recv(1_000)
        peer.sendall(said)

    with pytest.raises(ProtocolError):
        ask(talk)


def test_a_refusal_becomes_the_error_that_its_code_stands_for() -> None:
    with pytest.raises(SystemBusy, match="later"):
        raise_refusal(Command(RESPONSE, int(ResponseCode.SYSTEM_BUSY), 1, {"remark": "later"}, None))
    fine = Command(RESPONSE, 0, 1, {}, None)
    assert raise_refusal(fine) is fine


def test_a_question_is_asked_again_after_growing_waits_and_not_for_ever() -> None:
    cluster = FakeCluster()
    client = cluster.client(retries=7)
    failures = 0

    def attempt() -> None:
        nonlocal failures
        failures += 1
        raise ServiceNotAvailable("starting")

    with pytest.raises(ServiceNotAvailable):
        client.with_retries(attempt)
    assert failures == 8
    assert cluster.waits == [0.25, 0.5, 1, 2, 4, 4, 4]
    assert max(cluster.waits) == MAX_WAIT_S


def test_what_is_refused_for_good_is_not_asked_again() -> None:
    cluster = FakeCluster()

    def attempt() -> None:
        raise InvalidParameter("no")

    with pytest.raises(InvalidParameter):
        cluster.client().with_retries(attempt)
    assert cluster.waits == []


def test_many_questions_to_a_broker_are_answered_in_their_order() -> None:
    cluster = FakeCluster(queues=700)
    cluster.fill(1)
    cluster.fill(1)
    cluster.put(MessageQueue("t", "a", 5), *cluster.queues[MessageQueue("t", "a", 0)].messages)
    headers = [{"topic": "t", "queue_id": number} for number in range(700)]
    with cluster.client() as client:
        answers = client.ask_broker("a", RequestCode.GET_MAX_OFFSET, headers)
    assert [answer.header["offset"] for answer in answers] == [2] * 5 + [4] + [2] * 694


def test_a_broker_that_moved_is_found_at_its_new_address() -> None:
    cluster = FakeCluster()
    client = cluster.client()
    client.ask_broker("a", RequestCode.GET_MAX_OFFSET, [{"topic": "t", "queue_id": 0}])
    cluster.failures = 1
    client.ask_broker("a", RequestCode.GET_MAX_OFFSET, [{"topic": "t", "queue_id": 0}])
    assert [code for code, _ in cluster.asked].count(RequestCode.GET_BROKER_CLUSTER_INFO) == 2


def test_a_replica_that_does_not_serve_is_left_for_the_master_that_it_names() -> None:
    cluster = FakeCluster()
    cluster.fill(3)
    with cluster.client() as client:
        cluster.moved["a"] = 2  # the name server still lists a:1
        header = {"topic": "t", "queue_id": 0}
        (answer,) = client.ask_broker("a", RequestCode.GET_MAX_OFFSET, [header])
        assert answer.header["offset"] == 3
        client.ask_broker("a", RequestCode.GET_MAX_OFFSET, [header])
    assert cluster.connected == [NAME_SERVER, "a:1", "a:2"]


def test_the_next_name_server_is_asked_when_one_is_down() -> None:
    cluster = FakeCluster()
    client = cluster.client()
    client._name_servers = ("gone:1", "names:1")
    cluster.down.add("gone")
    assert client.topics() == ["t"]
    assert client.route("other") is None
    assert client.masters() == {"a": "a:1"}
    assert cluster.waits == []


class Signed(WireConnection):
    """Takes its answers as signed ones, without a server to agree on keys with."""

    def _log_in(self, handshake: ClientHandshake) -> None:
        self._records = RecordDecoder(bytes(32), MsgpackDecoder)


@pytest.mark.parametrize("kind", [WireConnection, Signed])
def test_an_answer_over_a_connection_that_was_closed_in_between_is_lost(
    kind: type[WireConnection], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The requests of a sink to a broker are outstanding while another one over the same connection fails."""
    monkeypatch.setattr("pipeline.wire.read_own_key", lambda _: Key("user", bytes(32)) if kind is Signed else None)
    with server(lambda peer: None) as address:
        connection = kind(address)
        connection.close()
        with pytest.raises(ConnectionLost):
            connection.receive(1)
