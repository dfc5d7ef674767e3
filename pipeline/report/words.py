"""The sentences of a report about rebalances, members, moves and groups."""

from __future__ import annotations

from typing import Any

from model.counted import plural
from model.events import EventKind
from pipeline.report.charts import milliseconds
from pipeline.report.data import Totals
from pipeline.report.ownerless import OwnerlessGroup

_LEFT = {
    "unregister": "left",
    "close": "lost its connection",
    "expiry": "was silent too long",
    "right": "lost a right",
}
_CHANGES = {
    EventKind.CLIENT_START: ("start", "{client} started"),
    EventKind.CLIENT_STOP: ("stop", "{client} stopped"),
    EventKind.MEMBER_JOIN: ("join", "{client} joined"),
    EventKind.SUBSCRIPTION_CHANGE: ("subscription", "{client} changed its subscriptions"),
    EventKind.ROUTE_CHANGED: ("route", "the queues of a topic changed"),
    EventKind.BROKER_UP: ("broker up", "a broker came up"),
    EventKind.BROKER_DOWN: ("broker down", "a broker went down"),
    EventKind.OFFSET_RESET: ("offset reset", "an operator reset the offsets"),
    EventKind.REBALANCE_BEGIN: ("timer", "{client} ran a periodic pass"),
    EventKind.QUEUE_DROPPED: ("queue lost", "{client} lost a queue"),
}
"""Kind of the first event of a rebalance -> its short name, and a sentence."""


def member_name(client: str | None) -> str:
    """Return the instance name in a client id, which people choose."""
    return (client or "").partition("@")[2] or client or "no owner"


def sentence_of_rebalance(rebalance: dict[str, Any]) -> str:
    """Describe a row of `rebalances` as a sentence without its full stop."""
    kind, client = str(rebalance["kind"]), member_name(rebalance["client"])
    if kind == EventKind.MEMBER_LEAVE:
        return f"{client} {_LEFT.get(str(rebalance['detail']), 'left')}"
    if kind == EventKind.BROKER_DOWN and rebalance["client"]:
        return f"{client} lost its connection to {rebalance['detail']}"
    return _change(kind)[1].format(client=client)


def name_change(rebalance: dict[str, Any]) -> str:
    """Return the kind of a change in one or two words."""
    kind = str(rebalance["kind"])
    if kind == EventKind.MEMBER_LEAVE:
        return f"leave: {rebalance['detail']}"
    return _change(kind)[0]


def _change(kind: str) -> tuple[str, str]:
    return _CHANGES.get(EventKind(kind), (kind.lower(), kind)) if kind in list(EventKind) else ("unknown", "unknown")


def summary(totals: Totals, worst: str | None) -> str:
    """Describe the figures of a group; `worst` is the cause of its costliest rebalance, if it had one."""
    if not totals.rebalances:
        return "No queue of the group moved to another member in this trace."
    sentences = [
        f"The group rebalanced {plural(totals.rebalances, 'time')}, and queues went to a new owner "
        f"{plural(totals.moves, 'time')}; {totals.needed:,} would have been enough.",
    ]
    if totals.pause_ms:
        sentences.append(
            f"Between two owners they were paused for {milliseconds(totals.pause_ms)}, summed over all queues, and for "
            f"{milliseconds(totals.pause_max_ms)} at most."
        )
        if worst:
            sentences.append(f"The costliest moment was when {worst}.")
    if totals.duplicates:
        sentences.append(f"{plural(totals.duplicates, 'message')} came to a second listener after a move.")
    if totals.possible_duplicates:
        more = " more" if totals.duplicates else ""
        sentences.append(
            f"Up to {totals.possible_duplicates:,}{more} may have come twice: their first owner died before it could "
            "report them."
        )
    if not totals.duplicates and not totals.possible_duplicates:
        sentences.append("No message is known to have come twice because of a move.")
    if totals.double_ms:
        sentences.append(f"Queues had two owners at once for {milliseconds(totals.double_ms)}.")
    if totals.orphans:
        sentences.append(f"At the end of the trace {plural(totals.orphans, 'queue')} had no owner.")
    return " ".join(sentences)


NO_OWNERS = (
    "members that pop share the messages of every queue, so there are no figures of owners, moves, pauses and messages "
    "that came twice; events do not report each message that is popped or acknowledged"
)


def ownerless(group: OwnerlessGroup) -> str:
    """Describe a group that owned no queue."""
    first = "The group pops" if group.surely_pops else "No member owned a queue, as in a group that pops"
    sentences = [
        f"{first}: {NO_OWNERS}.",
        f"{plural(group.members_joined, 'member')} joined and {group.members_left:,} left; "
        f"{group.members:,} at the end.",
    ]
    if group.redelivered:
        sentences.append(f"Redelivered, because not acknowledged in time: {plural(group.redelivered, 'message')}.")
    else:
        sentences.append("No message was redelivered.")
    if group.dead_letters:
        sentences.append(f"Sent to the dead-letter queue: {plural(group.dead_letters, 'message')}.")
    return " ".join(sentences)


def describe_missed(by_reason: dict[str, int]) -> str:
    """Describe the messages that a group was moved past; an empty text if there are none."""
    why = {"damaged": "are damaged or missing", "deleted": "were deleted before it read them"}
    parts = [
        f"{plural(by_reason[reason], 'message')} that {text}" for reason, text in why.items() if reason in by_reason
    ]
    return f"The group missed {' and '.join(parts)}." if parts else ""


def transactions(row: dict[str, Any]) -> str:
    """Describe the outcomes of the transactions of a producer group."""
    checks = f", {plural(row['checks'], 'check')}" if row["checks"] else ""
    given_up = f", {row['given_up']:,} never ended" if row["given_up"] else ""
    return (
        f"{plural(row['half'], 'half message')}, {row['committed']:,} committed, {row['rolled_back']:,} rolled back"
        f"{checks}{given_up}"
    )


def describe_duplicates(duplicates: int, possible: int) -> str:
    """Format the number of messages that came twice: `12`, `12 to 52` if it is uncertain, or an empty text."""
    if not possible:
        return f"{duplicates:,}" if duplicates else ""
    return f"{duplicates:,} to {duplicates + possible:,}"


def offsets(move: dict[str, Any], n: int) -> str:
    """Format the offsets of `n` messages from the start offset of a move: `120 to 131`."""
    first = int(move["start_offset"])
    return f"{first:,}" if n == 1 else f"{first:,} to {first + n - 1:,}"
