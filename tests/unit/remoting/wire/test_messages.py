"""The requests about messages are part of the one table."""

from __future__ import annotations

from remoting.request_code import RequestCode
from remoting.wire.messages import MESSAGE_SCHEMA
from remoting.wire.schema import SCHEMA


def test_the_requests_are_part_of_the_table_and_have_rocketmqs_numbers() -> None:
    assert SCHEMA.items() >= MESSAGE_SCHEMA.items()
    assert MESSAGE_SCHEMA[RequestCode(10)] is SCHEMA[RequestCode.SEND_MESSAGE]
