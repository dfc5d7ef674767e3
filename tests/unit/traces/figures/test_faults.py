from __future__ import annotations

import pytest

from model.events import Event, EventKind
from traces.figures import faults as module
from traces.figures.faults import FaultHistory, describe_fault

BEGAN, DONE, HEALED = EventKind.FAULT_BEGAN, EventKind.FAULT_DONE, EventKind.FAULT_HEALED


def reported(kind: str, seq: int, broker: str = "a", cause: str = "", client: str = "", n: int = -1) -> Event:
    return Event(seq * 1_000.0, broker, seq, kind, cause, broker=broker, client=client, n=n, detail="drop n=2")


def process(kind: str, t_ms: float, detail: str, seq: int, cause: str = "") -> Event:
    return Event(t_ms, "b", seq, kind, cause, broker="a", detail=detail)


def lines(*events: Event) -> list[str]:
    faults = FaultHistory()
    for event in events:
        faults.feed(event)
    return [describe_fault(row, 0.0) for row in faults.rows]


def test_what_two_brokers_report_of_one_fault_is_one_row_that_is_over_with_the_last_of_them() -> None:
    events = [
        reported(BEGAN, 1),
        reported(BEGAN, 2, "b", "a/1"),
        reported(DONE, 3, cause="a/1", client="c1", n=2),
        reported(DONE, 4, "b", "b/2", client="c2", n=1),
        reported(HEALED, 5, cause="a/1", n=2),
    ]
    assert lines(*events) == ["drop n=2, at a, b, from 1.0 s to the end, done 3 times to c1, c2"]
    assert lines(*events, reported(HEALED, 6, "b", "b/2", n=1))[0].startswith(
        "drop n=2, at a, b, from 1.0 s to 6.0 s, "
    )


def test_a_process_that_is_killed_takes_its_faults_along_and_is_over_when_it_starts() -> None:
    assert lines(
        reported(BEGAN, 1),
        process(BEGAN, 2_000, "kill a", 7),
        process(HEALED, 3_000, "start a", 8, "b/7"),
        process(BEGAN, 4_000, "pause a", 9),
    ) == [
        "drop n=2, at a, from 1.0 s to 2.0 s",
        "kill a, at a, from 2.0 s to 3.0 s",
        "pause a, at a, from 4.0 s to the end",
    ]


def test_what_began_before_the_trace_is_left_out() -> None:
    assert lines(reported(DONE, 3, cause="a/1", n=2), reported(HEALED, 5, cause="a/1")) == []


def test_more_faults_than_anyone_reads_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ROWS", 2)
    faults = FaultHistory()
    for seq in (1, 2, 3):
        faults.feed(reported(BEGAN, seq))
    assert ([row.cause for row in faults.rows], faults.omitted) == (["a/1", "a/2"], 1)
    faults.feed(reported(HEALED, 4, cause="a/3"))
