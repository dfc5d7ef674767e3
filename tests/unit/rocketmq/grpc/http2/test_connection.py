"""Bytes of HTTP/2 to calls and back: cut anywhere, long messages, windows of the peer, hostile peers."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import ConnectionTerminated, DataReceived, Event, StreamEnded, StreamReset, TrailersReceived
from h2.settings import SettingCodes, Settings
from hyperframe.frame import DataFrame, HeadersFrame, SettingsFrame, WindowUpdateFrame

from model.errors import ProtocolError
from model.grpc_limits import (
    MAX_GRPC_MESSAGE_BYTES,
    MAX_HTTP2_CALLS,
    MAX_HTTP2_HEADER_BYTES,
    MAX_HTTP2_RESETS,
    MAX_HTTP2_UNREAD_ANSWERS,
    SILENT_PEER_S,
)
from model.limits import FRAME_TIMEOUT_S, MAX_UNSENT_BYTES
from rocketmq.grpc.http2.call import CallEvent, GrpcCall
from rocketmq.grpc.http2.connection import Http2

WINDOW = 65_535


def headers(*more: tuple[str, str]) -> list[tuple[str, str]]:
    path = "/apache.rocketmq.v2.MessagingService/Say"
    return [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "x"), *more]


HEADER_BYTES = sum(len(name) + len(value) for name, value in headers())


def prefixed(message: bytes) -> bytes:
    return b"\0" + len(message).to_bytes(4) + message


class Pair:
    """A client, and the connection that is tested."""

    def __init__(self, settings: dict[SettingCodes, int] | None = None) -> None:
        self.server = Http2()
        self.client = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        if settings:
            self.client.local_settings = Settings(client=True, initial_values=settings)
        self.client.initiate_connection()
        self.seen: list[Event] = []
        self.exchange()

    def exchange(self, size: int = 1 << 30) -> list[tuple[CallEvent, GrpcCall]]:
        """Pass bytes in both directions, until there are none."""
        events: list[tuple[CallEvent, GrpcCall]] = []
        while True:
            said, answered = self.client.data_to_send(), self.server.take()
            if not said and not answered:
                return events
            self.seen += self.client.receive_data(answered)
            for at in range(0, len(said), size):
                events += self.server.receive(said[at : at + size])

    def open(self, *more: tuple[str, str], end: bool = False) -> int:
        number = self.client.get_next_available_stream_id()
        self.client.send_headers(number, headers(*more), end_stream=end)
        return number

    def say(
        self, number: int, data: bytes, *, end: bool = True, size: int = 1 << 30
    ) -> list[tuple[CallEvent, GrpcCall]]:
        """Send bytes as far as the windows allow, again and again."""
        events = []
        while data:
            room = min(self.client.local_flow_control_window(number), self.client.max_outbound_frame_size)
            if room:
                self.client.send_data(number, data[:room], end_stream=end and room >= len(data))
                data = data[room:]
            new = self.exchange(size)
            events += new
            assert room or self.client.local_flow_control_window(number), "the server never opens the window"
        return events

    def of(self, kind: type[Event]) -> Iterable[Event]:
        return [event for event in self.seen if isinstance(event, kind)]


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


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("3S", 3_000),
        ("2M", 120_000),
        ("1H", 3_600_000),
        ("8999700u", 8_999),
        ("9000000n", 9),
        ("5x", None),
        ("", None),
        ("x", None),
    ],
)
def test_the_deadline_of_a_call_is_read_in_every_unit(text: str, ms: int | None) -> None:
    assert GrpcCall(1, {"grpc-timeout": text}).timeout_ms == ms


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


def test_answers_that_are_unread_are_limited() -> None:
    pair, acknowledgements = Pair(), b""
    for _ in range(MAX_HTTP2_UNREAD_ANSWERS + 1):
        [_, (_, call)] = pair.say(pair.open(), prefixed(b"q"))
        pair.server.send(call, [b"a"], end=True, asks_read=True)
        pair.client.receive_data(pair.server.take())
        acknowledgements += pair.client.data_to_send()
    read = [call.stream_id for kind, call in pair.server.receive(acknowledgements) if kind is CallEvent.READ]
    assert read == list(range(3, 2 * MAX_HTTP2_UNREAD_ANSWERS + 3, 2)), "the oldest is forgotten"


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


@pytest.mark.parametrize(("length", "status"), [(MAX_GRPC_MESSAGE_BYTES - 5, ""), (MAX_GRPC_MESSAGE_BYTES - 4, "8")])
def test_a_message_is_as_long_as_one_body_with_its_properties(length: int, status: str) -> None:
    pair = Pair()
    pair.say(pair.open(), b"\0" + length.to_bytes(4), end=False)
    [ended] = [dict(event.headers)["grpc-status"] for event in pair.seen if hasattr(event, "headers")] or [""]
    assert ended == status


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


def test_a_peer_that_reads_no_answers_is_cut_off_at_a_limit() -> None:
    pair = Pair({SettingCodes.INITIAL_WINDOW_SIZE: 0})
    big = b"x" * (MAX_UNSENT_BYTES // 16)
    for _ in range(17):
        pair.open(end=True)
    *first, (_, last) = pair.exchange()
    for _, call in first[:15]:
        pair.server.send(call, [big], end=True)
    with pytest.raises(ProtocolError, match="wait for windows"):
        pair.server.send(last, [big], end=True)


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


def test_calls_at_a_time_are_limited() -> None:
    pair = Pair()
    for _ in range(MAX_HTTP2_CALLS):
        pair.open()
    pair.exchange()
    assert len(list(pair.server.calls)) == MAX_HTTP2_CALLS
    extra = HeadersFrame(2 * MAX_HTTP2_CALLS + 1, pair.client.encoder.encode(headers()), flags=["END_HEADERS"])
    with pytest.raises(ProtocolError, match="TooManyStreams"):
        pair.server.receive(extra.serialize())


def test_settings_that_http2_does_not_have_are_not_kept() -> None:
    pair = Pair()
    before = len(pair.server._h2.remote_settings)
    values = {code: 1 for code in range(1_000, 1_900)}
    pair.server.receive(SettingsFrame(settings={**values, SettingCodes.MAX_FRAME_SIZE: 20_000}).serialize())
    assert len(pair.server._h2.remote_settings) == before
    assert pair.server._h2.remote_settings.max_frame_size == 20_000


@pytest.mark.parametrize("kind", ["data", "headers", "window"])
def test_a_peer_that_makes_the_server_reset_its_calls_is_cut_off_as_one_that_resets_them(kind: str) -> None:
    pair = Pair()
    broken = {
        "data": lambda number: DataFrame(number, b"x" * 2_000),
        "headers": lambda number: HeadersFrame(number, pair.client.encoder.encode(headers()), flags=["END_HEADERS"]),
        "window": lambda number: WindowUpdateFrame(number, window_increment=2**31 - 1),
    }

    def provoke() -> None:
        number = pair.open(end=kind != "window")
        pair.server.receive(pair.client.data_to_send() + broken[kind](number).serialize())

    for _ in range(MAX_HTTP2_RESETS):
        provoke()
    with pytest.raises(ProtocolError, match="128 more calls were reset than answered"):
        provoke()


def looks(server: Http2, seconds: float) -> None:
    for _ in range(int(seconds / SILENT_PEER_S)):
        server.look()


def test_a_call_is_incomplete_until_its_end_and_ends_in_time() -> None:
    pair = Pair()
    silent, half, whole, ended = pair.open(), pair.open(), pair.open(), pair.open()
    pair.say(half, prefixed(b"x" * 100)[:50], end=False)
    pair.say(whole, prefixed(b"x" * 100), end=False)
    pair.say(ended, prefixed(b"x" * 100))
    assert pair.server.partial_frame_bytes == 3 * HEADER_BYTES + 50 + 100
    looks(pair.server, FRAME_TIMEOUT_S)
    pair.exchange()
    assert not pair.of(StreamEnded)
    looks(pair.server, SILENT_PEER_S)
    pair.exchange()
    assert sorted(event.stream_id for event in pair.of(StreamEnded) if isinstance(event, StreamEnded)) == [
        *(silent, half, whole)
    ]
    statuses = [dict(event.headers)["grpc-status"] for event in pair.seen if hasattr(event, "headers")]
    assert statuses == ["4"] * 3
    assert pair.server.partial_frame_bytes == 0
    assert [call.stream_id for call in pair.server.calls] == [ended]


def test_a_stream_may_wait_between_its_messages_and_not_within_one() -> None:
    pair = Pair()
    number = pair.open()
    [(_, call)] = pair.say(number, prefixed(b"first"), end=False)
    pair.server.keep_open(call)
    assert pair.server.partial_frame_bytes == 0
    looks(pair.server, 10 * FRAME_TIMEOUT_S)
    pair.say(number, prefixed(b"second")[:7], end=False)
    assert pair.server.partial_frame_bytes > 7
    looks(pair.server, FRAME_TIMEOUT_S)
    pair.say(number, prefixed(b"second")[7:], end=False)
    looks(pair.server, 10 * FRAME_TIMEOUT_S)
    pair.exchange()
    assert not pair.of(StreamEnded)
    pair.say(number, prefixed(b"third")[:7], end=False)
    looks(pair.server, FRAME_TIMEOUT_S + SILENT_PEER_S)
    pair.exchange()
    assert pair.of(StreamEnded)


def test_a_long_message_that_waits_for_another_one_is_not_late() -> None:
    pair = Pair()
    first, second = pair.open(), pair.open()
    for number in (first, second):
        pair.say(number, prefixed(b"x" * 1_000_000)[:WINDOW], end=False)
    looks(pair.server, FRAME_TIMEOUT_S + SILENT_PEER_S)
    pair.exchange()
    assert [event.stream_id for event in pair.of(StreamEnded) if isinstance(event, StreamEnded)] == [first]
    looks(pair.server, FRAME_TIMEOUT_S - SILENT_PEER_S)
    events = pair.say(second, prefixed(b"x" * 1_000_000)[WINDOW:])
    assert [kind for kind, _ in events] == [CallEvent.MESSAGE, CallEvent.ENDED]


def test_headers_that_are_short_only_while_they_are_packed_are_refused() -> None:
    pair = Pair()
    # One header of 4 KB, which HPACK names by its number from then on: a byte each.
    bomb = headers(*[("a", "x" * 4_000)] * (MAX_HTTP2_HEADER_BYTES // 4_000 + 1))
    pair.open(*bomb[4:])
    with pytest.raises(ProtocolError, match="DenialOfService"):
        pair.exchange()


@pytest.mark.parametrize("garbage", [b"\xff" * 40, b"\0\0\x01\x05\0\0\0\0\x01x", b"\0\0\x04\x08\0\0\0\0\0" + bytes(4)])
def test_garbage_is_one_error_and_a_goodbye_with_the_reason(garbage: bytes) -> None:
    pair = Pair()
    with pytest.raises(ProtocolError) as caught:
        pair.server.receive(garbage)
    [bye] = pair.client.receive_data(pair.server.encode_goaway(str(caught.value)))
    assert isinstance(bye, ConnectionTerminated)
    assert (bye.additional_data or b"").decode() == str(caught.value)


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
