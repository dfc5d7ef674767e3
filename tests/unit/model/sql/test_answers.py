"""The filters of this project beside RocketMQ's own library, whose answers `answers/Answers.java` has written down."""

from __future__ import annotations

from pathlib import Path

import pytest

from model.errors import FilterIllegal
from model.sql.evaluate import Properties, compile_condition
from model.sql.parse import parse
from model.sql.values import MistypedValue

FILE = Path(__file__).with_name("answers") / "answers.txt"
READ_IN_PART = {
    *("a = 10 -- not ended", "a-b = 1", "a = 01", "a = 0L", "a = 00", "a = 10 garbage", "a LIKE 'x'", "a = 10)"),
    *("a = 5e", "a > 12abc"),
}
"""RocketMQ reads the beginning of these filters and ignores the rest, `a = 0` of `a = 01`; here they are refused."""


def _plain(text: str) -> str:
    return text.replace("\\n", "\n").replace("\\t", "\t").replace("\\0", "\0")


def _read() -> tuple[list[dict[str, str]], list[tuple[str, str]]]:
    messages: list[dict[str, str]] = []
    answers: list[tuple[str, str]] = []
    for line in FILE.read_text("utf-8").splitlines():
        first, *rest = line.split("\t")
        if first == "message":
            messages.append({name: _plain(value) for name, value in (part.split("=", 1) for part in rest)})
        elif not first.startswith("#"):
            answers.append((_plain(rest[0]), first))
    return messages, answers


MESSAGES, ANSWERS = _read()
JUDGED = [(text, answers) for text, answers in ANSWERS if text not in READ_IN_PART and answers != "refused"]
REFUSED = [text for text, answers in ANSWERS if text in READ_IN_PART or answers == "refused"]


def _answer(text: str, message: Properties) -> str:
    try:
        value = compile_condition(parse(text))(message)
    except MistypedValue:
        return "E"
    return {None: "N", True: "T", False: "F"}[value]  # type: ignore[index]  # another value fails the test


def test_two_hundred_filters_are_kept_with_what_rocketmq_says_about_each_message() -> None:
    assert len(JUDGED) >= 200
    assert len(MESSAGES) >= 20
    assert {letter for _, answers in JUDGED for letter in answers} == set("TFNE")


def test_each_filter_judges_each_message_as_rocketmq_does() -> None:
    ours = [(text, "".join(_answer(text, message) for message in MESSAGES)) for text, _ in JUDGED]
    assert ours == JUDGED


def test_filters_that_rocketmq_refuses_or_reads_in_part_are_refused() -> None:
    for text in REFUSED:
        with pytest.raises(FilterIllegal, match=r"Example: price > 10 AND region = 'north'"):
            parse(text)
