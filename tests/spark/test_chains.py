"""Causal chains as rows are those that a loop over the events finds, and the program of docs/reports.md runs."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from model.event_log import encode_events
from model.events import Event
from pipeline.trace.chains import add_ids, chains
from pipeline.trace.source import read_files, trace_events
from tests.docs.pages import text_of

pytestmark = pytest.mark.spark

EVENTS = [
    Event(50.0, "b", 1, "GROUP_CHANGED", "", "g"),
    Event(109.0, "c2", 4, "QUEUE_ACQUIRED", "c1/7", "g", queue_id=1),
    Event(104.0, "c2", 3, "REBALANCE_BEGIN", "c1/7", "g"),
    Event(100.5, "c1", 7, "MEMBER_JOIN", "", "g"),
    Event(99.0, "c3", 1, "REBALANCE_BEGIN", "c1/7", "g"),  # its clock is behind, and the root is still the first
    Event(109.0, "c2", 5, "QUEUE_ACQUIRED", "c1/7", "g", queue_id=2),
    Event(300.0, "c2", 6, "REBALANCE_BEGIN", "gone/1", "g"),
    Event(301.0, "c3", 2, "REBALANCE_BEGIN", "gone/1", "g"),
]
"""An event alone, a chain of five events in another order, and one whose root is missing."""


def naive(events: list[Event]) -> dict[str, tuple[Any, ...]]:
    """By id: chain, step, steps, kind of the root, time since it."""
    of: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        of[event.cause or event.id].append(event)
    found: dict[str, tuple[Any, ...]] = {}
    for chain, members in of.items():
        root = next((each for each in members if each.id == chain), None)
        ordered = sorted(members, key=lambda each: (each is not root, each.t_ms, each.node, each.seq))
        for step, each in enumerate(ordered):
            since = (root.kind, each.t_ms - root.t_ms) if root is not None else (None, None)
            found[each.id] = (chain, step, len(members), *since)
    return found


def test_a_chain_is_its_root_and_every_event_that_names_it(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_bytes(encode_events(EVENTS))
    rows = chains(add_ids(trace_events(read_files(spark, [path]))))
    columns = ("id", "chain", "step", "steps", "root_kind", "after_ms")
    found = {row[0]: tuple(row)[1:] for row in rows.select(*columns).collect()}
    assert found == naive(EVENTS)
    assert found["c2/5"] == ("c1/7", 4, 5, "MEMBER_JOIN", 8.5)
    assert found["c3/2"] == ("gone/1", 1, 2, None, None)


def test_the_program_of_the_page_runs(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_bytes(encode_events(EVENTS))
    section = text_of("docs/reports.md").split("\n## The events as a DataFrame\n")[1].split("\n## ")[0]
    code = section.split("```python\n")[1].split("```")[0]
    assert '"trace.jsonl"' in code
    names: dict[str, Any] = {"spark": spark}
    exec(code.replace('"trace.jsonl"', repr(str(path))), names)
    kinds = names["joined"].set_index("id")["kind_of_cause"]
    assert (kinds["c2/4"], kinds["c2/3"]) == ("MEMBER_JOIN", "MEMBER_JOIN")
