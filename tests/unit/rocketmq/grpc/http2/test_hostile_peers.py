"""Peers that take more than their share of a connection: of calls, memory, settings and time."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from h2.events import ConnectionTerminated, StreamEnded
from h2.settings import SettingCodes
from hyperframe.frame import DataFrame, Frame, HeadersFrame, SettingsFrame, WindowUpdateFrame

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
from rocketmq.grpc.http2.call import CallEvent
from rocketmq.grpc.http2.connection import Http2
from tests.unit.rocketmq.grpc.http2.pair import HEADER_BYTES, WINDOW, Pair, headers, prefixed


def test_answers_that_are_unread_are_limited() -> None:
    pair, acknowledgements = Pair(), b""
    for _ in range(MAX_HTTP2_UNREAD_ANSWERS + 1):
        [_, (_, call)] = pair.say(pair.open(), prefixed(b"q"))
        pair.server.send(call, [b"a"], end=True, asks_read=True)
        pair.client.receive_data(pair.server.take())
        acknowledgements += pair.client.data_to_send()
    read = [call.stream_id for kind, call in pair.server.receive(acknowledgements) if kind is CallEvent.READ]
    assert read == list(range(3, 2 * MAX_HTTP2_UNREAD_ANSWERS + 3, 2)), "the oldest is forgotten"


@pytest.mark.parametrize(("length", "status"), [(MAX_GRPC_MESSAGE_BYTES - 5, ""), (MAX_GRPC_MESSAGE_BYTES - 4, "8")])
def test_a_message_is_as_long_as_one_body_with_its_properties(length: int, status: str) -> None:
    pair = Pair()
    pair.say(pair.open(), b"\0" + length.to_bytes(4), end=False)
    [ended] = [dict(event.headers)["grpc-status"] for event in pair.seen if hasattr(event, "headers")] or [""]
    assert ended == status


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
    broken: dict[str, Callable[[int], Frame]] = {
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
