"""As how many commands of a turn each counts."""

from __future__ import annotations

import pytest

from remoting.command import ONE_WAY, REQUEST, RESPONSE, Command
from remoting.turn import work_of
from remoting.wire.request_code import RequestCode


@pytest.mark.parametrize(
    ("flags", "code", "body", "work"),
    [
        (REQUEST, RequestCode.HEART_BEAT, None, 1),
        (REQUEST, RequestCode.SEND_MESSAGE, b"x" * 511, 1),
        (REQUEST, RequestCode.SEND_MESSAGE, b"x" * 5_120, 11),
        (ONE_WAY, RequestCode.SEND_MESSAGE, b"x" * 512, 2),
        (REQUEST, RequestCode.PULL_MESSAGE, None, 4),
        (REQUEST, RequestCode.POP_MESSAGE, None, 4),
        (REQUEST, RequestCode.BATCH_ACK_MESSAGE, b"x" * 100, 4),
        (RESPONSE, 0, b"x" * 50_000, 1),
    ],
)
def test_requests_count_by_what_they_bring_and_ask_for_and_answers_as_one(
    flags: int, code: int, body: bytes | None, work: int
) -> None:
    assert work_of(Command(flags, code, 1, {}, body)) == work
