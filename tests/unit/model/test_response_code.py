"""Response codes: RocketMQ's numbers where it has them, and our own out of its way."""

from __future__ import annotations

import pytest

from model.response_code import ResponseCode

pytestmark = pytest.mark.walk

OWN_FROM = 90_000


def test_codes_of_the_reference_have_its_numbers() -> None:
    assert {code.name: int(code) for code in ResponseCode if code < OWN_FROM} == {
        "SUCCESS": 0,
        "SYSTEM_ERROR": 1,
        "SYSTEM_BUSY": 2,
        "REQUEST_CODE_NOT_SUPPORTED": 3,
        "FLUSH_DISK_TIMEOUT": 10,
        "MESSAGE_ILLEGAL": 13,
        "SERVICE_NOT_AVAILABLE": 14,
        "NO_PERMISSION": 16,
        "TOPIC_NOT_EXIST": 17,
        "PULL_NOT_FOUND": 19,
        "PULL_RETRY_IMMEDIATELY": 20,
        "PULL_OFFSET_MOVED": 21,
        "QUERY_NOT_FOUND": 22,
        "SUBSCRIPTION_PARSE_FAILED": 23,
        "SUBSCRIPTION_GROUP_NOT_EXIST": 26,
        "INVALID_PARAMETER": 29,
        "CONSUMER_NOT_ONLINE": 206,
        "NO_MESSAGE": 208,
        "POLLING_FULL": 209,
        "FLOW_CONTROL": 215,
        "ILLEGAL_OPERATION": 604,
    }


def test_no_number_stands_for_two_things() -> None:
    assert len(ResponseCode.__members__) == len({int(code) for code in ResponseCode})
