"""The last updates of one subject, with ids from which a page that was away goes on. Pure.

    channel = Channel("3f9a")
    channel.publish(b"...")                  # id "3f9a-1"
    channel.after("3f9a-1")                  # what came since; None if that is no longer kept, or of another run

Every page reads at its own place, so a slow one costs no memory: once it is further behind than what is kept, it is
told to load the whole again.
"""

from __future__ import annotations

import re
from collections import deque
from typing import NamedTuple

from model.limits import MAX_CHANNEL_BYTES, MAX_CHANNEL_UPDATES

_ID = re.compile(r"([0-9a-f]{1,32})-([0-9]{1,15})")


class Update(NamedTuple):
    """One update; pages give its id back when they resume."""

    id: str
    body: bytes


class Channel:
    """Updates of one subject; `epoch` tells this run from others and is a hexadecimal number."""

    def __init__(self, epoch: str) -> None:
        self._epoch = epoch
        self._kept: deque[bytes] = deque()
        self._kept_bytes = 0
        self._last = 0  # the number of the newest

    @property
    def last_id(self) -> str:
        """The id of the newest update: whoever loads the whole now goes on from here."""
        return f"{self._epoch}-{self._last}"

    def publish(self, body: bytes) -> None:
        """Keep an update, and forget the oldest beyond the bounds; the newest is always kept."""
        self._last += 1
        self._kept.append(body)
        self._kept_bytes += len(body)
        while len(self._kept) > MAX_CHANNEL_UPDATES or (self._kept_bytes > MAX_CHANNEL_BYTES and len(self._kept) > 1):
            self._kept_bytes -= len(self._kept.popleft())

    def after(self, last_id: str) -> list[Update] | None:
        """The updates after one that a page has; None if it has to load the whole again."""
        found = _ID.fullmatch(last_id)
        if found is None or found[1] != self._epoch:
            return None
        missing = self._last - int(found[2])
        if not 0 <= missing <= len(self._kept):
            return None
        first = self._last - missing + 1
        newest = list(self._kept)[len(self._kept) - missing :]
        return [Update(f"{self._epoch}-{first + n}", body) for n, body in enumerate(newest)]
