"""What counts as growing, and that every table is found without being named."""

from __future__ import annotations

import math
from collections import deque

import pytest

from broker.messages.parked import ParkedRequest, ParkedRequests
from model.message_queue import MessageQueue
from model.own_name import PREFIX
from remoting.command import Command
from testbed.simulation.checks.leaks import LeakDetector, Margin, object_counts, table_sizes


def levels(*values: float, warm_up: int = 1, margins: dict[str, Margin] | None = None) -> list[str]:
    made = LeakDetector(warm_up=warm_up, margins=margins)
    for value in values:
        made.add_sample({"tasks": value})
    return made.grown()


def test_what_only_warms_up_is_level() -> None:
    assert levels(3, 600, 610, 600, 612) == []


def test_what_goes_up_and_down_is_level() -> None:
    assert levels(3, 60, 50, 70, 55, 66, 52, 71, 60) == []


def test_a_second_half_well_above_the_first_has_grown_and_shows_every_value() -> None:
    assert levels(3, 61, 64, 80, 99) == ["tasks grows: 61 64 80 99"]


@pytest.mark.parametrize("step", [8, 12, 40])
def test_a_slow_leak_is_seen_once_there_are_enough_samples(step: int) -> None:
    assert levels(0, *(100 + step * n for n in range(10))) != []


def test_a_name_that_appears_late_counts_as_nothing_before() -> None:
    made = LeakDetector(warm_up=0)
    made.add_sample({"tasks": 1})
    made.add_sample({"tasks": 1, "leaked": 100})
    assert made.grown() == ["leaked grows: 0 100"]


def test_a_name_may_have_a_margin_of_its_own() -> None:
    assert levels(0, 10, 10, 1000, 1000, margins={"tasks": Margin(math.inf, 0)}) == []
    assert levels(0, 100, 100, 107, 107, margins={"tasks": Margin(1.05, 0)}) != []


def test_what_goes_up_in_steps_may_be_spared_the_trend() -> None:
    steps = (50, 50, 50, 50, 57, 57, 57, 57)
    assert levels(0, *steps) != []
    assert levels(0, *steps, margins={"tasks": Margin(1.2, 16, trend=False)}) == []


def test_one_sample_after_the_warm_up_cannot_report() -> None:
    with pytest.raises(ValueError, match="cannot show a growth"):
        levels(1, 2)


def test_tables_of_a_broker_are_counted_under_their_names() -> None:
    table = ParkedRequests[ParkedRequest[str]]()
    for n in range(3):
        table.park(ParkedRequest("peer", Command(0, 0, n, {}, None), (("t", n),), 1.0))
    assert table_sizes(table) == {
        "ParkedRequests._at": 1 + 3 + 3,
        "ParkedRequests._of": 1 + 3,
        "ParkedRequests._deadlines": 3,
        "ParkedRequests._of_sharer_at": 0,
        "Shares._of": 0,
        "Command.header": 0,
    }


class Node:
    """Stands for a class of ours: the walk goes by the module."""

    __slots__ = ("inner", "other", "tables")

    def __init__(self) -> None:
        self.tables = {"a": [1, 2], "b": deque([3])}
        self.inner: list[object] = []


Node.__module__ = f"{PREFIX}broker.nodes"


def test_tables_inside_of_tables_add_up_and_circles_end() -> None:
    root, child = Node(), Node()
    root.inner.append((child, root))
    assert table_sizes(root) == {"Node.tables": 2 * (2 + 3), "Node.inner": 1}


def test_named_tuples_of_ours_are_looked_into() -> None:
    root = Node()
    root.inner = [MessageQueue("t", "b", 0)]
    assert table_sizes(root)["Node.inner"] == 1


def test_objects_of_ours_are_counted_while_they_live() -> None:
    before = object_counts()["ParkedRequests"]
    kept = [ParkedRequests[ParkedRequest[str]](), ParkedRequests[ParkedRequest[str]]()]
    assert object_counts()["ParkedRequests"] == before + len(kept)
    assert object_counts()["dict"] == 0
