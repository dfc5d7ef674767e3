"""The faults of a trace: the faults that a test injected, their times, and the affected frames and clients. Pure.

    faults = FaultHistory()
    for event in in_order(events):
        faults.feed(event)
    faults.rows            kill broker-a, at broker-a, from 12.0 s to 14.5 s
    faults.blocked_ms("", "broker-a", ("c1",), 10_000, 20_000)     2,500: for this long a fault cut c1 off from broker-a

Each affected server reports the fault. All later reports have the id of the first one as their cause; here these
reports are one row.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from model.events import Event, EventKind

KINDS = frozenset({EventKind.FAULT_BEGAN, EventKind.FAULT_DONE, EventKind.FAULT_HEALED})
_BLOCKING = ("drop", "half_open", "kill", "partition", "pause", "refuse", "stop")
"""Faults that block the path between a client and a broker while they last, unless they concern one request code."""
MAX_ROWS = 1_000
"""Maximum number of kept faults. Further ones are only counted: people do not read longer lists."""


@dataclass(slots=True, kw_only=True)
class InjectedFault:
    """One fault.

    Attributes:
        fault: as in FAULT_BEGAN, for instance "drop code=HEART_BEAT client=c3" or "kill broker-a".
        cause: the id of the event that began it, which is the cause of all later events about it.
        at: the brokers that reported it, or the affected process.
        began_ms, over_ms: its time; `over_ms` is None if the trace does not have its end.
        done: how many frames or connections it has hit.
        clients: the clients that it has hit, and the client that it was aimed at.
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
        self.rows: list[InjectedFault] = []
        self.omitted = 0
        self._by_id: dict[str, InjectedFault] = {}
        self._running: dict[str, dict[str, None]] = {}  # cause -> the servers at which it has not ended yet

    def feed(self, event: Event) -> None:
        """Process an event; other kinds are ignored."""
        if event.kind == EventKind.FAULT_BEGAN:
            self._begin(event)
        elif event.kind in KINDS:
            row = self._by_id.get(event.cause)
            if row is None:
                return  # it began before the trace
            if event.kind == EventKind.FAULT_DONE:
                row.done += event.n
                if event.client not in row.clients:
                    row.clients = (*row.clients, event.client)
            else:
                self._heal(row, event.broker, event.t_ms)

    def blocked_ms(self, group: str, broker: str, clients: Collection[str], from_ms: float, to_ms: float) -> float:
        """The milliseconds in this period in which a fault blocked the path from any of these clients to the broker."""
        spans = sorted(
            (max(from_ms, row.began_ms), to_ms if row.over_ms is None else min(to_ms, row.over_ms))
            for row in self.rows
            if row.group in ("", group) and broker in row.at and _blocks(row, clients)
        )
        blocked_ms, until_ms = 0.0, from_ms
        for began_ms, over_ms in spans:
            blocked_ms += max(0.0, over_ms - max(began_ms, until_ms))
            until_ms = max(until_ms, over_ms)
        return blocked_ms

    def _begin(self, event: Event) -> None:
        row = self._by_id.get(event.cause)
        if row is not None:
            row.at = (*row.at, event.broker)
            self._by_id[event.id] = row
            self._running[row.cause][event.broker] = None
            return
        if event.detail in (f"kill {event.broker}", f"stop {event.broker}"):
            for other in self.rows:  # a killed process has no connections, so all other faults at it have ended
                self._heal(other, event.broker, event.t_ms)
        if len(self.rows) == MAX_ROWS:
            self.omitted += event.cause in ("", event.id)  # once, not for each server that reports it
            return
        row = InjectedFault(
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

    def _heal(self, row: InjectedFault, broker: str, t_ms: float) -> None:
        running = self._running[row.cause]
        if broker in running:
            del running[broker]
            if not running:
                row.over_ms = t_ms


def _blocks(row: InjectedFault, clients: Collection[str]) -> bool:
    """Whether a fault blocks the path of one of these clients; a fault that is aimed at none affects all."""
    words = row.fault.split(" ")
    if words[0] not in _BLOCKING or any(word.startswith("code=") for word in words):
        return False
    is_aimed = any(word.startswith(("client=", "peer=")) for word in words)
    # A fault may name a client by its id or by its instance name.
    return not is_aimed or any({client, *client.rpartition("@")} & {*row.clients} for client in clients)


def describe_fault(row: InjectedFault, began_ms: float) -> str:
    """Describe a fault in a line, with its times since the beginning of the history."""
    over = "the end" if row.over_ms is None else f"{(row.over_ms - began_ms) / 1000:,.1f} s"
    times = "once" if row.done == 1 else f"{row.done:,} times"
    done = f", done {times} to {', '.join(row.clients)}" if row.done else ""
    return f"{row.fault}, at {', '.join(row.at)}, from {(row.began_ms - began_ms) / 1000:,.1f} s to {over}{done}"
