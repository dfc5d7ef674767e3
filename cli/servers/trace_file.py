"""Writes events to a JSON Lines file, for `--trace FILE`."""

from __future__ import annotations

import logging
from pathlib import Path

from model.errors import ConfigError
from model.event_log import encode_events
from model.events import Event

logger = logging.getLogger(__name__)


class TraceFile:
    """An open trace file; a context manager. Several nodes of one process may write to one.

    It appends to the file, which is created if necessary. A write error ends the trace with one line in the log,
    because the traced server must not fail with it.

    Raises:
        ConfigError: the file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._failed = False
        try:
            self._file = path.open("ab")
        except OSError as error:
            raise ConfigError(f"cannot write the trace file {path}: {error.strerror}") from error

    def __enter__(self) -> TraceFile:
        return self

    def __exit__(self, *_error: object) -> None:
        try:
            self._file.close()
        except OSError as failure:
            self._end(failure)

    def write(self, event: Event) -> None:
        """Add one event; an `EventSink`. Buffered by the file object: `flush` makes it visible to readers."""
        if not self._failed:
            try:
                self._file.write(encode_events((event,)))
            except OSError as error:
                self._end(error)

    def flush(self) -> None:
        """Pass buffered events to the operating system."""
        if not self._failed:
            try:
                self._file.flush()
            except OSError as error:
                self._end(error)

    def _end(self, error: OSError) -> None:
        if not self._failed:
            logger.error("the trace file %s ends here: %s", self._path, error.strerror)
        self._failed = True
