"""A second descriptor of one end of a connection."""

from __future__ import annotations

from collections.abc import Callable


class Duplicate:
    """The calls of a program on a socket that it has duplicated.

    Args:
        shutdown: ends the outbound stream.
        closed: called once, when it is closed.
    """

    def __init__(self, shutdown: Callable[[int], None], closed: Callable[[], None]) -> None:
        self.shutdown = shutdown
        self._closed = closed
        self._is_open = True

    def close(self) -> None:
        """Close it. Idempotent."""
        if self._is_open:
            self._is_open = False
            self._closed()
