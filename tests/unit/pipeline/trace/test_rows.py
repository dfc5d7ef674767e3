from __future__ import annotations

from model.events import Event, EventKind
from pipeline.arrow_arrays import table
from pipeline.trace.rows import SCHEMAS, compute_rows


def events(group: str, client: str) -> tuple[str, list[Event]]:
    def event(t_ms: float, seq: int, kind: EventKind, queue_id: int, version: int, offset: int) -> Event:
        place = (group, "t", "b", queue_id)
        return Event(t_ms, client, seq, kind.value, f"{client}/1", *place, client, version, offset)

    reported = [
        event(1_000, 1, EventKind.CLIENT_START, -1, -1, -1),
        event(1_005, 2, EventKind.QUEUE_ACQUIRED, 0, 7, 0),
        event(1_008, 3, EventKind.FIRST_PULL, 0, 7, 0),
    ]
    return group, reported


def test_each_group_has_its_rows_and_its_totals_and_what_is_open_ends_with_the_trace() -> None:
    rows = list(compute_rows([events("g", "c1"), events("h", "c2")], 1_000.0, 2_000.0))
    found = {name: table([row for of, row in rows if of == name], schema) for name, schema in SCHEMAS.items()}
    owned, totals = found["ownership"].to_pylist(), found["totals"].to_pylist()
    assert [(row["group"], row["owner"], row["to_ms"], row["ended"]) for row in owned] == [
        ("g", "c1", 2_000.0, "open"),
        ("h", "c2", 2_000.0, "open"),
    ]
    assert [(row["group"], row["moves"]) for row in totals] == [("g", 1), ("h", 1)]


def test_every_row_has_the_columns_of_its_table() -> None:
    group, reported = events("g", "c1")
    reported.append(
        reported[-1]._replace(seq=4, kind=EventKind.MESSAGES_HANDED_OUT.value, n=3, detail="waited_ms=2.0 max_ms=4")
    )
    rows = list(compute_rows([(group, reported)], 1_000.0, 2_000.0))
    assert {name for name, _ in rows} == set(SCHEMAS)
    for name, row in rows:
        assert len(row) == len(SCHEMAS[name]), name
        assert row[SCHEMAS[name].get_field_index("group")] == "g", name


def test_a_group_of_which_only_commits_are_reported_has_deliveries_and_no_totals() -> None:
    commit = events("g", "c1")[1][0]._replace(kind=EventKind.OFFSET_COMMITTED.value, queue_id=0, n=7)
    without_group = commit._replace(group="", kind=EventKind.BROKER_UP.value, queue_id=-1)
    [(name, row)] = compute_rows([("g", [without_group, commit])], 1_000.0, 2_000.0)
    assert (name, row[-1]) == ("delivery", 7)
