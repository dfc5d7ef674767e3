"""Reads events and lines of a ledger from JSON Lines, and puts those that come late in order. Pure.

Nodes send their events once a second, so those of one moment come in bunches, and a topic has several queues. What is
held to be sorted is bounded; an event that comes later than that counts at the newest time seen.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from model.events import Event
from traces.figures.records import order_of

SORT_AHEAD = 20_000
"""Events that are held to be sorted."""

_COLUMNS = Event._fields


class BadLine(ValueError):
    """A line is no event."""


def event_of(line: bytes | str) -> Event:
    """The event of one line; columns that it lacks have their defaults, and those that nobody knows are left out.

    Raises:
        BadLine: it is not a JSON object with a time, a node, a number and a kind.
    """
    try:
        return _event(json.loads(line))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise BadLine(f"not an event: {line[:80]!r}") from error


def events_of(lines: Sequence[bytes], bad: Callable[[BadLine], object]) -> list[Event]:
    """The events of several lines, without empty ones; `bad` is called for those that are none.

    They are decoded together, which takes two thirds of the time. If one of them is bad, all are decoded one by one.
    """
    lines = [line for line in lines if not line.isspace() and line]
    try:
        decoded = json.loads(b"[" + b",".join(lines) + b"]")
        if len(decoded) == len(lines):
            return [_event(columns) for columns in decoded]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        pass
    found = []
    for line in lines:
        try:
            found.append(event_of(line))
        except BadLine as error:
            bad(error)
    return found


def _event(columns: dict[str, Any]) -> Event:
    if tuple(columns) == _COLUMNS:
        event = Event._make(columns.values())
    else:
        event = Event(**{name: columns[name] for name in _COLUMNS if name in columns})
    t_ms, node, seq, kind, cause, group, topic, broker, queue_id, client, version, offset, n, detail = event
    # Adding is the cheapest way to find out that numbers are numbers and texts are texts.
    t_ms + seq + queue_id + version + offset + n
    node + kind + cause + group + topic + broker + client + detail
    return event


class Sorter:
    """Holds the newest events, and returns older ones in order."""

    def __init__(self, ahead: int = SORT_AHEAD) -> None:
        self._ahead = ahead
        self._held: list[Event] = []

    def take(self, event: Event) -> list[Event]:
        """Take an event; returns those that are due, often none."""
        held = self._held
        held.append(event)
        if len(held) < 2 * self._ahead:
            return []
        held.sort(key=order_of)
        due = held[: self._ahead]
        del held[: self._ahead]
        return due

    def rest(self) -> list[Event]:
        """Return all that is held, in order."""
        held, self._held = sorted(self._held, key=order_of), []
        return held

    def older_than(self, t_ms: float) -> list[Event]:
        """Return what is older than a time: for a trace that is followed while it grows."""
        self._held.sort(key=order_of)
        n = sum(event.t_ms < t_ms for event in self._held)
        due = self._held[:n]
        del self._held[:n]
        return due


def in_order(events: Iterable[Event], ahead: int = SORT_AHEAD) -> Iterator[Event]:
    """The events in the order of their times, as far as none comes more than `ahead` events too late."""
    sorter = Sorter(ahead)
    for event in events:
        yield from sorter.take(event)
    yield from sorter.rest()
