"""The requests about groups are part of the one table."""

from __future__ import annotations

from remoting.request_code import RequestCode
from remoting.wire.groups import GROUP_SCHEMA
from remoting.wire.schema import SCHEMA


def test_the_requests_are_part_of_the_table_and_have_rocketmqs_numbers() -> None:
    assert SCHEMA.items() >= GROUP_SCHEMA.items()
    assert GROUP_SCHEMA[RequestCode(34)] is SCHEMA[RequestCode.HEART_BEAT]
