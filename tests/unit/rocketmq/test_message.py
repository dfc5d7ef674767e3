"""Messages in RocketMQ's form, compared with what its own classes write."""

from __future__ import annotations

import struct
import zlib

import pytest

from model.errors import MessageIllegal
from model.limits import MAX_BATCH_MESSAGES, MAX_BODY_BYTES
from rocketmq.message import (
    MAX_PROPERTIES_BYTES,
    BatchEntry,
    Host,
    StoredMessage,
    batch_entries,
    decompressed_body,
    encode_message,
    offset_message_id,
    parse_properties,
    physical_offset,
    properties_text,
    split_physical_offset,
)

STORED = bytes.fromhex(
    "00000065 daa320a7 58932aac 00000001 00000000 0000000000000002 000000000000012c 00000000 00000000000003e8 0a000009"
    "00001388 00000000000003e9 0a000001 00002a9f 00000000 0000000000000000 00000002 6869 01 54 0007 54414753 01 61 02"
)
ENTRY = bytes.fromhex("0000001f 00000000 00000000 00000000 00000002 6869 0007 54414753016102")
STORE, BORN = Host.of("10.0.0.1", 10911), Host.of("10.0.0.9", 5000)
MESSAGE = StoredMessage("T", 1, 2, 300, b"hi", {"TAGS": "a"}, 1000, 1001, STORE, born=BORN)


def test_a_stored_message_has_the_bytes_that_rocketmq_writes() -> None:
    assert encode_message(MESSAGE) == STORED


def test_an_id_names_the_server_and_the_offset() -> None:
    assert offset_message_id(STORE, 300) == "0A00000100002A9F000000000000012C"


def test_properties_are_read_with_and_without_the_last_separator() -> None:
    assert parse_properties("a\x01b\x02c\x01d") == parse_properties("a\x01b\x02c\x01d\x02") == {"a": "b", "c": "d"}
    assert parse_properties("\x02a\x02\x01b\x02c\x01\x02") == {}


def test_properties_that_would_break_the_text_are_left_out() -> None:
    assert properties_text({"a": "b", "c\x01": "d", "e": "\x02", "f": "", "": "g"}) == "a\x01b\x02"


def test_properties_beyond_what_their_length_can_say_are_left_out_whole() -> None:
    whole = {f"k{n}": "v" * 1000 for n in range(60)}
    encoded = encode_message(MESSAGE._replace(properties=whole))
    kept = parse_properties(encoded[encoded.index(b"k0") :].decode())
    assert len(kept) == 32
    assert kept.items() <= whole.items()
    assert len(properties_text(kept)) <= MAX_PROPERTIES_BYTES


def test_a_batch_is_taken_apart_as_it_was_put_together() -> None:
    assert list(batch_entries(ENTRY * 2)) == [BatchEntry(0, b"hi", {"TAGS": "a"})] * 2


@pytest.mark.parametrize("body", [ENTRY[:-1], ENTRY[:3], b"\0" * 40, ENTRY[:16] + b"\xff" * 4 + ENTRY[20:]])
def test_a_batch_whose_lengths_lie_is_refused(body: bytes) -> None:
    with pytest.raises(MessageIllegal, match="message 1 of the batch is malformed"):
        list(batch_entries(body))


def test_a_batch_has_at_most_as_many_messages_as_one_of_our_own() -> None:
    assert len(list(batch_entries(ENTRY * MAX_BATCH_MESSAGES))) == MAX_BATCH_MESSAGES
    with pytest.raises(MessageIllegal, match="split it"):
        list(batch_entries(ENTRY * (MAX_BATCH_MESSAGES + 1)))


def test_a_compressed_body_is_unpacked_up_to_the_longest_that_is_allowed() -> None:
    longest = bytes(MAX_BODY_BYTES)
    assert decompressed_body(b"x", 0) == b"x"
    assert decompressed_body(zlib.compress(longest), 0x301) == decompressed_body(zlib.compress(longest), 0x1) == longest
    with pytest.raises(MessageIllegal, match="uncompressed"):
        decompressed_body(zlib.compress(longest + b"x"), 0x1)


@pytest.mark.parametrize(
    ("body", "flag", "text"),
    [(b"x", 0x101, "ZLIB"), (b"not zlib", 0x1, "damaged"), (zlib.compress(bytes(99))[:-5], 0x1, "cut off")],
)
def test_a_body_that_cannot_be_unpacked_is_refused(body: bytes, flag: int, text: str) -> None:
    with pytest.raises(MessageIllegal, match=text):
        decompressed_body(body, flag)


def test_a_physical_offset_says_which_message_it_is() -> None:
    for place in ((1, 0, 0), (2**14 - 1, 2**13 - 1, 2**36 - 1)):
        assert split_physical_offset(physical_offset(*place)) == place
        assert struct.pack(">q", physical_offset(*place))
    assert physical_offset(2**14, 0, 0) == physical_offset(1, 2**13, 0) == physical_offset(1, 0, -1) == 0


def test_a_host_that_is_not_an_ipv4_address_is_nowhere() -> None:
    assert Host.of("::1", 1) == Host.of("localhost", 1) == Host(bytes(4), 1)
