"""MissingTrace: the parts of a trace that cannot be read, an argument of every verdict over that trace. Pure.

Each broker keeps a part of the topic SYS_TRACE: its own events, and those that clients sent to it. While a broker is
away, its part is unknown. So an answer "yes" becomes "unknown", an anomaly is in doubt, and a tool names the missing
parts:

    MissingTrace(parts={"broker-b": "broker broker-b at 10.0.0.2:10911 closed its connection 6 s ago"})
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from model.absent_broker import Absence, format_duration
from model.events import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingTrace:
    """The parts of a trace that cannot be read.

    Attributes:
        parts: name of a broker -> why its part of the trace cannot be read.
        limit: brokers that may be away without being in `parts`; "" if there cannot be any.
    """

    parts: Mapping[str, str] = field(default_factory=dict)
    limit: str = ""

    def __bool__(self) -> bool:
        return bool(self.parts)

    def __str__(self) -> str:
        if not self.parts:
            return ""
        brokers = ", ".join(self.parts)
        return f"the part of the trace that is on {brokers} is missing: {'; '.join(self.parts.values())}"


NOTHING_MISSING = MissingTrace()


def describe_missing(absence: Absence, silent: Mapping[str, str], trace_s: float | None) -> MissingTrace:
    """The parts of a trace that are missing because their brokers are absent or did not answer.

    Args:
        absence: the absent brokers that have a part of the trace.
        silent: name of a registered broker -> why it did not answer.
        trace_s: age of the first event in seconds; None for a trace without events.
    """
    parts = {name: str(broker) for name, broker in absence.masters.items()}
    parts |= {name: f"broker {name} does not answer: {error}" for name, error in silent.items() if name not in parts}
    limit = ""
    if absence.known_for_s is None or (trace_s is not None and absence.known_for_s < trace_s):
        limit = absence.limit
        if trace_s is not None and absence.known_for_s is not None:
            limit += f", and the trace is {format_duration(trace_s)} long"
    return MissingTrace(parts=dict(sorted(parts.items())), limit=limit)


def missing_parts(silent: Iterable[str]) -> MissingTrace:
    """Return the missing parts of a trace that has no event of these brokers, although others name them."""
    return MissingTrace(parts={name: f"no event is of {name}, and others name it" for name in sorted(silent)})


class SilentBrokers:
    """The brokers that events of a trace name, and that have no event of their own in it: their part is missing.

    That is how a file shows that a broker was away when it was recorded.
    """

    def __init__(self) -> None:
        self._named: dict[str, None] = {}
        self._nodes_seen: dict[str, None] = {}

    def add(self, event: Event) -> None:
        """Add an event of the trace."""
        if event.broker:
            self._named[event.broker] = None
            if event.node == event.broker:
                self._nodes_seen[event.node] = None

    @property
    def missing(self) -> MissingTrace:
        """The missing parts of the trace, by the events so far."""
        return missing_parts(self._named.keys() - self._nodes_seen.keys())
