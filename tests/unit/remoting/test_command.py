"""Error texts about what a peer sent stay short and never fail."""

from __future__ import annotations

import pytest

from remoting.command import (
    ONE_WAY,
    REQUEST,
    RESPONSE,
    Command,
    NamedOpaque,
    Reply,
    is_outcome,
    request_cost,
    short_text,
)
from remoting.request_code import RequestCode


def test_flags_are_rocketmqs_two_bits() -> None:
    assert (REQUEST, RESPONSE, ONE_WAY) == (0b00, 0b01, 0b10)


def test_only_the_translator_of_another_protocol_names_codes_that_do_not_refuse_a_call() -> None:
    opaque = NamedOpaque(7)
    opaque.name, opaque.outcomes = "Telemetry", (16,)
    translated, plain = (Command(REQUEST, RequestCode.HEART_BEAT, each, {}, None) for each in (opaque, 7))
    assert [is_outcome(translated, code) for code in (16, 17)] == [True, False]
    assert not is_outcome(plain, 16)


def test_a_reply_is_a_success_without_a_body_unless_it_says_otherwise() -> None:
    assert Reply({}) == ({}, None, 0)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "nothing"),
        (True, "True"),
        (-5, "-5"),
        (1.5, "1.5"),
        ("a'\n", '"a\'\\n"'),
        (b"\xff", "b'\\xff'"),
        ({"a": 1}, "a dict"),
        ("x" * 80, "'" + "x" * 80 + "'"),
        ("x" * 81, "'" + "x" * 80 + "'..."),
    ],
)
def test_a_value_is_shown_in_a_few_words(value: object, text: str) -> None:
    assert short_text(value) == text


def test_a_deeply_nested_value_is_shown_without_recursion() -> None:
    nested: list[object] = []
    for _ in range(100_000):
        nested = [nested]
    assert short_text(nested) == "a list"


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
    assert request_cost(Command(flags, code, 1, {}, body)) == work
