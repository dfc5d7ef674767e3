"""Lines of JSON from a part of a swarm to the observing process, each with all reports since the last line. Pure.

Message numbers are sent as runs (producer, first, count), because messages that are acknowledged or received together
are mostly consecutive:

    received(0, 4) received(0, 5) received(1, 9)   ->   "received": [[0, 4, 2], [1, 9, 1]]

A bunch keeps the order within each kind. That is enough: the checks accept the calls for a message in any order.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from model.events import Event

if TYPE_CHECKING:
    from testbed.swarm.members import SwarmSink

_KINDS = ("acknowledged", "failed", "received")


class Bunch:
    """A `SwarmSink` that collects until `next_line`."""

    def __init__(self) -> None:
        self._runs: dict[str, list[list[int]]] = {}
        self._events: list[Event] = []

    def acknowledged(self, producer: int, number: int) -> None:
        """See `SwarmSink`."""
        self._add("acknowledged", producer, number)

    def failed(self, producer: int, number: int) -> None:
        """See `SwarmSink`."""
        self._add("failed", producer, number)

    def received(self, producer: int, number: int) -> None:
        """See `SwarmSink`."""
        self._add("received", producer, number)

    def event(self, event: Event) -> None:
        """See `SwarmSink`."""
        self._events.append(event)

    def _add(self, kind: str, producer: int, number: int) -> None:
        runs = self._runs.setdefault(kind, [])
        if runs and runs[-1][0] == producer and runs[-1][1] + runs[-1][2] == number:
            runs[-1][2] += 1
        else:
            runs.append([producer, number, 1])

    def next_line(self) -> bytes:
        """Return all reports since the last call as one line; empty if there are none."""
        if not self._runs and not self._events:
            return b""
        line: dict[str, Any] = {**self._runs, "events": self._events}
        self._runs, self._events = {}, []
        return json.dumps(line, separators=(",", ":")).encode() + b"\n"


def state_line(state: str) -> bytes:
    """The line for a state that a part has reached."""
    return json.dumps({"state": state}).encode() + b"\n"


def read_line(line: bytes, sink: SwarmSink) -> str:
    """Read a line of a part and pass its content to the sink; returns the state that the part has reached, or "".

    Raises:
        ValueError: the line is malformed.
    """
    try:
        read: dict[str, Any] = json.loads(line)
        for kind in _KINDS:
            call = getattr(sink, kind)
            for producer, first, n in read.get(kind, ()):
                for number in range(first, first + n):
                    call(producer, number)
        for event in read.get("events", ()):
            sink.event(Event(*event))
        return str(read.get("state", ""))
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError(f"a part of the swarm sent {line[:100]!r}: {error}") from error
