"""The faults of a trace: what a test did to its cluster on purpose, when, and to how many frames or clients. Pure.

    faults = FaultHistory()
    for event in in_order(events):
        faults.feed(event)
    faults.rows            kill broker-a, at broker-a, from 12.0 s to 14.5 s
    faults.closed_ms("broker-a", ("c1",), 10_000, 20_000)     2,500: so long c1 could not reach it, on purpose

Each server at which a fault is begun tells of it, with the first one as its cause: that is one fault here.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from model.events import Event, EventKind

KINDS = frozenset({EventKind.FAULT_BEGAN, EventKind.FAULT_DONE, EventKind.FAULT_HEALED})
_CLOSING = ("drop", "half_open", "kill", "partition", "pause", "refuse", "stop")
"""What closes a path between a client and a broker for as long as it lasts, unless it is done to one request only."""
MAX_ROWS = 1_000
"""FaultHistory that are kept: whoever reads such a list reads less. Further ones are counted."""


@dataclass(slots=True, kw_only=True)
class FaultRow:
    """One fault.

    Attributes:
        fault: as in FAULT_BEGAN, for instance "drop code=HEART_BEAT client=c3" or "kill broker-a".
        cause: the id of the event that began it, which is the cause of all else that is told of it.
        at: the brokers that told of it, or the process to which it was done.
        began_ms, over_ms: its time; `over_ms` is None if the trace does not tell of its end.
        done: to how many frames, and to how many connections as a whole.
        clients: those to which it was done, and the one that was chosen.
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
        self._running: dict[str, dict[str, None]] = {}  # by cause: the servers at which it is not over yet

    def feed(self, event: Event) -> None:
        """Take an event; one of another kind is nothing."""
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
        """For how much of this time the path of one of these members to a broker was closed on purpose."""
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
            for other in self.rows:  # no process, no fault of its connections
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
    """Whether a fault closes the path of one of these clients; one that chooses none is done to all."""
    words = row.fault.split(" ")
    if words[0] not in _CLOSING or any(word.startswith("code=") for word in words):
        return False
    chosen = any(word.startswith(("client=", "peer=")) for word in words)
    return not chosen or any({client, *client.rpartition("@")} & {*row.clients} for client in clients)


def in_words(row: FaultRow, began_ms: float) -> str:
    """A fault as a line of a list, with its times since the begin of the history."""
    over = "the end" if row.over_ms is None else f"{(row.over_ms - began_ms) / 1000:,.1f} s"
    times = "once" if row.done == 1 else f"{row.done:,} times"
    done = f", done {times} to {', '.join(row.clients)}" if row.done else ""
    return f"{row.fault}, at {', '.join(row.at)}, from {(row.began_ms - began_ms) / 1000:,.1f} s to {over}{done}"
