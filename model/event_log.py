"""The events of one node: numbered, bounded, waiting to be sent. The clock is an argument. Pure.

log = EventLog("broker-a", clock_ms=wall_ms)
cause = log.emit(EventKind.MEMBER_JOIN, group="g", client="c1")        # a root: it is its own cause
log.emit(EventKind.NOTIFY_SENT, cause=cause, group="g", n=3)           # its effect names it
encode_events(log.remove_all())                                        # JSON Lines, for SYS_TRACE or a file
"""

from __future__ import annotations

import json
from codecs import BOM_UTF8
from collections import deque
from collections.abc import Callable, Iterable
from json.encoder import encode_basestring_ascii as _quoted
from typing import Any, get_type_hints

from model.events import Event, EventKind
from model.limits import MAX_TRACE_BUFFER, RUN_SEQS

EventSink = Callable[[Event], None]

MAX_TEXT_CHARS = 500
"""Longest cause or detail. Peers choose these texts; cut at this length, a thousand events always fit a frame."""


class EventLog:
    """Events of one node.

    Args:
        node: broker name or client id.
        clock_ms: wall clock in milliseconds.
        sink: called with every event at once, for live views and checkers; must not block or raise.
        buffered: whether events are also kept for `remove_all`; without it nothing is ever kept.
        run: how often a node of this name was started before. Each run has numbers of its own, so that causes of a node
            never repeat: the first counts from 1, the next from 1,000,000,001, and so forth.

    Attributes:
        buffered: see above; may change.
        dropped: events lost because they were not taken in time.
    """

    def __init__(
        self,
        node: str,
        clock_ms: Callable[[], float],
        *,
        sink: EventSink | None = None,
        buffered: bool = True,
        run: int = 0,
    ) -> None:
        self.node = node
        self.dropped = 0
        self._clock_ms = clock_ms
        self._sink = sink
        self.buffered = buffered
        self._buffer: deque[Event] = deque(maxlen=MAX_TRACE_BUFFER)
        self._seq = run * RUN_SEQS

    def emit(self, kind: EventKind, *, cause: str = "", detail: str = "", **fields: Any) -> str:
        """Record an event, and return its cause, which its effects have to name.

        Without a cause the event is a root, whose cause is its own id. Cause and detail are cut at `MAX_TEXT_CHARS`;
        `fields` are the other columns of `Event`.
        """
        self._seq += 1
        cause = cause[:MAX_TEXT_CHARS] or f"{self.node}/{self._seq}"
        event = Event(
            self._clock_ms(), self.node, self._seq, kind.value, cause, detail=detail[:MAX_TEXT_CHARS], **fields
        )
        if self.buffered:
            self.dropped += len(self._buffer) == self._buffer.maxlen
            self._buffer.append(event)
        if self._sink is not None:
            self._sink(event)
        return cause

    def begin_run(self, run: int) -> None:
        """Take the numbers of another run; see `run` above."""
        self._seq = run * RUN_SEQS

    def next_id(self) -> str:
        """The id that the next event will have: a cause to send ahead of the event itself."""
        return f"{self.node}/{self._seq + 1}"

    def cause_of(self, cause: str | None) -> str:
        """The cause that a peer named, cut as `emit` does; the id that the next event will have if it named none."""
        return (cause or "")[:MAX_TEXT_CHARS] or self.next_id()

    def remove_all(self) -> list[Event]:
        """Remove and return all pending events, oldest first."""
        events = list(self._buffer)
        self._buffer.clear()
        return events

    def requeue(self, events: list[Event]) -> None:
        """Requeue events that could not be sent; they stay the oldest, and are dropped first when there is no room."""
        n_free = MAX_TRACE_BUFFER - len(self._buffer)
        self.dropped += max(0, len(events) - n_free)
        self._buffer.extendleft(reversed(events[max(0, len(events) - n_free) :]))


def encode_events(events: Iterable[Event]) -> bytes:
    """Encode events as JSON Lines, one object a line with every column, as `json.dumps` writes it.

    Written by hand, in a quarter of its time: a change of a large group makes ten events for each member, on each side.
    """
    return "".join(map(_line, events)).encode()


def _line(event: Event) -> str:
    t_ms, node, seq, kind, cause, group, topic, broker, queue_id, client, version, offset, n, detail = event
    return (
        f'{{"t_ms": {t_ms!r}, "node": {_quoted(node)}, "seq": {seq}, "kind": {_quoted(kind)}, '
        f'"cause": {_quoted(cause)}, "group": {_quoted(group)}, "topic": {_quoted(topic)}, '
        f'"broker": {_quoted(broker)}, "queue_id": {queue_id}, "client": {_quoted(client)}, "version": {version}, '
        f'"offset": {offset}, "n": {n}, "detail": {_quoted(detail)}}}\n'
    )


def decode_events(lines: bytes) -> tuple[list[Event], int]:
    """Decode JSON Lines: the events, and the number of lines that are not events.

    Columns of a later version are ignored, and columns that a line lacks have their defaults.
    """
    events: list[Event] = []
    bad = 0
    for line in lines.removeprefix(BOM_UTF8).splitlines():
        try:
            columns = json.loads(line.decode())
            if columns.keys() != _TYPES.keys():
                columns = {name: value for name, value in columns.items() if name in _TYPES}
            event = Event(**columns)
        except (ValueError, TypeError, AttributeError, RecursionError):
            bad += 1
            continue
        types = tuple(map(type, event))
        if types in _USUAL or all(map(issubclass, types, _TYPES.values())):
            events.append(event)
        else:
            bad += 1
    return events, bad


_HINTS = get_type_hints(Event)
_TYPES: dict[str, Any] = {name: (int, float) if kind is float else kind for name, kind in _HINTS.items()}
_USUAL = {tuple(time if kind is float else kind for kind in _HINTS.values()) for time in (int, float)}
"""The types of the columns as we write them: one comparison for an event is faster than one for each column."""
