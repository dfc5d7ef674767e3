"""Bytes of HTTP/2 to calls and back: cut anywhere, long messages, windows of the peer, ends of calls and servers."""

from __future__ import annotations

import pytest
from h2.errors import ErrorCodes
from h2.events import ConnectionTerminated, DataReceived, StreamEnded, StreamReset, TrailersReceived
from h2.settings import SettingCodes

from rocketmq.grpc.http2.call import CallEvent
from tests.unit.rocketmq.grpc.http2.pair import HEADER_BYTES, WINDOW, Pair, headers, prefixed


def test_a_call_has_its_method_its_metadata_and_its_message() -> None:
    pair = Pair()
    events = pair.say(pair.open(("x-mq-client-id", "ü"), ("grpc-timeout", "1500m")), prefixed(b"hello"))
    assert [kind for kind, _ in events] == [CallEvent.MESSAGE, CallEvent.ENDED]
    call = events[0][1]
    assert (call.method, call.metadata["x-mq-client-id"], call.message, call.timeout_ms) == (
        "Say",
        "ü",
        b"hello",
        1_500,
    )


@pytest.mark.parametrize("size", [1, 2, 5, 17])
def test_a_stream_may_be_cut_anywhere(size: int) -> None:
    pair = Pair()
    number = pair.open()
    events = pair.say(number, prefixed(b"a" * 30) + prefixed(b"") + prefixed(b"b"), size=size)
    assert [kind for kind, _ in events] == [CallEvent.MESSAGE] * 3 + [CallEvent.ENDED]


def test_an_answer_has_messages_and_a_status() -> None:
    pair = Pair()
    [_, (_, call)] = pair.say(pair.open(), prefixed(b"q"))
    pair.server.send(call, [b"one", b"two"], end=True)
    pair.exchange()
    data = b"".join(event.data for event in pair.of(DataReceived) if isinstance(event, DataReceived))
    assert data == prefixed(b"one") + prefixed(b"two")
    [trailers] = pair.of(TrailersReceived)
    assert isinstance(trailers, TrailersReceived)
    assert ("grpc-status", "0") in [(str(name), str(value)) for name, value in trailers.headers]
    assert pair.of(StreamEnded)
    assert not list(pair.server.calls)


def test_an_answer_is_read_once_its_ping_is_acknowledged() -> None:
    pair = Pair({SettingCodes.INITIAL_WINDOW_SIZE: 10})
    [_, (_, call)] = pair.say(pair.open(), prefixed(b"q"))
    pair.server.send(call, [b"x" * 20], end=True, asks_read=True)
    assert pair.exchange() == [], "the answer waits for a window"
    pair.client.increment_flow_control_window(100, call.stream_id)
    assert pair.exchange() == [(CallEvent.READ, call)]
    assert pair.of(StreamEnded)


def test_an_answer_whose_call_is_reset_before_it_is_read_is_cancelled() -> None:
    pair = Pair()
    number = pair.open()
    [_, (_, call)] = pair.say(number, prefixed(b"q"))
    pair.server.send(call, [b"x"], end=True, asks_read=True)
    late = pair.server.take()
    pair.client.reset_stream(number, 8)
    assert pair.server.receive(pair.client.data_to_send()) == [(CallEvent.CANCELLED, call)]
    pair.client.receive_data(late)
    assert pair.exchange() == [], "the PING was about an answer that is settled"


def test_an_answer_without_the_question_is_not_followed_by_an_event() -> None:
    pair = Pair()
    number = pair.open()
    [_, (_, call)] = pair.say(number, prefixed(b"q"))
    pair.server.send(call, [b"x"], end=True)
    late = pair.server.take()
    pair.client.reset_stream(number, 8)
    assert pair.server.receive(pair.client.data_to_send()) == []
    pair.client.receive_data(late)
    assert pair.exchange() == []


def test_a_long_message_comes_whole_and_two_of_them_one_after_the_other() -> None:
    pair = Pair()
    first, second = pair.open(), pair.open()
    long = prefixed(b"x" * 1_000_000)
    for number in (first, second):
        pair.say(number, long[:WINDOW], end=False)
    assert pair.client.local_flow_control_window(first) == 1_000_000 + 5 - WINDOW
    assert pair.client.local_flow_control_window(second) == 0
    assert pair.server.partial_frame_bytes == 1_000_005 + WINDOW + 2 * HEADER_BYTES
    events = pair.say(first, long[WINDOW:])
    events += pair.say(second, long[WINDOW:])
    assert [len(call.message) for kind, call in events if kind is CallEvent.MESSAGE] == [1_000_000] * 2
    assert pair.server.partial_frame_bytes == 0


def test_a_cancelled_long_message_lets_the_next_one_come() -> None:
    pair = Pair()
    first, second = pair.open(), pair.open()
    for number in (first, second):
        pair.say(number, prefixed(b"x" * 1_000_000)[:WINDOW], end=False)
    pair.client.reset_stream(first, 8)
    [(kind, call)] = pair.exchange()
    assert (kind, call.stream_id, call.open) == (CallEvent.CANCELLED, first, False)
    assert pair.client.local_flow_control_window(second) > WINDOW


