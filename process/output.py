"""Output of commands. On stdout: tables for people, or one JSON document for programs. On stderr: notes, progress, log.

rich is imported only where a table is made, because its import takes longer than most commands run.
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

from model.message_queue import MessageQueue
from model.own_name import package_of

if TYPE_CHECKING:
    from rich.table import Table

_UNBOUNDED_WIDTH = 1_000
"""Width of a table in a file or a pipe, where no cell may be truncated."""

_TERMINAL_INTERVAL_S = 0.25
_LOG_INTERVAL_S = 5.0
_CLEAR_LINE = "\r\x1b[K"


def document(value: Any) -> Any:
    """Convert a record for JSON: dataclasses and named tuples become objects, enums their values.

    A queue is its name in all documents, `orders@broker-a:3`, as tables, logs and options have it.
    """
    if isinstance(value, MessageQueue):
        return str(value)
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
    """Print the outcome of a command: a JSON document, or one line of text."""
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
    """Print lines on stderr that are not a result, with control characters escaped: a peer may have sent the text."""
    print("\n".join(map(one_line, text.split("\n"))), file=sys.stderr, flush=True)


def one_line(text: str) -> str:
    """Escape characters that would end the line, or that a terminal would interpret."""
    return text if text.isprintable() else "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str = "", empty: str = "") -> None:
    """Print a table, or the text `empty` if there are no rows.

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
        # Text instead of str, because a topic or client id may look like markup.
        table.add_row(*(Text("-" if cell is None else one_line(str(cell))) for cell in row))
    Console(width=None if sys.stdout.isatty() else _UNBOUNDED_WIDTH).print(table)


def print_verdict(table: Table, width: int) -> None:
    """Print a table with a verdict; `width` is used if stdout is not a terminal."""
    from rich.console import Console

    Console(width=None if sys.stdout.isatty() else width).print(table)


def local_time(ms: int, timespec: str = "seconds") -> str:
    """Format a wall-clock time in the user's time zone; a number outside the calendar (wrong clock) stays a number."""
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).astimezone().replace(tzinfo=None).isoformat(" ", timespec)
    except (ValueError, OverflowError, OSError):
        return f"{ms} ms"


def preview(body: bytes, chars: int) -> str:
    """Return the beginning of a body on one line, with unprintable characters escaped."""
    text = body[: chars * 4].decode("utf-8", "backslashreplace")
    line = one_line(text[: chars + 1])
    return line if len(line) <= chars else f"{line[: chars - 1]}…"


async def report_progress(text: Callable[[], str]) -> None:
    """Print progress on stderr until cancelled: on a terminal in one line that is updated, else a line every 5 s.

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
"""Marks a line that counts suppressed lines; it is not limited itself."""


class _Kind(NamedTuple):
    written_at: float
    left_out: int
    last: str  # the last suppressed line


class LineLimit(logging.Filter):
    """Log filter: passes one warning of clients and connections per second and kind, with a count of suppressed lines.

    When a broker does not answer, a member logs a warning for each queue, and a process may have hundreds of members.
    The first line of a kind is enough, and a thousand of them hide everything else. A kind is the text of a log call
    before its values are filled in. All errors are written, and all warnings of servers about messages and files,
    because each concerns a different one.
    """

    def __init__(self) -> None:
        super().__init__()
        self._kinds: dict[tuple[str, str], _Kind] = {}  # bounded by the number of log texts in the code

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the line is written; a line after suppressed ones gets their count."""
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

    def log_suppressed(self) -> None:
        """Log for each kind how many lines were suppressed since the last written one, and the last of them."""
        for (name, _), kind in self._kinds.items():
            if kind.left_out:
                logger = logging.getLogger(name)
                logger.warning("%d more lines like: %s", kind.left_out, kind.last, extra={_SUMMARY: True})
        self._kinds.clear()


class LineFormatter(logging.Formatter):
    """Formats a line for people, and the traceback if there is one; a message cannot start a second line."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the line."""
        record.message = one_line(record.message)
        return super().formatMessage(record)


_FOR_PEOPLE = LineFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s", datefmt="%H:%M:%S")


class LogFormat(StrEnum):
    """Format of log lines."""

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
    """Return a handler that writes lines of this format to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if log_format is LogFormat.JSON else _FOR_PEOPLE)
    return handler
