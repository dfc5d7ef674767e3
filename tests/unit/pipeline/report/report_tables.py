"""Trace tables of one small run, written as Parquet without Spark: what the tests of reports read."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from model.events import Event
from traces.figures.records import GroupTotals

QUEUE = {"group": "g<b>", "topic": "t", "broker": "b"}
T0 = 1_000_000.0
TOTALS = asdict(
    GroupTotals(
        group="",
        members_joined=2,
        members_left=1,
        members=1,
        rebalances=2,
        moves=3,
        needed=3,
        acquisitions=3,
        handed_out=112,
        redelivered=3,
        duplicates=2,
        possible_duplicates=4,
        pause_ms=300.04,
        orphan_ms=290.0,
        pause_max_ms=300.0,
        backlog_max=40,
    )
)


def write(directory: Path, *, group: str = "g<b>") -> Path:
    """c1 has queues 0 and 1; c2 joins after 5 s and gets queue 1 after a pause of 300 ms, with 2 messages twice."""
    place = QUEUE | {"group": group}
    tables: dict[str, list[dict[str, Any]]] = {
        "ownership": [
            _owned(place, 0, "c1/1", None, "ip@c1", 0, 9_000, ended="open", handed_out=70),
            _owned(place, 1, "c1/1", None, "ip@c1", 0, 5_100, handed_out=30),
            _owned(place, 1, "c2/1", "ip@c1", "ip@c2", 5_400, 9_000, ended="open", handed_out=12, pause_ms=300.0)
            | {"orphan_ms": 290.0, "backlog": 40, "redelivered": 3, "duplicates": 2, "possible_duplicates": 4},
        ],
        "rebalances": [
            _rebalance(group, "c1/1", "CLIENT_START", "ip@c1", 0, 40, 2),
            _rebalance(
                group,
                "c2/1",
                "MEMBER_JOIN",
                "ip@c2",
                5_000,
                5_400,
                1,
                pause_ms=300.0,
                duplicates=2,
                backlog=40,
                possible_duplicates=4,
            ),
            _rebalance(group, "c2/9", "REBALANCE_BEGIN", "ip@c2", 6_000, 6_000, 0),
        ],
        "fairness": [
            {"group": group, "cause": cause, "topic": "t", "t_ms": T0 + t_ms, "members": members, "queues": 2}
            | {"needed": 1, "jain": 1.0, "spread": 0}
            for cause, t_ms, members in (("c1/1", 40, 1), ("c2/1", 5_400, 2))
        ],
        "delivery": [
            {"group": group, "topic": topic, "t_ms": T0 + t_ms, "handed_out": n, "lag": lag}
            | {"latency_ms": 4.0 if n else None, "latency_max_ms": 9.0 if n else None}
            for topic, t_ms, n, lag in (("t", 0, 100, 7), ("u", 0, 0, 5), ("t", 5_000, 12, 40))
        ],
        "totals": [{**TOTALS, "group": group}],
        "losses": [
            _loss("MESSAGES_DAMAGED", "", 1, 50, 20, "0.log"),
            _loss("MESSAGES_DAMAGED", "", 1, 60, 15, "0.log"),
            _loss("MESSAGES_DAMAGED", "", 0, 7, 1, "9.log"),
            _loss("OFFSET_MOVED", group, 1, 75, 25, "damaged"),
            _loss("OFFSET_MOVED", group, 0, 8, 1, "damaged"),
            _loss("OFFSET_MOVED", group, 0, 5, 5, "deleted"),
            _loss("OFFSET_MOVED", "other", 0, 8, 1, "damaged"),
        ],
        "transactions": [
            {"group": "shop<b>", "half": 9, "committed": 5, "rolled_back": 2, "checks": 4, "given_up": 1},
            {"group": "bank", "half": 1, "committed": 1, "rolled_back": 0, "checks": 0, "given_up": 0},
        ],
        "events": _fault(group),
        "nodes": [_node("b", 0), _node("ip@c1", 4)],
    }
    for name, rows in tables.items():
        (directory / name).mkdir(parents=True)
        pd.DataFrame(rows).to_parquet(directory / name / "part.parquet")
    return directory


def _node(node: str, lost: int) -> dict[str, Any]:
    return {"node": node, "events": 10, "first_ms": T0, "last_ms": T0 + 9_000, "lost": lost}


def _fault(group: str) -> list[dict[str, Any]]:
    fault: dict[str, Any] = {"broker": "b", "client": "<c1>", "detail": "cut client=<c1>"}
    events = [
        Event(T0 + 1_500, "b", 7, "FAULT_BEGAN", "", group, **fault),
        Event(T0 + 2_000, "b", 8, "REBALANCE_BEGIN", "c1/1", group),
        Event(T0 + 2_500, "b", 9, "FAULT_HEALED", "b/7", group, **fault),
    ]
    return [event._asdict() for event in events]


def _loss(kind: str, group: str, queue_id: int, offset: int, n: int, detail: str) -> dict[str, Any]:
    where = QUEUE | {"group": group, "queue_id": queue_id}
    return where | {"kind": kind, "offset": offset, "n": n, "detail": detail}


def _owned(
    place: dict[str, str], queue_id: int, cause: str, old: str | None, owner: str, *times_ms: float, **more: Any
) -> dict[str, Any]:
    none = {"orphan_ms": 0.0, "pause_ms": 0.0, "double_ms": 0.0, "backlog": None, "ended": "revoked"}
    none |= {"first_pull_ms": None if old is None else T0 + times_ms[0] + 10}
    none |= {"redelivered": 0, "duplicates": 0, "possible_duplicates": 0, "start_offset": 1_200}
    who = {"queue_id": queue_id, "cause": cause, "from_client": old, "owner": owner, "began": "acquired", "moved": True}
    from_ms, to_ms = times_ms
    return place | none | who | {"from_ms": T0 + from_ms, "to_ms": T0 + to_ms} | more


def _rebalance(
    group: str, cause: str, kind: str, client: str, began_ms: float, ended_ms: float, moves: int, **costs: float
) -> dict[str, Any]:
    none = {
        "pause_ms": 0.0,
        "duplicates": 0,
        "possible_duplicates": 0,
        "backlog": 0,
        "pause_max_ms": 0.0,
        "members": 2,
        "detail": "",
        "broker": "",
    }
    times = {"began_ms": T0 + began_ms, "ended_ms": T0 + ended_ms, "balance_ms": ended_ms - began_ms}
    what = {"group": group, "cause": cause, "kind": kind, "client": client, "trigger": "LOCK+NOTIFY"}
    return none | times | what | {"moves": moves, "needed": moves} | costs