def test_a_compressed_message_is_refused_by_name() -> None:
    pair = Pair()
    pair.say(pair.open(), b"\x01\0\0\0\x01x")
    [trailers] = [dict(event.headers) for event in pair.seen if hasattr(event, "headers")]
    assert trailers["grpc-status"] == "12"


def test_a_call_that_ends_inside_a_message_fails_alone() -> None:
    pair = Pair()
    pair.say(pair.open(), b"\0\0\0\0\x09half")
    events = pair.say(pair.open(), prefixed(b"fine"))
    assert [kind for kind, _ in events] == [CallEvent.MESSAGE, CallEvent.ENDED]


def test_answers_wait_for_the_windows_of_the_peer() -> None:
    pair = Pair({SettingCodes.INITIAL_WINDOW_SIZE: 1_000})
    [_, (_, call)] = pair.say(pair.open(), prefixed(b"q"))
    pair.server.send(call, [b"x" * 2_500], end=True)
    pair.exchange()
    for already in (1_000, 2_000, 2_505):
        received = sum(len(event.data) for event in pair.seen if isinstance(event, DataReceived))
        assert received == already
        if already < 2_505:
            assert not pair.of(StreamEnded)
            pair.client.increment_flow_control_window(1_000, call.stream_id)
            pair.exchange()
    assert pair.of(StreamEnded)


def test_a_call_that_was_reset_gets_no_answer() -> None:
    pair = Pair()
    number = pair.open()
    [_, (_, call)] = pair.say(number, prefixed(b"q"))
    pair.client.reset_stream(number, 8)
    pair.exchange()
    pair.server.send(call, [b"late"], end=True)
    pair.server.fail(call, 13, "late")
    assert pair.server.take() == b""


def test_a_call_and_its_reset_may_come_in_one_read() -> None:
    pair = Pair()
    number = pair.open()
    pair.client.send_data(number, prefixed(b"q") + b"\0" + (1_000_000).to_bytes(4))
    pair.client.reset_stream(number, 8)
    assert [kind for kind, _ in pair.exchange()] == [CallEvent.CANCELLED], "what was reset is not read"


def test_calls_go_on_after_the_goodbye_of_their_client() -> None:
    pair = Pair()
    number = pair.open()
    pair.client.send_data(number, prefixed(b"q"), end_stream=True)
    said = pair.client.data_to_send()
    goaway = b"\0\0\x08\x07\0\0\0\0\0" + bytes(8)
    [_, (_, call)] = pair.server.receive(goaway + said)
    pair.server.send(call, [b"a"], end=True)
    pair.seen += pair.client.receive_data(pair.server.take())
    assert pair.of(StreamEnded)


def test_calls_under_way_go_on_after_the_goaway_of_the_server_and_later_ones_are_refused() -> None:
    pair = Pair()
    first, second = pair.open(), pair.open()
    [_, (_, call)] = pair.say(first, prefixed(b"q"))
    pair.client.send_data(second, prefixed(b"late"), end_stream=True)
    pair.client.send_headers(5, headers())
    pair.client.send_data(5, prefixed(b"late"), end_stream=True)
    goaway = pair.server.stop("gone")
    events = pair.server.receive(pair.client.data_to_send())
    assert [(kind, each.stream_id) for kind, each in events] == [(CallEvent.MESSAGE, second), (CallEvent.ENDED, second)]
    pair.server.send(call, [b"a"], end=True)
    pair.seen += pair.client.receive_data(pair.server.take())
    assert [event.stream_id for event in pair.of(StreamEnded) if isinstance(event, StreamEnded)] == [first]
    [refused] = pair.of(StreamReset)
    assert isinstance(refused, StreamReset)
    assert (refused.stream_id, refused.error_code) == (5, ErrorCodes.REFUSED_STREAM)
    [announced] = pair.client.receive_data(goaway)
    assert isinstance(announced, ConnectionTerminated)
    assert (announced.error_code, announced.last_stream_id) == (ErrorCodes.NO_ERROR, second)
    assert announced.additional_data == b"gone"


def test_a_late_call_and_its_reset_may_come_in_one_read() -> None:
    pair = Pair()
    pair.server.stop("gone")
    number = pair.open()
    pair.client.reset_stream(number, 8)
    assert pair.server.receive(pair.client.data_to_send()) == []


def test_a_refused_call_is_reset_so_that_its_client_sends_no_more() -> None:
    pair = Pair()
    number = pair.open()
    pair.say(number, b"\x01\0\0\0\x09", end=False)
    assert pair.of(StreamReset) or pair.of(StreamEnded)


def test_a_refused_message_and_the_reset_of_its_call_may_come_in_one_read() -> None:
    pair = Pair()
    number = pair.open()
    pair.client.send_data(number, b"\x01\0\0\0\x01x")
    pair.client.reset_stream(number, 8)
    assert [kind for kind, _ in pair.exchange()] == [CallEvent.CANCELLED]
