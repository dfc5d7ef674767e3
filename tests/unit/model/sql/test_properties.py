from __future__ import annotations

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.message import Message, encode_payload
from model.sql import properties
from model.sql.properties import read_properties


def of(payload: bytes) -> dict[str, str]:
    return read_properties(payload, 0, len(payload))


def test_the_tag_the_keys_and_the_id_are_properties_too() -> None:
    message = Message("t", b"body", keys=("k1", "k2"), tags="red", properties={"price": "5"})
    found = of(encode_payload(message, 0, "ID"))
    assert found == {"price": "5", "TAGS": "red", "KEYS": "k1 k2", "UNIQ_KEY": "ID"}


def test_an_absent_tag_and_absent_keys_are_not_properties() -> None:
    assert of(encode_payload(Message("t", b"body"), 0, "ID")) == {"UNIQ_KEY": "ID"}


def test_a_property_with_the_name_of_one_of_these_does_not_hide_it() -> None:
    assert of(encode_payload(Message("t", b"body", tags="red", properties={"TAGS": "mine"}), 0, "ID"))["TAGS"] == "red"


@pytest.mark.parametrize("topic", ["t", "t" * 31, "t" * 32, "t" * 200])
@pytest.mark.parametrize("size", [1, 255, 256, 65_535, 65_536, 200_000])
def test_a_body_of_any_size_is_passed_over(topic: str, size: int) -> None:
    payload = encode_payload(Message(topic, bytes(size), properties={"a": "b"}), 0, "ID")
    assert of(payload) == {"a": "b", "UNIQ_KEY": "ID"}


def test_the_body_is_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def unpack(data: bytes) -> object:
        sizes.append(len(data))
        return msgpack.unpackb(data)

    monkeypatch.setattr(properties, "_unpack", unpack)
    of(encode_payload(Message("t", bytes(100_000), properties={"a": "b"}), 0, "ID"))
    assert sizes
    assert max(sizes) < 50


def test_a_part_of_a_buffer_is_read() -> None:
    payload = encode_payload(Message("t", b"x", properties={"a": "b"}), 0, "ID")
    assert read_properties(b"before" + payload + b"after", 6, 6 + len(payload)) == {"a": "b", "UNIQ_KEY": "ID"}


@pytest.mark.parametrize(
    "payload",
    [
        *(b"", b"\x97", b"garbage", b"\x97\xa1t\xc6\xff\xff\xff\xff\x00", b"\x97\xd9"),
        msgpack.packb(["t", b"b", "tag", [], {"a": 5}, 0, "ID"]),
        msgpack.packb(["t", b"b", "tag", [], "none", 0, "ID"]),
        msgpack.packb(["t", b"b", "tag", [], {}, 0]),
        msgpack.packb(["t", b"b", "tag", [], {}, 0, "ID"]) + b"more",
    ],
)
def test_what_is_not_a_message_has_no_properties(payload: bytes) -> None:
    assert of(payload) == {}


@given(st.binary(max_size=80))
def test_no_bytes_of_a_producer_raise(payload: bytes) -> None:
    of(payload)
    of(b"\x97\xa1t\xc4\x01b" + payload)
