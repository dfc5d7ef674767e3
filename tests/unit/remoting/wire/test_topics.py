"""The requests about topics are part of the one table."""

from __future__ import annotations

from remoting.request_code import RequestCode
from remoting.wire.schema import SCHEMA
from remoting.wire.topics import TOPIC_SCHEMA


def test_the_requests_are_part_of_the_table_and_have_rocketmqs_numbers() -> None:
    assert SCHEMA.items() >= TOPIC_SCHEMA.items()
    assert TOPIC_SCHEMA[RequestCode(105)] is SCHEMA[RequestCode.GET_ROUTEINFO_BY_TOPIC]
