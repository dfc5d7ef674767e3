"""The committed description of the wire is what the code says, and its examples are real frames."""

from __future__ import annotations

from pathlib import Path

import pytest

from model.errors import ERROR_BY_CODE
from model.response_code import ResponseCode
from remoting.codec import CODEC
from remoting.command import ONE_WAY, REQUEST, RESPONSE, Command
from remoting.request_code import RequestCode
from remoting.wire.docs import EXAMPLES, byte_rows, render
from remoting.wire.schema import SCHEMA, check_header

pytestmark = pytest.mark.walk

DOCUMENT = Path(__file__).resolve().parents[4] / "docs" / "wire-protocol.md"


def test_the_committed_document_is_the_generated_one() -> None:
    generated = render()
    if DOCUMENT.read_text(encoding="utf-8") != generated:
        pytest.fail("docs/wire-protocol.md is old: run `python -m remoting.wire.docs > docs/wire-protocol.md`")


def test_every_request_and_every_header_field_is_described() -> None:
    sections = dict(part.split("\n", 1) for part in render().split("\n### "))
    for code in RequestCode:
        section = sections[code.name]
        assert f"Code {int(code)}, " in section
        for field in SCHEMA[code].fields:
            assert f"| `{field.name}` |" in section
            assert field.doc in section


def test_every_response_code_is_described_with_its_class_and_what_a_retry_may_do() -> None:
    rows = [line.split(" | ") for line in render().partition("## Response codes")[2].splitlines() if line[:3] != "| -"]
    described = {row[1]: (row[2], row[3], row[4]) for row in rows if len(row) == 6}
    for code, error in ERROR_BY_CODE.items():
        flags = tuple("yes" if flag else "no" for flag in (error.retryable, error.definite))
        assert described[code.name] == (error.__name__, *flags)
    assert set(ERROR_BY_CODE) == set(ResponseCode) - {ResponseCode.SUCCESS}


@pytest.mark.parametrize("command", EXAMPLES.values(), ids=list(EXAMPLES))
def test_the_rows_of_an_example_add_up_to_its_frame(command: Command) -> None:
    frame = b"".join(part for part, _ in byte_rows(command))
    assert CODEC.decoder().feed(frame) == [command]
    if command.flags != RESPONSE:
        check_header(command)


def test_there_is_an_example_of_each_kind_of_frame() -> None:
    kinds = {(command.flags, bool(command.flags == RESPONSE and command.code)) for command in EXAMPLES.values()}
    assert kinds == {(REQUEST, False), (RESPONSE, False), (RESPONSE, True), (ONE_WAY, False)}


def test_the_bytes_of_an_example_stand_in_the_document() -> None:
    assert "  7  1e                       code 30: GET_MAX_OFFSET\n" in render()
