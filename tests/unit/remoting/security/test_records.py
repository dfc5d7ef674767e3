from __future__ import annotations

import hmac

from hypothesis import given
from hypothesis import strategies as st

from model.access_limits import MAX_RECORD_BYTES
from remoting.codec import CODEC, MsgpackDecoder
from remoting.command import REQUEST, Command
from remoting.security.records import MAC_BYTES, RecordDecoder, RecordSigner

KEY = b"k" * 32


def signed(*payloads: bytes) -> list[bytes]:
    signer = RecordSigner(KEY)
    return [signer.sign(payload) for payload in payloads]


def frame(opaque: int, body: bytes = b"") -> bytes:
    return CODEC.encode(REQUEST, 34, opaque, {}, body)


def decode(*pieces: bytes) -> tuple[list[Command], RecordDecoder]:
    decoder = RecordDecoder(KEY, MsgpackDecoder)
    return [command for piece in pieces for command in decoder.feed(piece)], decoder


@given(st.binary(min_size=1, max_size=64), st.lists(st.binary(min_size=1, max_size=300), min_size=1, max_size=4))
def test_signatures_are_hmac_sha256_of_number_and_payload(key: bytes, payloads: list[bytes]) -> None:
    signer = RecordSigner(key)
    for number, payload in enumerate(payloads):
        right = hmac.digest(key, number.to_bytes(8, "big") + payload, "sha256")[:MAC_BYTES]
        assert signer.sign(payload) == len(payload).to_bytes(4, "big") + right + payload


@given(st.lists(st.integers(1, 200), min_size=1, max_size=5), st.data())
def test_a_stream_of_records_cut_anywhere_gives_what_was_sent(cuts: list[int], data: st.DataObject) -> None:
    # Frames and records need not begin together.
    frames = b"".join(frame(n, b"x" * 50) for n in range(5))
    middle = data.draw(st.integers(1, len(frames) - 1))
    stream = b"".join(signed(frames[:middle], frames[middle:]))
    pieces, at = [], 0
    for cut in cuts:
        pieces.append(stream[at : at + cut])
        at += cut
    commands, decoder = decode(*pieces, stream[at:])
    assert [command.opaque for command in commands] == [0, 1, 2, 3, 4]
    assert decoder.error is None
    assert decoder.at_frame_boundary()


@given(st.data())
def test_one_changed_bit_anywhere_is_refused_and_nothing_of_its_record_is_taken(data: st.DataObject) -> None:
    records = signed(frame(1), frame(2))
    stream = bytearray(b"".join(records))
    bit = data.draw(st.integers(0, len(stream) * 8 - 1))
    stream[bit // 8] ^= 1 << bit % 8
    commands, decoder = decode(bytes(stream))
    assert len(commands) == (bit // 8 >= len(records[0]))
    # A length that has grown waits for more, until the frame's time is over.
    assert decoder.error is not None or decoder.partial_frame_bytes


def test_a_record_that_is_repeated_left_out_or_of_another_connection_is_refused() -> None:
    first, second, third = signed(frame(1), frame(2), frame(3))
    for stream, n in (((first, first), 1), ((first, third), 1), ((second, first), 0), ((first, second, first), 2)):
        commands, decoder = decode(*stream)
        assert len(commands) == n
        assert decoder.error is not None
        assert "signature" in str(decoder.error)
        assert decoder.feed(third) == []
    other = RecordSigner(b"o" * 32)
    assert decode(other.sign(frame(1)))[0] == []


def test_a_record_may_be_as_long_as_the_limit_and_a_longer_one_is_split() -> None:
    body = b"x" * (2 * MAX_RECORD_BYTES)
    (stream,) = signed(frame(1, body))
    assert len(stream) == len(frame(1, body)) + 3 * (4 + MAC_BYTES)
    commands, decoder = decode(stream)
    assert commands[0].body == body
    assert decoder.error is None
    too_long = (MAX_RECORD_BYTES + 1).to_bytes(4, "big") + bytes(MAC_BYTES)
    assert "262145 bytes" in str(decode(too_long)[1].error)
    at_limit = MAX_RECORD_BYTES.to_bytes(4, "big") + bytes(MAC_BYTES)
    assert decode(at_limit)[1].partial_frame_bytes == MAX_RECORD_BYTES


def test_garbage_in_a_signed_record_is_refused_as_garbage_without_one() -> None:
    assert "announced" in str(decode(*signed(b"\xff" * 8))[1].error)
