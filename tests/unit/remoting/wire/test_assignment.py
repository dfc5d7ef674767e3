"""Headers of the requests of assignment at their bounds."""

from __future__ import annotations

from typing import Any

import pytest

from model.errors import InvalidParameter
from remoting.command import REQUEST, Command
from remoting.request_code import RequestCode
from remoting.wire.assignment import ASSIGNMENT_SCHEMA
from remoting.wire.schema import SCHEMA, check_header

QUERY = {"group": "g", "client_id": "c", "version": 0}
MODE = {"group": "g", "topic": "t", "mode": "POP", "pop_share_queue_num": -1}


def test_the_requests_are_part_of_the_table_and_have_rocketmqs_numbers() -> None:
    assert SCHEMA.items() >= ASSIGNMENT_SCHEMA.items()
    assert (RequestCode.QUERY_ASSIGNMENT, RequestCode.SET_MESSAGE_REQUEST_MODE) == (400, 401)


@pytest.mark.parametrize("header", [QUERY, {**QUERY, "version": 2**62}])
def test_a_version_may_be_as_large_as_a_clock_ever_gets(header: dict[str, Any]) -> None:
    check_header(Command(REQUEST, RequestCode.QUERY_ASSIGNMENT, 1, header, None))


@pytest.mark.parametrize(
    ("code", "header", "field"),
    [
        (RequestCode.QUERY_ASSIGNMENT, {**QUERY, "version": -1}, "version"),
        (RequestCode.QUERY_ASSIGNMENT, {**QUERY, "version": 2**62 + 1}, "version"),
        (RequestCode.SET_MESSAGE_REQUEST_MODE, {**MODE, "mode": 1}, "mode"),
        (RequestCode.SET_MESSAGE_REQUEST_MODE, {**MODE, "pop_share_queue_num": 2**31}, "pop_share_queue_num"),
    ],
)
def test_a_field_out_of_range_is_named(code: RequestCode, header: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidParameter, match=field):
        check_header(Command(REQUEST, code, 1, header, None))
