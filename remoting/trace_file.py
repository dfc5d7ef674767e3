"""Writes events to a JSON Lines file, for `--trace FILE`."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from model.errors import ConfigError
from model.event_log import encode_events
from model.events import Event


class TraceFile:
    """An open trace file; a context manager. Several nodes of one process may share one.

    Args:
        path: appended to; made if it is not there.

    Raises:
        ConfigError: it cannot be written.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._file = path.open("ab")
        except OSError as error:
            raise ConfigError(f"cannot write the trace file {path}: {error.strerror}") from error

    def __enter__(self) -> TraceFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def write(self, event: Event) -> None:
        """Add one event; an `EventSink`. Buffered by the file object: `flush` makes it visible to readers."""
        self._file.write(encode_events((event,)))

    def flush(self) -> None:
        """Hand what is buffered to the operating system."""
        self._file.flush()
