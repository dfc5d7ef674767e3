"""One line per second and kind, with a count."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from model.own_name import PREFIX
from process.output import LineLimit


class Lines(logging.Handler):
    """Collects the lines that pass."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.levels: list[int] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.levels.append(record.levelno)
        self.texts.append(record.getMessage())


@pytest.fixture
def lines() -> Iterator[Lines]:
    handler = Lines()
    handler.addFilter(LineLimit())
    logging.getLogger().addHandler(handler)
    yield handler
    logging.getLogger().removeHandler(handler)


def log(lines: Lines, at: float, text: str, *args: object, name: str = f"{PREFIX}client.pull", level: int = 30) -> None:
    record = logging.LogRecord(name, level, __file__, 1, text, args, None)
    record.created = at
    lines.handle(record)


def test_a_thousand_warnings_of_one_kind_are_one_line_a_second_and_the_next_one_says_how_many(lines: Lines) -> None:
    for n in range(1_000):
        log(lines, 100 + n / 1000, "pull of %s: 100 %s", n, "busy")
    log(lines, 101.0, "pull of %s: 100 %s", 7, "busy")
    assert lines.texts == ["pull of 0: 100 busy", "pull of 7: 100 busy (and 999 more such lines before)"]


def test_other_kinds_errors_and_servers_are_not_limited(lines: Lines) -> None:
    for n in range(3):
        log(lines, 100, f"kind {n}")
        log(lines, 100, "failed %d", n, level=logging.ERROR)
        log(lines, 100, "file %d is damaged", n, name="broker.store")
    assert len(lines.texts) == 9


def test_what_was_left_out_at_the_end_is_reported_once(lines: Lines) -> None:
    for n in range(3):
        log(lines, 100, "pull of %s", n)
    [limit] = [each for each in lines.filters if isinstance(each, LineLimit)]
    limit.log_suppressed()
    limit.log_suppressed()
    assert lines.texts == ["pull of 0", "2 more lines like: pull of 2"]


def test_each_kind_that_was_left_out_is_reported_as_a_warning_with_its_values(lines: Lines) -> None:
    for kind in ("pull", "heartbeat"):
        for n in range(3):
            log(lines, 100, f"{kind} of %s: %d%%", "g", n)
    [limit] = [each for each in lines.filters if isinstance(each, LineLimit)]
    limit.log_suppressed()
    assert lines.texts[2:] == ["2 more lines like: pull of g: 2%", "2 more lines like: heartbeat of g: 2%"]
    assert set(lines.levels) == {logging.WARNING}
