"""Output of commands: tables for people or one JSON document for programs on stdout; notes, progress, log on stderr.

rich is imported where a table is made: it takes longer to import than most commands take to run.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum, IntFlag, StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio

from model.own_name import package_of

if TYPE_CHECKING:
    from rich.table import Table

_UNBOUNDED_WIDTH = 1_000
"""Width of a table that goes to a file or a pipe, where no cell may be cut off."""

_TERMINAL_INTERVAL_S = 0.25
_LOG_INTERVAL_S = 5.0
_CLEAR_LINE = "\r\x1b[K"


def document(value: Any) -> Any:
    """Convert a record for JSON: dataclasses and named tuples become objects, enums their values."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: document(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: document(part) for name, part in value._asdict().items()}
    if isinstance(value, dict):
        return {str(key): document(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [document(part) for part in value]
    if isinstance(value, IntFlag):
        return int(value)
    return value.value if isinstance(value, Enum) else value


def print_json(value: Any) -> None:
    """Print one JSON document on one line."""
    print(json.dumps(document(value), ensure_ascii=False), flush=True)


def print_outcome(value: Any, text: str, *, as_json: bool) -> None:
    """Print what a command has done: a JSON document, or one line of text."""
    if as_json:
        print_json(value)
    else:
        print_line(text)


def print_line(text: str) -> None:
    """Print a line and flush it, because a reader may wait for it."""
    print(text, flush=True)


def print_error(text: str) -> None:
    """Print an error on stderr."""
    print_note(f"error: {text}")


def print_note(text: str) -> None:
    """Print on stderr lines that are not a result; what others have sent may be in them."""
    print("\n".join(map(one_line, text.split("\n"))), file=sys.stderr, flush=True)


def one_line(text: str) -> str:
    """The text with characters escaped that would end its line, or that a terminal would obey."""
    return text if text.isprintable() else "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str = "", empty: str = "") -> None:
    """Print a table, or `empty` in place of one without rows.

    A heading with a leading ">" aligns its column to the right, for numbers. None is shown as a dash.
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    rows = list(rows)
    if not rows:
        print_line(empty)
        return
    table = Table(title=title or None, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column.lstrip(">"), justify="right" if column.startswith(">") else "left", overflow="fold")
    for row in rows:
        # Text, because a topic or client id may look like markup.
        table.add_row(*(Text("-" if cell is None else one_line(str(cell))) for cell in row))
    Console(width=None if sys.stdout.isatty() else _UNBOUNDED_WIDTH).print(table)


def print_verdict(table: Table, width: int) -> None:
    """Print a table with a verdict; `width` holds where there is no terminal."""
    from rich.console import Console

    Console(width=None if sys.stdout.isatty() else width).print(table)


def local_time(ms: int, timespec: str = "seconds") -> str:
    """A wall-clock time in the time zone of the user; the number if no date has it, as of a producer's wrong clock."""
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).astimezone().replace(tzinfo=None).isoformat(" ", timespec)
    except (ValueError, OverflowError, OSError):
        return f"{ms} ms"


def preview(body: bytes, chars: int) -> str:
    """The beginning of a body on one line, with unprintable characters escaped."""
    text = body[: chars * 4].decode("utf-8", "backslashreplace")
    shown = one_line(text[: chars + 1])
    return shown if len(shown) <= chars else f"{shown[: chars - 1]}…"


async def report_progress(text: Callable[[], str]) -> None:
    """Print progress on stderr until cancelled: on a terminal in one line, else every 5 s.

    Cancellation: the line is cleared.
    """
    on_terminal = sys.stderr.isatty()
    try:
        while True:
            await anyio.sleep(_TERMINAL_INTERVAL_S if on_terminal else _LOG_INTERVAL_S)
            sys.stderr.write(f"{_CLEAR_LINE}{text()}" if on_terminal else f"{text()}\n")
            sys.stderr.flush()
    finally:
        if on_terminal:
            sys.stderr.write(_CLEAR_LINE)
            sys.stderr.flush()


_LINE_INTERVAL_S = 1.0
_LIMITED_LOGGERS = ("client", "remoting")
_SUMMARY = "is_summary"
"""Marks a line about lines that were left out, which is not limited itself."""


class _Kind(NamedTuple):
    written_at: float
    left_out: int
    last: str  # the last one that was left out


class LineLimit(logging.Filter):
    """A filter of log handlers: of warnings of clients and connections, one line per second and kind, with a count.

    A broker that does not answer costs a member a warning for each queue, and a process may have hundreds of members.
    The first line of a kind says enough, and a thousand of them hide all else. A kind is a text before its values are
    put in. Errors, and warnings of servers about messages and files, are all written: each is about another one.
    """

    def __init__(self) -> None:
        super().__init__()
        self._kinds: dict[tuple[str, str], _Kind] = {}  # as many as there are texts in the code

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a line is written; one that follows others that were left out says how many."""
        if record.levelno != logging.WARNING or package_of(record.name) not in _LIMITED_LOGGERS:
            return True
        if hasattr(record, _SUMMARY):
            return True
        key = (record.name, record.msg)
        kind = self._kinds.get(key)
        if kind is not None and 0 <= record.created - kind.written_at < _LINE_INTERVAL_S:
            self._kinds[key] = kind._replace(left_out=kind.left_out + 1, last=record.getMessage())
            return False
        self._kinds[key] = _Kind(record.created, 0, "")
        if kind is not None and kind.left_out:
            record.msg = f"{record.msg} (and {kind.left_out} more such lines before)"
        return True

    def tell_rest(self) -> None:
        """Log how many lines were left out since the last one of each kind, and the last of them."""
        for (name, _), kind in self._kinds.items():
            if kind.left_out:
                logger = logging.getLogger(name)
                logger.warning("%d more lines like: %s", kind.left_out, kind.last, extra={_SUMMARY: True})
        self._kinds.clear()


class LineFormatter(logging.Formatter):
    """A line for people, and the traceback if there is one; nothing in a message begins another line."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the line."""
        record.message = one_line(record.message)
        return super().formatMessage(record)


_FOR_PEOPLE = LineFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s", datefmt="%H:%M:%S")


class LogFormat(StrEnum):
    """How the lines of the log are written."""

    TEXT = "text"
    JSON = "json"


class JsonFormatter(logging.Formatter):
    """One JSON object a line: t_ms, level, logger, message, and error with the traceback if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, object] = {
            "t_ms": round(record.created * 1000),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line)


def log_handler(log_format: LogFormat | None) -> logging.Handler:
    """A handler that writes lines of this format to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if log_format is LogFormat.JSON else _FOR_PEOPLE)
    return handler
