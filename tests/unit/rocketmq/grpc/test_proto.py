"""The table of messages; `make interop` compares it with the descriptors of a stock client."""

from __future__ import annotations

from google.protobuf import descriptor_pool

from rocketmq.grpc import proto
from rocketmq.grpc.proto import MESSAGES, duration_ms, to_duration, to_timestamp


def test_a_message_has_the_bytes_that_the_protocol_defines() -> None:
    # By hand: field 1 (topic) of 5 bytes, whose field 2 is "abc"; field 2 (a pair); field 4 (body) "x".
    message = MESSAGES["Message"](topic=MESSAGES["Resource"](name="abc"), user_properties={"a": "b"}, body=b"x")
    assert message.SerializeToString() == b"\x0a\x05\x12\x03abc" + b"\x12\x06\x0a\x01a\x12\x01b" + b"\x22\x01x"


def test_fields_that_the_table_leaves_out_are_skipped() -> None:
    # Field 2 (access point) and 7 (user agent) of Settings.
    said = MESSAGES["Settings"].FromString(b"\x08\x01" + b"\x12\x02\x08\x01" + b"\x3a\x02\x08\x06")
    assert said.client_type == proto.PRODUCER


def test_the_pool_of_the_process_stays_free_for_a_stock_client() -> None:
    try:
        descriptor_pool.Default().FindMessageTypeByName("rlab.grpc.Status")
    except KeyError:
        return
    raise AssertionError("the table is in the default pool")


def test_times_are_milliseconds_in_both_directions() -> None:
    assert [duration_ms(to_duration(ms)) for ms in (0, 999, 1_001, 86_400_000)] == [0, 999, 1_001, 86_400_000]
    far = [MESSAGES["Duration"](seconds=seconds) for seconds in (2**63 - 1, -(2**63))]
    assert [duration_ms(each) for each in far] == [2**53, -(2**53)]
    assert (to_timestamp(1_500).seconds, to_timestamp(1_500).nanos) == (1, 500_000_000)
