"""The requests about servers are part of the one table."""

from __future__ import annotations

from remoting.request_code import RequestCode
from remoting.wire.schema import SCHEMA
from remoting.wire.servers import SERVER_SCHEMA


def test_the_requests_are_part_of_the_table_and_have_rocketmqs_numbers() -> None:
    assert SCHEMA.items() >= SERVER_SCHEMA.items()
    assert SERVER_SCHEMA[RequestCode(103)] is SCHEMA[RequestCode.REGISTER_BROKER]
