"""The last updates of one subject, with ids with which a page resumes after a break. Pure.

    channel = Channel("3f9a")
    channel.publish(b"...")                  # id "3f9a-1"
    channel.after("3f9a-1")                  # the updates since; None if they are no longer kept, or of another run

Every page reads from its own position, so a slow page costs no memory: once it lags behind the kept updates, it has to
load the whole document again.
"""

from __future__ import annotations

import re
from collections import deque
from typing import NamedTuple

from model.limits import MAX_CHANNEL_BYTES, MAX_CHANNEL_UPDATES

_ID = re.compile(r"([0-9a-f]{1,32})-([0-9]{1,15})")


class Update(NamedTuple):
    """One update; pages send its id when they resume."""

    id: str
    body: bytes


class Channel:
    """Updates of one subject; `epoch` is a hexadecimal number that identifies this run."""

    def __init__(self, epoch: str) -> None:
        self._epoch = epoch
        self._kept: deque[bytes] = deque()
        self._kept_bytes = 0
        self._last = 0  # the number of the newest

    @property
    def last_id(self) -> str:
        """The id of the newest update: a page that loads the whole document now continues from here."""
        return f"{self._epoch}-{self._last}"

    def publish(self, body: bytes) -> None:
        """Add an update, and remove the oldest beyond the limits; the newest is always kept."""
        self._last += 1
        self._kept.append(body)
        self._kept_bytes += len(body)
        while len(self._kept) > MAX_CHANNEL_UPDATES or (self._kept_bytes > MAX_CHANNEL_BYTES and len(self._kept) > 1):
            self._kept_bytes -= len(self._kept.popleft())

    def after(self, last_id: str) -> list[Update] | None:
        """Return the updates after the last update of a page; None if it has to load the whole document again."""
        match = _ID.fullmatch(last_id)
        if match is None or match[1] != self._epoch:
            return None
        missing = self._last - int(match[2])
        if not 0 <= missing <= len(self._kept):
            return None
        first = self._last - missing + 1
        newest = list(self._kept)[len(self._kept) - missing :]
        return [Update(f"{self._epoch}-{first + n}", body) for n, body in enumerate(newest)]
