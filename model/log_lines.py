"""LogLines: limits log lines about things that a peer can do as often as it likes, and counts those left out. Pure.

    lines = LogLines(2, per_s=60.0)
    lines.warning(logger, 0.0, "%s sent garbage", "a")       True: written
    lines.warning(logger, 1.0, "%s sent garbage", "b")       True
    lines.warning(logger, 2.0, "%s sent garbage", "c")       False
    lines.warning(logger, 60.0, "%s sent garbage", "d")      True: "d sent garbage (1 such line was left out)"

There is one `LogLines` for each kind of line: garbage from one peer must not suppress lines about something else.
"""

from __future__ import annotations

import logging

from model.limits import LINES_AT_ONCE, LINES_S


class LogLines:
    """Log lines of one kind: `at_once` of them, then none until `per_s` seconds after the first."""

    __slots__ = ("_at_once", "_began", "_left_out", "_per_s", "_written")

    def __init__(self, at_once: int = LINES_AT_ONCE, per_s: float = LINES_S) -> None:
        self._at_once = at_once
        self._per_s = per_s
        self._began = float("-inf")
        self._written = 0
        self._left_out = 0

    def has_room(self, now: float) -> bool:
        """Whether a line would be written now, loop time in seconds."""
        return self._written < self._at_once or now >= self._began + self._per_s

    def warning(self, logger: logging.Logger, now: float, text: str, *values: object) -> bool:
        """Write a warning, or leave it out; returns whether it was written."""
        return self._write(logger, logging.WARNING, now, text, values)

    def info(self, logger: logging.Logger, now: float, text: str, *values: object) -> bool:
        """As `warning`, with the level INFO."""
        return self._write(logger, logging.INFO, now, text, values)

    def failure(self, logger: logging.Logger, now: float, text: str, *values: object, error: BaseException) -> bool:
        """As `warning`, for an error in our own code, with its traceback."""
        return self._write(logger, logging.ERROR, now, text, values, error)

    def _write(
        self,
        logger: logging.Logger,
        level: int,
        now: float,
        text: str,
        values: tuple[object, ...],
        error: BaseException | None = None,
    ) -> bool:
        if not self.has_room(now):
            self._left_out += 1
            return False
        if now >= self._began + self._per_s:
            self._began, self._written = now, 0
        self._written += 1
        n, self._left_out = self._left_out, 0
        note = f" ({n} such {'line was' if n == 1 else 'lines were'} left out)" if n else ""
        logger.log(level, text + "%s", *values, note, exc_info=error, stacklevel=3)
        return True
