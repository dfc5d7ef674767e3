"""The figures of the trace tables once more, by the plainest Python that tells them: slow, and without Spark.

Each function goes over whole lists again and again, on purpose: what is clever in `pipeline/trace/` is not here.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

from model.events import Event

Row = dict[str, Any]
QUEUE = ("group", "topic", "broker", "queue_id")


def queue_of(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in QUEUE)


def ownership(events: Sequence[Event], end_ms: float) -> list[Row]:
    rows: list[Row] = []
    claims = {(*_queue(event), event.client) for event in events if event.queue_id >= 0 and event.topic[:1] != "%"}
    for claim in sorted(claims):
        mine = [event for event in events if (*_queue(event), event.client) == claim]
        mine.sort(key=lambda event: (event.t_ms, event.node == event.client, event.seq))
        grants = {event.version: event.n for event in reversed(mine) if event.kind == "LOCK_GRANTED" and event.n >= 0}
        rows += _intervals(mine, end_ms, grants)
    return rows


def _queue(event: Event) -> tuple[Any, ...]:
    return (event.group, event.topic, event.broker, event.queue_id)


def _intervals(mine: list[Event], end_ms: float, grants: dict[int, int]) -> list[Row]:
    rows: list[Row] = []
    claimed = leased = False
    token: int | None = None
    for event in mine:
        before = claimed and leased
        match event.kind:
            case "QUEUE_ACQUIRED":
                claimed, leased, token = True, True, event.version
            case "LOCK_GRANTED":
                leased, token = True, event.version
            case "LOCK_EXPIRED" if event.version == token:
                leased = False
            case "QUEUE_DROPPED":
                claimed = False
        if claimed and leased and not before:
            rows.append(_begun(event, end_ms, grants))
        elif before and not (claimed and leased):
            rows[-1] |= {
                "to_ms": event.t_ms,
                "ended": "expired" if event.kind == "LOCK_EXPIRED" and event.detail != "reset" else event.detail,
                "end_cause": event.cause,
            }
        if rows and event.kind == "FIRST_PULL" and rows[-1]["first_pull_ms"] is None:
            rows[-1]["first_pull_ms"] = event.t_ms
        if rows and event.kind == "FIRST_MESSAGE" and rows[-1]["first_message_ms"] is None:
            rows[-1]["first_message_ms"] = event.t_ms
        if rows and event.kind == "MESSAGES_HANDED_OUT":
            rows[-1]["handed_out"] += event.n
            rows[-1]["reach"] = max(rows[-1]["reach"], event.offset)
    return rows


def _begun(event: Event, end_ms: float, grants: dict[int, int]) -> Row:
    return {
        **dict(zip(QUEUE, _queue(event), strict=True)),
        "owner": event.client,
        "token": event.version,
        "from_ms": event.t_ms,
        "to_ms": end_ms,
        "began": "acquired" if event.kind == "QUEUE_ACQUIRED" else "resumed",
        "ended": "open",
        "cause": event.cause,
        "end_cause": "",
        "start_offset": event.offset,
        "backlog": grants.get(event.version),
        "first_pull_ms": None,
        "first_message_ms": None,
        "handed_out": 0,
        "reach": event.offset,
    }


def hazards(owned: Sequence[Row], events: Sequence[Event]) -> list[Row]:
    rows: list[Row] = []
    for queue in sorted({queue_of(row) for row in owned}):
        intervals = [row for row in owned if queue_of(row) == queue]
        intervals.sort(key=lambda row: (row["token"], row["from_ms"], row["owner"]))
        for number, row in enumerate(intervals):
            resets = [e.version for e in events if e.kind == "OFFSET_RESET" and _queue(e) == queue]
            rows.append(_hazard(row, intervals[:number], [token for token in resets if token < row["token"]]))
    return rows


def _hazard(row: Row, before: list[Row], resets: list[int]) -> Row:
    acquirers = [each["owner"] for each in before if each["began"] == "acquired"]
    last_end = max((each["to_ms"] for each in before), default=None)
    pulled = row["from_ms"] if row["first_pull_ms"] is None else row["first_pull_ms"]
    since_reset = [each for each in before if each["token"] > max(resets, default=-1)]
    mark = max((each["reach"] for each in since_reset), default=row["start_offset"])
    if row["began"] == "resumed":
        mark = row["start_offset"]
    times = sorted({row["from_ms"], row["to_ms"], *(each["to_ms"] for each in before)})
    return {
        **{name: row[name] for name in (*QUEUE, "cause", "from_ms", "began", "start_offset", "backlog")},
        "from_client": acquirers[-1] if acquirers else None,
        "to_client": row["owner"],
        "moved": row["began"] == "acquired" and acquirers[-1:] != [row["owner"]],
        "orphan_ms": 0.0 if last_end is None else max(0.0, row["from_ms"] - last_end),
        "pause_ms": 0.0 if last_end is None else max(0.0, pulled - last_end),
        "double_ms": sum(
            later - earlier
            for earlier, later in itertools.pairwise(times)
            if earlier >= row["from_ms"]
            and later <= row["to_ms"]
            and sum(each["to_ms"] > earlier for each in before) == 1
        ),
        "redelivered": max(0, mark - row["start_offset"]),
        "duplicates": max(0, min(mark, row["reach"]) - row["start_offset"]),
    }


def rebalances(events: Sequence[Event], costs: Sequence[Row], fair: Sequence[Row] = ()) -> list[Row]:
    roots = {event.cause: event for event in sorted(events, key=_at, reverse=True) if event.id == event.cause}
    rows = []
    for group, cause in sorted({(event.group, event.cause) for event in events if event.group}):
        of_cause = sorted((event for event in events if (event.group, event.cause) == (group, cause)), key=_at)
        passes = [event for event in of_cause if event.kind == "REBALANCE_END"]
        begun = [event for event in of_cause if event.kind == "REBALANCE_BEGIN"]
        changes = [
            event
            for event in of_cause
            if event.kind in ("QUEUE_ACQUIRED", "QUEUE_DROPPED") and not event.topic.startswith("%")
        ]
        seen = [event for event in of_cause if event.kind in ("MEMBER_JOIN", "MEMBER_LEAVE")]
        what = seen[0] if seen else roots.get(cause)
        if (not passes and not changes) or (not changes and (what is None or what.kind == "REBALANCE_BEGIN")):
            continue
        mine = [row for row in costs if (row["group"], row["cause"]) == (group, cause)]
        counted = [event for event in of_cause if event in seen or event in passes or event in begun]
        counted += [event for event in of_cause if event.kind in ("QUEUE_ACQUIRED", "QUEUE_DROPPED")]
        began_ms = roots[cause].t_ms if cause in roots else min(event.t_ms for event in counted)
        last = changes or passes
        ended_ms = max(began_ms, *(event.t_ms for event in last))
        rows.append(
            {
                "group": group,
                "cause": cause,
                **{name: getattr(what, name) if what else "" for name in ("kind", "detail", "client", "broker")},
                "trigger": "+".join(sorted({part for e in begun for part in e.detail.split(" ")[0].split("+")})),
                "members": seen[-1].n if seen else -1,
                "began_ms": began_ms,
                "ended_ms": ended_ms,
                "convergence_ms": ended_ms - began_ms,
                "passes": len(passes),
                "moves": sum(row["moved"] for row in mine),
                **{
                    name: sum(row[name] or 0 for row in mine)
                    for name in ("pause_ms", "orphan_ms", "double_ms", "redelivered", "duplicates", "backlog")
                },
                "pause_max_ms": max((row["pause_ms"] for row in mine), default=0.0),
                "min_moves": sum(r["min_moves"] for r in fair if (r["group"], r["cause"]) == (group, cause)),
            }
        )
    return rows


def _at(event: Event) -> tuple[float, str, int]:
    return (event.t_ms, event.node, event.seq)


def fairness(owned: Sequence[Row], found: Iterable[Row], end_ms: float) -> list[Row]:
    rows = []
    for rebalance in found:
        if not rebalance["moves"]:
            continue
        mine = [row for row in owned if row["group"] == rebalance["group"]]
        began_ms, ended_ms = rebalance["began_ms"], rebalance["ended_ms"]
        leaver = rebalance["client"] if rebalance["kind"] in ("MEMBER_LEAVE", "CLIENT_STOP") else ""
        for topic in sorted({row["topic"] for row in mine}):
            of_topic = [row for row in mine if row["topic"] == topic]
            owners = {row["owner"] for row in of_topic}
            before = [_load(of_topic, owner, began_ms, at_end=False) for owner in owners - {leaver}]
            now = [load for owner in owners if (load := _load(of_topic, owner, ended_ms, at_end=True)) > 0]
            if not now:
                continue
            members = max(rebalance["members"], len(now))
            everybody = now + [0] * (members - len(now))
            rows.append(
                {
                    "group": rebalance["group"],
                    "cause": rebalance["cause"],
                    "topic": topic,
                    "t_ms": ended_ms,
                    "members": members,
                    "queues": sum(now),
                    "min_moves": least_moves([load for load in before if load], sum(now), members),
                    "jain": sum(now) ** 2 / (members * sum(load * load for load in now)),
                    "spread": max(everybody) - min(everybody),
                }
            )
    return rows


def _load(rows: Sequence[Row], owner: str, at_ms: float, *, at_end: bool) -> int:
    def counts(t_ms: float) -> bool:
        return t_ms <= at_ms if at_end else t_ms < at_ms

    mine = [row for row in rows if row["owner"] == owner]
    gained = sum(counts(row["from_ms"]) for row in mine)
    return gained - sum(counts(row["to_ms"]) for row in mine if row["ended"] != "open")


def least_moves(stayers: Sequence[int], queues: int, members: int) -> int:
    """By trying every choice of who stays and of who has one queue more."""
    share, larger = divmod(queues, members)
    loads = [*stayers, *[0] * max(0, members - len(stayers))]
    best = 0
    for sharing in itertools.combinations(range(len(loads)), members):
        for more in itertools.combinations(sharing, larger):
            best = max(best, sum(min(loads[n], share + (n in more)) for n in sharing))
    return max(0, queues - best)


def delivery(events: Sequence[Event], start_ms: float, bucket_ms: float) -> list[Row]:
    found: dict[tuple[str, str, int], list[Event]] = {}
    waiting = [event for event in events if event.kind in ("OFFSET_COMMITTED", "LOCK_GRANTED") and event.n >= 0]
    given = [event for event in events if event.kind == "MESSAGES_HANDED_OUT"]
    for event in waiting + given:
        if event.queue_id >= 0 and not event.topic.startswith("%"):
            key = (event.group, event.topic, math.floor((event.t_ms - start_ms) / bucket_ms))
            found.setdefault(key, []).append(event)
    rows = []
    for (group, topic, bucket), inside in sorted(found.items()):
        handed = [event for event in inside if event.kind == "MESSAGES_HANDED_OUT"]
        n = sum(event.n for event in handed)
        known = [e for e in waiting if (e.group, e.topic) == (group, topic)]
        known = [e for e in known if math.floor((e.t_ms - start_ms) / bucket_ms) <= bucket]
        lags = {_queue(event): event.n for event in sorted(known, key=lambda e: (e.t_ms, e.seq))}
        times = [[float(part.split("=")[1]) for part in event.detail.split()] for event in handed]
        rows.append(
            {
                "group": group,
                "topic": topic,
                "t_ms": start_ms + bucket * bucket_ms,
                "handed_out": n,
                "latency_ms": sum(e.n * mean for e, (mean, _) in zip(handed, times, strict=True)) / n if n else None,
                "latency_max_ms": max((longest for _, longest in times), default=None),
                "lag": sum(lags.values()),
            }
        )
    return rows
