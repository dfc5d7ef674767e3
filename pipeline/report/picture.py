"""The document of a group that the scripts of the report draw, from the rows of its tables. Pure.

It has the form of `pictures/group_picture.py`, so that the same script draws a running group and a finished one. In
addition, each rebalance has its moves, and the steps of its slowest queue, with the name of the slowest step and
advice.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from pipeline.report.data import GroupSection, Rows, queue_name
from pipeline.report.words import sentence_of_rebalance

NONE = -1
NOTICED, HANDED_OVER, FIRST_PULL = "noticed", "handed over", "first pull"


def make_picture(group: GroupSection, started_ms: float, span_ms: float) -> dict[str, Any]:
    """Return the document of a group, from its rows of `ownership` in the timeline and its rebalances."""
    queues, clients = _Places(group.queues), _Places([])
    changes: list[tuple[float, int, int, int]] = []
    by_cause: dict[str, list[tuple[dict[str, Any], dict[str, Any] | None]]] = defaultdict(list)
    for name, rows in _by_queue(group.intervals).items():
        changes += _changes(queues.of(name), rows, clients)
        for old_row, row in zip([None, *rows], rows, strict=False):
            if row["moved"]:
                by_cause[str(row["cause"])].append((row, old_row))
    changes.sort()
    bands = sorted(group.bands, key=lambda row: float(row["began_ms"]))
    return {
        "group": group.totals.group,
        "base_ms": started_ms,
        "now": round(span_ms, 1),
        "queues": queues.all,
        "clients": clients.all,
        "changes": [number for change in changes for number in change],
        "members": [number for row in group.members for number in (round(row["ended_ms"], 1), row["members"])],
        "rebalances": [_rebalance(row, by_cause[str(row["cause"])], queues, clients) for row in bands],
    }


class _Places:
    """Names and their indexes."""

    def __init__(self, names: list[str]) -> None:
        self._places = {name: number for number, name in enumerate(names)}

    def of(self, name: str) -> int:
        return self._places.setdefault(name, len(self._places))

    @property
    def all(self) -> list[str]:
        return list(self._places)


def _by_queue(rows: Rows) -> dict[str, Rows]:
    rows_of: dict[str, Rows] = defaultdict(list)
    for row in sorted(rows, key=lambda row: float(row["from_ms"])):
        rows_of[queue_name(row)].append(row)
    return rows_of


def _changes(queue: int, rows: Rows, clients: _Places) -> list[tuple[float, int, int, int]]:
    """Return the newest owner and the number of owners after each beginning and end of an ownership."""
    steps = [(float(row["from_ms"]), 1, n) for n, row in enumerate(rows)]
    steps += [(float(row["to_ms"]), 0, n) for n, row in enumerate(rows) if row["ended"] != "open"]
    owners: dict[int, None] = {}
    changes: list[tuple[float, int, int, int]] = []
    for t_ms, begins, n in sorted(steps):
        if begins:
            owners[n] = None
        else:
            owners.pop(n, None)
        owner = clients.of(str(rows[next(reversed(owners))]["owner"])) if owners else NONE
        change = (round(t_ms, 1), queue, owner, len(owners))
        if changes and changes[-1][0] == change[0]:
            changes.pop()
        changes.append(change)
    return changes


def _rebalance(
    row: dict[str, Any],
    moves: list[tuple[dict[str, Any], dict[str, Any] | None]],
    queues: _Places,
    clients: _Places,
) -> dict[str, Any]:
    of_each = [_move(each, queues, clients) for each, _ in moves]
    document = {
        "cause": row["cause"],
        "because": sentence_of_rebalance(row),
        "members": row["members"],
        "began": round(row["began_ms"], 1),
        "ended": round(row["ended_ms"], 1),
        "moves": row["moves"],
        "needed": row["needed"],
        "pause_ms": round(row["pause_ms"], 1),
        "queue_moves": [number for each in of_each for number in each],
    }
    timed = [(stepped, each) for each, old_row in moves if (stepped := move_steps(row, each, old_row))]
    if not timed:
        return document
    steps, slowest = max(timed, key=lambda pair: sum(elapsed for _, elapsed, _ in pair[0]))
    name = max(steps, key=lambda step: step[1])[0]
    return {
        **document,
        "steps": [[step, round(elapsed, 1), text] for step, elapsed, text in steps],
        "slow": name,
        "slowest_queue": queue_name(slowest),
        "advice": advice(name, row, slowest),
    }


def _move(row: dict[str, Any], queues: _Places, clients: _Places) -> tuple[float, ...]:
    old = row["from_client"]
    from_place = NONE if old is None else clients.of(str(old))
    to_place = clients.of(str(row["owner"]))
    times = round(row["from_ms"], 1), round(row["pause_ms"], 1)
    return queues.of(queue_name(row)), from_place, to_place, *times


def move_steps(
    rebalance: dict[str, Any], row: dict[str, Any], old_row: dict[str, Any] | None
) -> list[tuple[str, float, str]]:
    """Return the steps of one move: until the old owner ended, until the new one owned the queue, until it pulled.

    They add up to the time from the change to the first pull. A first owner has no steps, because it did not wait for
    an old owner.
    """
    if old_row is None or row["from_client"] is None:
        return []
    began_ms = float(rebalance["began_ms"])
    ended_ms = min(max(began_ms, float(old_row["to_ms"])), float(row["from_ms"]))
    pulled = row.get("first_pull_ms")
    steps = [
        (NOTICED, ended_ms - began_ms, f"until the old owner ended: {old_row['ended']}"),
        (HANDED_OVER, float(row["from_ms"]) - ended_ms, "until the new owner had the lease"),
    ]
    if pulled is not None:
        steps.append((FIRST_PULL, max(0.0, float(pulled) - float(row["from_ms"])), "until the new owner pulled"))
    return [(name, max(0.0, elapsed), text) for name, elapsed, text in steps]


def advice(step: str, rebalance: dict[str, Any], row: dict[str, Any]) -> str:
    """Return the advice for a slow step."""
    triggers = set(str(rebalance["trigger"]).split("+"))
    if triggers <= {"TIMER", ""} and step != FIRST_PULL:
        return (
            "No notification reached the members, and their timers detected the change: look for lost connections and "
            "overload at the brokers (rlab doctor)."
        )
    if step == NOTICED:
        if rebalance["detail"] == "expiry":
            return (
                "Brokers detect a member that hangs when its session expires: lower session_timeout_s of the consumers."
            )
        if "ROUTE" in triggers:
            return "Members poll routes at an interval: lower route_poll_interval_s if topics grow often."
        return "The old owner's pass came late: look at the load of its process and machine."
    if step == HANDED_OVER:
        if rebalance["detail"] == "close":
            return "Brokers wait 300 ms for a member whose connection closed, in case it reconnects: that is by design."
        return "The old owner first finishes its dispatched messages: smaller batches or faster listeners help."
    return f"{row['owner']} began to pull late: look at the load of its process and of the broker."
