from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
import typer

from cli.group.reset import parse_queue, parse_reset_target, parse_time, print_resets
from client.config import wall_clock_ms
from model.message_queue import MessageQueue
from model.offset_reset import QueueReset, ResetTo

Q0, Q1 = (MessageQueue("t", "broker-a", n) for n in range(2))
RESETS = (
    QueueReset(queue=Q0, before=7, after=2, clamped=False, owner="c@1"),
    QueueReset(queue=Q1, before=None, after=9, clamped=True, owner=None),
)


@pytest.mark.parametrize(
    ("to", "to_offset", "shift", "expected"),
    [
        ("earliest", None, None, ResetTo.earliest()),
        ("latest", None, None, ResetTo.latest()),
        ("1700000000000", None, None, ResetTo.time(1_700_000_000_000)),
        (None, 0, None, ResetTo.offset(0)),
        (None, None, -100, ResetTo.shift(-100)),
        (None, None, 0, ResetTo.shift(0)),
    ],
)
def test_each_option_says_where_to(to: str | None, to_offset: int | None, shift: int | None, expected: ResetTo) -> None:
    assert parse_reset_target(to, to_offset, shift, named_queues=True) == expected


def test_a_time_may_be_iso_or_how_long_ago() -> None:
    assert parse_time("2026-01-31T12:00:00+00:00") == datetime(2026, 1, 31, 12, tzinfo=UTC).timestamp() * 1000
    for text, seconds in (("90s", 90), ("5m", 300), ("1h", 3600), ("2d", 172_800)):
        before = wall_clock_ms()
        assert before - seconds * 1000 - 1 <= parse_time(text) <= wall_clock_ms() - seconds * 1000
    assert parse_time("1970-01-01T00:00:00+00:00") == 0


@pytest.mark.parametrize(
    "text",
    ["", "tomorrow", "-5", "1y", "1h30m", "-1h", "-5m", "0001-01-02", "0001-01-01T00:00:00+14:00", "1969-12-31T23:59Z"],
)
def test_what_is_not_a_time_is_reported_what_one_looks_like(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="90s, 5m, 1h, 2d"):
        parse_time(text)


@pytest.mark.parametrize(
    ("to", "to_offset", "shift", "named", "complaint"),
    [
        (None, None, None, False, "use one of"),
        ("latest", None, 1, False, "use one of"),
        (None, 5, None, False, "another message in every queue"),
        ("9" * 30, None, None, False, "cannot have the value"),
        (None, None, 2**80, False, "cannot have the value"),
    ],
)
def test_options_that_say_nothing_or_nonsense_are_refused(
    to: str | None, to_offset: int | None, shift: int | None, named: bool, complaint: str
) -> None:
    with pytest.raises(typer.BadParameter, match=complaint):
        parse_reset_target(to, to_offset, shift, named_queues=named)


def test_a_queue_is_named_by_its_broker_and_number_or_as_other_commands_print_it() -> None:
    assert parse_queue("t", "broker-a:1") == parse_queue("t", str(Q1)) == Q1
    for wrong in ("1", "broker-a", "broker-a:", ":1", "broker-a:-1", "broker-a:x"):
        with pytest.raises(typer.BadParameter, match="as in broker-a:3"):
            parse_queue("t", wrong)


def test_what_became_of_each_queue_is_shown_and_what_was_cut_is_noted(capsys: pytest.CaptureFixture[str]) -> None:
    print_resets(RESETS, dry_run=False, as_json=False)
    shown = capsys.readouterr()
    rows = [line.split() for line in shown.out.splitlines() if "broker-a" in line]
    assert rows == [["t@broker-a:0", "7", "2", "-5", "c@1"], ["t@broker-a:1", "-", "9", "-", "-"]]
    assert "dry run" not in shown.out
    assert "outside of t@broker-a:1;" in shown.err
    print_resets(RESETS[:1], dry_run=True, as_json=False)
    shown = capsys.readouterr()
    assert "dry run: nothing was changed" in shown.out
    assert shown.err == ""


def test_the_document_has_every_queue(capsys: pytest.CaptureFixture[str]) -> None:
    print_resets(RESETS, dry_run=True, as_json=True)
    document = json.loads(capsys.readouterr().out)
    assert document["dry_run"] is True
    assert [(q["queue"], q["before"], q["after"]) for q in document["queues"]] == [
        ("t@broker-a:0", 7, 2),
        ("t@broker-a:1", None, 9),
    ]
