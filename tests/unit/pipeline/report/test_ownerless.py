from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli.main import app
from model.event_log import encode_events
from model.events import Event, EventKind
from pipeline.report import charts
from pipeline.report.ownerless import find_ownerless

QUEUE: dict[str, Any] = {"topic": "orders", "broker": "b", "queue_id": 3}


def reported(t_ms: float, seq: int, kind: EventKind, group: str = "pops", **more: Any) -> Event:
    return Event(t_ms, "b", seq, kind.value, f"b/{seq}", group, **more)


TRACE = [
    reported(1_000, 1, EventKind.MEMBER_JOIN, broker="b", client="h@c1", detail="orders=*"),
    reported(2_000, 2, EventKind.MEMBER_JOIN, broker="b", client="h@c2", detail="orders=*"),
    reported(3_000, 3, EventKind.MESSAGES_REDELIVERED, client="h@c2", n=5, **QUEUE),
    reported(3_500, 4, EventKind.MESSAGES_REDELIVERED, client="h@c2", n=2, **QUEUE),
    reported(4_000, 5, EventKind.MEMBER_LEAVE, broker="b", client="h@c1", detail="close"),
    reported(5_000, 6, EventKind.DEAD_LETTER, n=1, **QUEUE),
    reported(5_500, 7, EventKind.CLIENT_START, group="producers", client="h@p"),
]


def test_a_group_that_pops_has_its_members_and_what_came_again_and_a_producer_group_is_none() -> None:
    [group] = find_ownerless(reversed(TRACE), frozenset(), 1_000)
    assert (group.group, group.surely_pops) == ("pops", True)
    assert (group.members_joined, group.members_left, group.members) == (2, 1, 1)
    assert (group.redelivered, group.dead_letters) == (7, 1)
    assert group.queues == [{**QUEUE, "client": "h@c2", "redelivered": 7, "batches": 2}]
    assert [(row["t_ms"], row["members"]) for row in group.members_over_time] == [(0, 1), (1_000, 2), (3_000, 1)]
    assert find_ownerless(TRACE, frozenset({"pops"}), 1_000) == []


@pytest.mark.parametrize("options", [(), ("--group", "pops")])
def test_the_report_of_a_group_that_pops_has_what_there_is_and_names_what_there_is_not(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    trace, out = tmp_path / "trace.jsonl", tmp_path / "out"
    trace.write_bytes(encode_events(TRACE))
    done = CliRunner().invoke(app, ["report", str(trace), "--out", str(out), *options])
    assert done.exit_code == 0, done.output
    for words in (
        "group pops: The group pops: members that pop share the messages",
        "there are no figures of owners",
        "2 members joined and 1 left; 1 at the end. Redelivered, because not acknowledged in time: 7 messages.",
        "Sent to the dead-letter queue: 1 message.",
        "orders@b:3: 7 messages redelivered, to c2",
    ):
        assert words in done.stdout
    assert "no member of a group owned a queue" not in done.stdout
    page = (out / "index.html").read_text()
    assert "Group pops" in page
    assert "Redelivered messages" in page
    assert "No member of any group had a queue" not in page
    end_ms = 4_000.0 if options else 4_500.0  # the producer is of another group
    until_the_end = [("lag", [(0.0, 1.0), (1_000.0, 2.0), (3_000.0, 1.0), (end_ms, 1.0)])]
    assert charts.lines(until_the_end, [], end_ms, "members", charts.WIDE, steps=True) in page
    as_json = CliRunner().invoke(app, ["report", str(trace), "--out", str(out), "--json", *options])
    [group] = json.loads(as_json.stdout)["ownerless"]
    assert (group["group"], group["redelivered"]) == ("pops", 7)
