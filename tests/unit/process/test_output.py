from __future__ import annotations

import io
import json
import logging
import sys
from dataclasses import dataclass

import anyio
import pytest

from model.heartbeat import MessageModel
from model.message_queue import MessageQueue
from model.topic_route import READ_WRITE, Perm
from process.output import (
    JsonFormatter,
    document,
    log_handler,
    preview,
    print_error,
    print_json,
    print_note,
    print_outcome,
    print_table,
    report_progress,
)
from testbed.simulation.kernel.run import Simulation, run_simulation


@dataclass(frozen=True, slots=True)
class Record:
    queue: MessageQueue
    model: MessageModel
    perm: Perm
    parts: tuple[int, ...]
    nothing: None = None


RECORD = Record(MessageQueue("t", "a", 3), MessageModel.CLUSTERING, READ_WRITE, (1, 2))


def test_records_named_tuples_and_enums_become_plain_json() -> None:
    assert document({"record": [RECORD]}) == {
        "record": [
            {
                "queue": "t@a:3",
                "model": "CLUSTERING",
                "perm": 6,
                "parts": [1, 2],
                "nothing": None,
            }
        ]
    }


def test_a_document_is_one_line_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"text": "grün\n", "record": RECORD})
    out, err = capsys.readouterr()
    assert out.count("\n") == 1
    assert json.loads(out)["text"] == "grün\n"
    assert err == ""


def test_errors_and_notes_leave_stdout_alone(capsys: pytest.CaptureFixture[str]) -> None:
    print_error("no such topic")
    print_note("by the way")
    assert capsys.readouterr() == ("", "error: no such topic\nby the way\n")


def test_a_table_shows_every_cell_whole_even_when_it_is_piped(capsys: pytest.CaptureFixture[str]) -> None:
    long = "x" * 300
    print_table(["name", ">count"], [("[red]a", 7), (long, None)], title="groups")
    out = capsys.readouterr().out
    lines = [line.strip() for line in out.splitlines() if line.strip()]
    assert lines[0] == "groups"
    assert lines[1].split() == ["name", "count"]
    assert lines[3].split() == ["[red]a", "7"]
    assert lines[4].split() == [long, "-"]


def test_a_table_without_rows_says_what_to_do_instead(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["name"], [], empty="no groups")
    assert capsys.readouterr().out == "no groups\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.simulation
def test_on_a_terminal_progress_is_one_line_that_is_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    counter = iter(range(100))

    async def main(simulation: Simulation) -> None:
        with anyio.move_on_after(0.6):
            await report_progress(lambda: f"sent {next(counter)}")

    run_simulation(main)
    assert terminal.getvalue() == "\r\x1b[Ksent 0\r\x1b[Ksent 1\r\x1b[K"


@pytest.mark.simulation
def test_in_a_log_progress_is_a_line_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    async def main(simulation: Simulation) -> None:
        with anyio.move_on_after(12):
            await report_progress(lambda: f"{simulation.loop.time():.0f} s")

    run_simulation(main)
    assert capsys.readouterr().err == "5 s\n10 s\n"


def test_an_outcome_is_a_document_for_programs_and_a_line_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    print_outcome({"deleted": True}, "topic t deleted", as_json=True)
    print_outcome({"deleted": True}, "topic t deleted", as_json=False)
    assert capsys.readouterr().out == '{"deleted": true}\ntopic t deleted\n'


def test_a_body_is_shown_in_short_on_one_line() -> None:
    assert preview(b"short", 40) == "short"
    assert preview(b"two\nlines\t\x1b[31m", 40) == r"two\nlines\t\x1b[31m"
    assert preview("é".encode() * 50, 40) == "é" * 39 + "…"
    assert preview(b"\xff\x00", 40) == r"\xff\x00"
    assert preview(b"x" * 100_000, 40) == "x" * 39 + "…"


def formatted(message: str, *arguments: object, failed: bool = False) -> dict[str, object]:
    error = None
    if failed:
        try:
            raise ValueError("bad")
        except ValueError:
            error = sys.exc_info()
    record = logging.LogRecord("broker.x", logging.WARNING, "x.py", 1, message, arguments, error)
    found: dict[str, object] = json.loads(JsonFormatter().format(record))
    return found


def test_a_line_is_one_object_whatever_is_in_its_text() -> None:
    line = formatted('a "name"\nof %s', "ümlaut")
    assert (line["level"], line["logger"], line["message"]) == ("WARNING", "broker.x", 'a "name"\nof ümlaut')
    assert isinstance(line["t_ms"], int)
    assert "error" not in line


def test_a_line_about_an_error_has_its_traceback() -> None:
    assert "ValueError: bad" in str(formatted("it failed", failed=True)["error"])


HOSTILE = "k\x1b[31m\nerror: forged"
SHOWN = r"k\x1b[31m\nerror: forged"


def test_nothing_that_others_have_named_moves_a_terminal_or_begins_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["key"], [[HOSTILE]])
    out = capsys.readouterr().out
    assert SHOWN in out
    assert "\x1b" not in out
    print_error("the broker said \x1b[2J")
    print_note("two\nlines")
    assert capsys.readouterr().err == "error: the broker said \\x1b[2J\ntwo\nlines\n"


def test_nothing_in_a_message_of_the_log_begins_another_line() -> None:
    handler = log_handler(None)
    record = logging.LogRecord("client", logging.WARNING, "", 0, "it said %s", (HOSTILE,), None)
    assert handler.format(record).endswith(f"WARNING client: it said {SHOWN}")
