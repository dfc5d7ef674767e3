"""The faults of a trace: the faults that a test injected, their times, and the affected frames and clients. Pure.

    faults = FaultHistory()
    for event in in_order(events):
        faults.feed(event)
    faults.rows            kill broker-a, at broker-a, from 12.0 s to 14.5 s
    faults.closed_ms("", "broker-a", ("c1",), 10_000, 20_000)     2,500: for this long a fault cut c1 off from broker-a

Each server at which a fault begins reports it, with the first report as the cause: here they are one fault.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from model.events import Event, EventKind

KINDS = frozenset({EventKind.FAULT_BEGAN, EventKind.FAULT_DONE, EventKind.FAULT_HEALED})
_CLOSING = ("drop", "half_open", "kill", "partition", "pause", "refuse", "stop")
"""Faults that close the path between a client and a broker while they last, unless they concern one request code."""
MAX_ROWS = 1_000
"""Maximum number of kept faults; further ones are only counted, because people do not read longer lists."""


@dataclass(slots=True, kw_only=True)
class FaultRow:
    """One fault.

    Attributes:
        fault: as in FAULT_BEGAN, for instance "drop code=HEART_BEAT client=c3" or "kill broker-a".
        cause: the id of the event that began it, which is the cause of all later events about it.
        at: the brokers that reported it, or the affected process.
        began_ms, over_ms: its time; `over_ms` is None if the trace does not have its end.
        done: the number of affected frames and whole connections.
        clients: the affected clients, and the client that the fault chose.
    """

    fault: str
    cause: str
    group: str
    at: tuple[str, ...]
    began_ms: float
    over_ms: float | None = None
    done: int = 0
    clients: tuple[str, ...] = ()


class FaultHistory:
    """The faults of a history, in the order in which they began; see the module header."""

    def __init__(self) -> None:
        self.rows: list[FaultRow] = []
        self.left_out = 0
        self._by_id: dict[str, FaultRow] = {}
        self._running: dict[str, dict[str, None]] = {}  # cause -> the servers at which it has not ended yet

    def feed(self, event: Event) -> None:
        """Process an event; other kinds are ignored."""
        if event.kind == EventKind.FAULT_BEGAN:
            self._begun(event)
        elif event.kind in KINDS:
            row = self._by_id.get(event.cause)
            if row is None:
                return  # it began before the trace
            if event.kind == EventKind.FAULT_DONE:
                row.done += event.n
                if event.client not in row.clients:
                    row.clients = (*row.clients, event.client)
            else:
                self._over(row, event.broker, event.t_ms)

    def closed_ms(self, group: str, broker: str, clients: Collection[str], from_ms: float, to_ms: float) -> float:
        """Return for how much of this time a fault closed the path of one of these members to a broker."""
        spans = sorted(
            (max(from_ms, row.began_ms), to_ms if row.over_ms is None else min(to_ms, row.over_ms))
            for row in self.rows
            if row.group in ("", group) and broker in row.at and _closes(row, clients)
        )
        closed_ms, until_ms = 0.0, from_ms
        for began_ms, over_ms in spans:
            closed_ms += max(0.0, over_ms - max(began_ms, until_ms))
            until_ms = max(until_ms, over_ms)
        return closed_ms

    def _begun(self, event: Event) -> None:
        row = self._by_id.get(event.cause)
        if row is not None:
            row.at = (*row.at, event.broker)
            self._by_id[event.id] = row
            self._running[row.cause][event.broker] = None
            return
        if event.detail in (f"kill {event.broker}", f"stop {event.broker}"):
            for other in self.rows:  # a process that is gone has no connections with faults
                self._over(other, event.broker, event.t_ms)
        if len(self.rows) == MAX_ROWS:
            self.left_out += 1
            return
        row = FaultRow(
            fault=event.detail,
            cause=event.id,
            group=event.group,
            at=(event.broker,),
            began_ms=event.t_ms,
            clients=(event.client,) if event.client else (),
        )
        self.rows.append(row)
        self._by_id[event.id] = row
        self._running[event.id] = {event.broker: None}

    def _over(self, row: FaultRow, broker: str, t_ms: float) -> None:
        running = self._running[row.cause]
        if broker in running:
            del running[broker]
            if not running:
                row.over_ms = t_ms


def _closes(row: FaultRow, clients: Collection[str]) -> bool:
    """Whether a fault closes the path of one of these clients; a fault without a chosen client affects all."""
    words = row.fault.split(" ")
    if words[0] not in _CLOSING or any(word.startswith("code=") for word in words):
        return False
    chosen = any(word.startswith(("client=", "peer=")) for word in words)
    return not chosen or any({client, *client.rpartition("@")} & {*row.clients} for client in clients)


def in_words(row: FaultRow, began_ms: float) -> str:
    """Describe a fault in a line, with its times since the beginning of the history."""
    over = "the end" if row.over_ms is None else f"{(row.over_ms - began_ms) / 1000:,.1f} s"
    times = "once" if row.done == 1 else f"{row.done:,} times"
    done = f", done {times} to {', '.join(row.clients)}" if row.done else ""
    return f"{row.fault}, at {', '.join(row.at)}, from {(row.began_ms - began_ms) / 1000:,.1f} s to {over}{done}"
