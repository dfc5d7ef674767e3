"""The sentences of a report: about a rebalance, a member, a move, a group."""

from __future__ import annotations

from typing import Any

from model.events import EventKind
from pipeline.report.data import Totals
from pipeline.report.svg import milliseconds

_LEFT = {
    "unregister": "left",
    "close": "lost its connection",
    "expiry": "was silent too long",
}
_WHAT = {
    EventKind.CLIENT_START: "{client} started",
    EventKind.CLIENT_STOP: "{client} stopped",
    EventKind.MEMBER_JOIN: "{client} joined",
    EventKind.SUBSCRIPTION_CHANGE: "{client} changed what it subscribes to",
    EventKind.ROUTE_CHANGED: "the queues of a topic changed",
    EventKind.BROKER_UP: "a broker came up",
    EventKind.BROKER_DOWN: "a broker went down",
    EventKind.OFFSET_RESET: "an operator reset the offsets",
    EventKind.REBALANCE_BEGIN: "{client} ran a periodic pass",
    EventKind.QUEUE_DROPPED: "{client} lost a queue",
}
_KINDS = {
    EventKind.CLIENT_START: "start",
    EventKind.CLIENT_STOP: "stop",
    EventKind.MEMBER_JOIN: "join",
    EventKind.SUBSCRIPTION_CHANGE: "subscription",
    EventKind.ROUTE_CHANGED: "route",
    EventKind.BROKER_UP: "broker up",
    EventKind.BROKER_DOWN: "broker down",
    EventKind.OFFSET_RESET: "offset reset",
    EventKind.REBALANCE_BEGIN: "timer",
    EventKind.QUEUE_DROPPED: "queue lost",
}


def member_name(client: str | None) -> str:
    """The instance name in a client id, which people choose."""
    return (client or "").partition("@")[2] or client or "nobody"


def what_happened(rebalance: dict[str, Any]) -> str:
    """A row of `rebalances` as a sentence without its full stop."""
    kind, client = str(rebalance["kind"]), member_name(rebalance["client"])
    if kind == EventKind.MEMBER_LEAVE:
        return f"{client} {_LEFT.get(str(rebalance['detail']), 'is gone')}"
    return _WHAT.get(EventKind(kind), kind).format(client=client) if kind in list(EventKind) else "unknown"


def kind_of(rebalance: dict[str, Any]) -> str:
    """The kind of a change in a word or two."""
    kind = str(rebalance["kind"])
    if kind == EventKind.MEMBER_LEAVE:
        return f"leave: {rebalance['detail']}"
    return _KINDS.get(EventKind(kind), kind.lower()) if kind in list(EventKind) else "unknown"


def counted(n: int, noun: str) -> str:
    """A number with its noun."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def summary(totals: Totals, worst: str | None) -> str:
    """The counts of a group in a few sentences; `worst` is the cause of its costliest rebalance, if it had one."""
    if not totals.rebalances:
        return "No queue of the group changed hands in this trace."
    sentences = [
        f"The group rebalanced {counted(totals.rebalances, 'time')}, and queues went to a new owner "
        f"{counted(totals.moves, 'time')}; {totals.min_moves:,} would have been enough.",
    ]
    if totals.pause_ms:
        sentences.append(
            f"Between two owners they were paused for {milliseconds(totals.pause_ms)}, summed over all queues, and for "
            f"{milliseconds(totals.pause_max_ms)} at most."
        )
        if worst:
            sentences.append(f"The costliest moment was when {worst}.")
    if totals.duplicates:
        sentences.append(f"{counted(totals.duplicates, 'message')} came to a second listener after a change of hands.")
    else:
        sentences.append("No message is known to have come twice because of a change of hands.")
    if totals.double_ms:
        sentences.append(f"Queues had two owners at once for {milliseconds(totals.double_ms)}.")
    if totals.orphans:
        sentences.append(f"At the end of the trace {counted(totals.orphans, 'queue')} had no owner.")
    return " ".join(sentences)


def offsets(move: dict[str, Any], n: int) -> str:
    """The messages of a move, from where its owner started: `120 to 131`."""
    first = int(move["start_offset"])
    return f"{first:,}" if n == 1 else f"{first:,} to {first + n - 1:,}"
