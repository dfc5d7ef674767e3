"""The limits of an HTTP/2 connection against known floods: one test at each limit, and one just past it."""

from __future__ import annotations

import pytest

from model.errors import ProtocolError
from model.grpc_limits import MAX_HTTP2_HEADER_BYTES, MAX_HTTP2_RESETS, MAX_HTTP2_SPARE_FRAMES, MIN_HTTP2_DATA_BYTES
from rocketmq.grpc.http2.frame_guard import PREFACE, FrameGuard

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE, CONTINUATION, UNKNOWN = 0, 1, 2, 3, 4, 6, 8, 9, 77
END_STREAM = 1


def frame(kind: int, payload: bytes = b"", flags: int = 0) -> bytes:
    return len(payload).to_bytes(3) + bytes((kind, flags)) + bytes(4) + payload


def guard() -> FrameGuard:
    new = FrameGuard()
    new.check(PREFACE)
    return new


@pytest.mark.parametrize("kind", [PRIORITY, HEADERS, SETTINGS, PING, WINDOW_UPDATE, CONTINUATION, UNKNOWN, DATA])
def test_frames_without_a_call_are_allowed_up_to_a_number(kind: int) -> None:
    peer = guard()
    peer.check(frame(kind) * MAX_HTTP2_SPARE_FRAMES)
    with pytest.raises(ProtocolError, match="1024 frames without a call are too many"):
        peer.check(frame(kind))


def test_each_value_in_a_settings_frame_counts_as_a_frame() -> None:
    peer = guard()
    peer.check(frame(SETTINGS, bytes(6 * (MAX_HTTP2_SPARE_FRAMES - 1))))
    with pytest.raises(ProtocolError, match="frames without a call are too many"):
        peer.check(frame(SETTINGS))


def test_messages_in_pieces_of_a_few_bytes_count_as_frames_without_a_call() -> None:
    large, small = frame(DATA, bytes(MIN_HTTP2_DATA_BYTES)), frame(DATA, bytes(MIN_HTTP2_DATA_BYTES - 1))
    peer = guard()
    peer.check(large * 3 * MAX_HTTP2_SPARE_FRAMES)
    peer.check(frame(DATA, b"x", END_STREAM) * 3 * MAX_HTTP2_SPARE_FRAMES)
    peer.check(small * MAX_HTTP2_SPARE_FRAMES)
    with pytest.raises(ProtocolError):
        peer.check(small)


def test_a_client_that_calls_may_go_on_for_ever() -> None:
    peer = guard()
    for _ in range(1_000):
        peer.check(frame(PING) * 60 + frame(RST_STREAM, bytes(4)))
        peer.record_answer()


def test_a_ping_of_the_server_may_be_acknowledged_at_any_time() -> None:
    peer = guard()
    peer.check(frame(PING) * MAX_HTTP2_SPARE_FRAMES)
    for _ in range(100):
        peer.record_ping()
        peer.check(frame(PING, bytes(8), flags=1))
    with pytest.raises(ProtocolError):
        peer.check(frame(PING, bytes(8), flags=1))


def test_a_long_answer_earns_the_windows_that_its_reader_opens() -> None:
    peer = guard()
    for _ in range(3 * MAX_HTTP2_SPARE_FRAMES):
        peer.record_data_frames(1)
        peer.check(frame(WINDOW_UPDATE, bytes(4)) * 2)


def test_rapid_resets_end_the_connection() -> None:
    peer = guard()
    call = frame(HEADERS, b"x" * 100, END_STREAM) + frame(RST_STREAM, bytes(4))
    peer.check(call * MAX_HTTP2_RESETS)
    with pytest.raises(ProtocolError, match="128 more calls were reset than answered"):
        peer.check(call)


def test_resets_that_a_peer_provokes_count_as_its_own() -> None:
    peer = guard()
    for _ in range(MAX_HTTP2_RESETS):
        peer.record_reset()
    with pytest.raises(ProtocolError, match="128 more calls were reset than answered"):
        peer.record_reset()


def test_answers_allow_resets_only_one_by_one() -> None:
    peer = guard()
    peer.check(frame(RST_STREAM, bytes(4)) * MAX_HTTP2_RESETS)
    peer.record_answer()
    peer.check(frame(RST_STREAM, bytes(4)))
    with pytest.raises(ProtocolError):
        peer.check(frame(RST_STREAM, bytes(4)))


def test_a_frame_that_announces_more_than_the_limit_is_refused_before_its_bytes_come() -> None:
    guard().check(frame(DATA, bytes(16_384)))
    with pytest.raises(ProtocolError, match="a frame of 16385 bytes was announced"):
        guard().check(frame(DATA, bytes(16_385))[:9])


def test_headers_in_many_frames_are_as_long_as_those_in_one() -> None:
    half = b"x" * (MAX_HTTP2_HEADER_BYTES // 2)
    peer = guard()
    peer.check(frame(HEADERS, half) + frame(CONTINUATION, half))
    peer.check(frame(HEADERS, half) + frame(CONTINUATION, half))  # of the next call
    with pytest.raises(ProtocolError, match="longer than the 16384 bytes"):
        peer.check(frame(HEADERS, half) + frame(CONTINUATION, half) + frame(CONTINUATION, b"x"))


def test_a_stream_may_be_cut_anywhere() -> None:
    stream = PREFACE + b"".join(
        frame(kind, b"p" * length) for kind, length in ((PING, 8), (DATA, 2_000), (SETTINGS, 0))
    )
    counted = []
    for size in (1, 2, 3, 7, 8, 9, 10, 100, len(stream)):
        peer = FrameGuard()
        for at in range(0, len(stream), size):
            peer.check(stream[at : at + size])
        counted.append(peer._spare)
    assert counted == [MAX_HTTP2_SPARE_FRAMES - 2] * len(counted)
