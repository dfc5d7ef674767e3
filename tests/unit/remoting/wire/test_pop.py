"""Bounds of what a pop may ask for."""

from __future__ import annotations

from typing import Any

import pytest

from model.errors import InvalidParameter
from model.limits import MAX_INVISIBLE_MS, MAX_POP_BATCH, MIN_INVISIBLE_MS
from remoting.command import REQUEST, Command
from remoting.request_code import RequestCode
from remoting.wire.schema import check_header

POP: dict[str, Any] = {
    "group": "g",
    "topic": "t",
    "queue_id": -1,
    "client_id": "c",
    "max_n": 1,
    "invisible_ms": MIN_INVISIBLE_MS,
    "suspend_ms": 0,
}


def check(code: RequestCode, header: dict[str, Any]) -> None:
    check_header(Command(REQUEST, code, 1, header, None))


@pytest.mark.parametrize(
    ("name", "value"), [("queue_id", -1), ("max_n", MAX_POP_BATCH), ("invisible_ms", MAX_INVISIBLE_MS)]
)
def test_a_pop_may_go_to_its_bounds_and_not_beyond(name: str, value: int) -> None:
    check(RequestCode.POP_MESSAGE, {**POP, name: value})
    with pytest.raises(InvalidParameter, match=name):
        check(RequestCode.POP_MESSAGE, {**POP, name: value - 1 if value < 0 else value + 1})


def test_a_token_of_zero_is_none() -> None:
    header = {"group": "g", "topic": "t", "queue_id": 0, "client_id": "c", "offset": 0, "token": 1, "invisible_ms": 0}
    check(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header)
    with pytest.raises(InvalidParameter, match="token"):
        check(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, {**header, "token": 0})
