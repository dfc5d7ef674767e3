"""Reads events and lines of a ledger from JSON Lines, and sorts them by time. Pure.

Nodes send their events once a second, in batches, and a topic has several queues, so events arrive out of order. The
number of events held for sorting is bounded; an event that arrives too late for it counts at the newest time seen.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from model.events import Event
from traces.figures.records import order_of

SORT_AHEAD = 20_000
"""Number of events that are held for sorting."""

_COLUMNS = Event._fields


class BadLine(ValueError):
    """A line is not an event."""


def parse_event(line: bytes | str) -> Event:
    """Decode the event of one line; missing columns get their defaults, and unknown columns are ignored.

    Raises:
        BadLine: the line is not a JSON object with a time, a node, a number and a kind.
    """
    try:
        return _event(json.loads(line))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise BadLine(f"not an event: {line[:80]!r}") from error


def parse_events(lines: Sequence[bytes], bad: Callable[[BadLine], object]) -> list[Event]:
    """Decode the events of several lines; skips empty lines, and calls `bad` for lines that are not events.

    The lines are decoded together, which takes two thirds of the time. If one of them is bad, they are decoded one by
    one.
    """
    lines = [line for line in lines if not line.isspace() and line]
    try:
        decoded = json.loads(b"[" + b",".join(lines) + b"]")
        if len(decoded) == len(lines):
            return [_event(columns) for columns in decoded]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        pass
    events = []
    for line in lines:
        try:
            events.append(parse_event(line))
        except BadLine as error:
            bad(error)
    return events


def _event(columns: dict[str, Any]) -> Event:
    if tuple(columns) == _COLUMNS:
        event = Event._make(columns.values())
    else:
        event = Event(**{name: columns[name] for name in _COLUMNS if name in columns})
    t_ms, node, seq, kind, cause, group, topic, broker, queue_id, client, version, offset, n, detail = event
    # Addition is the cheapest check that numbers are numbers and texts are texts.
    t_ms + seq + queue_id + version + offset + n
    node + kind + cause + group + topic + broker + client + detail
    return event


class Sorter:
    """Holds the newest events, and returns older ones in order."""

    def __init__(self, ahead: int = SORT_AHEAD) -> None:
        self._ahead = ahead
        self._held: list[Event] = []

    def add(self, event: Event) -> list[Event]:
        """Add an event; returns the events that are due, often none."""
        held = self._held
        held.append(event)
        if len(held) < 2 * self._ahead:
            return []
        held.sort(key=order_of)
        due = held[: self._ahead]
        del held[: self._ahead]
        return due

    def remaining(self) -> list[Event]:
        """Return all held events, in order."""
        held, self._held = sorted(self._held, key=order_of), []
        return held

    def older_than(self, t_ms: float) -> list[Event]:
        """Return the held events that are older than a time: for a trace that is followed while it grows."""
        self._held.sort(key=order_of)
        n = sum(event.t_ms < t_ms for event in self._held)
        due = self._held[:n]
        del self._held[:n]
        return due


def in_order(events: Iterable[Event], ahead: int = SORT_AHEAD) -> Iterator[Event]:
    """Yield the events in the order of their times, provided that no event is more than `ahead` events late."""
    sorter = Sorter(ahead)
    for event in events:
        yield from sorter.add(event)
    yield from sorter.remaining()
