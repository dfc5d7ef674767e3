from __future__ import annotations

import pytest

from model.limits import MAX_REMARK_CHARS
from model.response_code import ResponseCode
from rocketmq.grpc import proto
from rocketmq.grpc.status import status, status_of


def test_a_result_that_a_client_handles_by_itself_keeps_its_meaning() -> None:
    assert status_of(ResponseCode.TOPIC_NOT_EXIST, "x").code == proto.TOPIC_NOT_FOUND
    assert status_of(ResponseCode.NO_MESSAGE, "x").code == proto.INVALID_RECEIPT_HANDLE
    assert status_of(ResponseCode.SYSTEM_BUSY, "x").code == proto.TOO_MANY_REQUESTS
    assert status_of(ResponseCode.STORAGE_FULL, "the disk is full").code == proto.INTERNAL_SERVER_ERROR


@pytest.mark.walk
def test_no_code_of_ours_is_an_answer_that_a_client_takes_for_a_success() -> None:
    for code in ResponseCode:
        found = status_of(code, "r")
        assert (found.code == proto.OK) is (code == ResponseCode.SUCCESS)


def test_a_text_is_cut_and_half_a_surrogate_pair_is_escaped() -> None:
    assert len(status(proto.BAD_REQUEST, "x" * 10_000).message) == MAX_REMARK_CHARS
    assert status(proto.BAD_REQUEST, "a\ud800b").message == "a\\ud800b"
