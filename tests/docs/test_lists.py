"""Pages that list what the code has, one row each, have all of it."""

from __future__ import annotations

import re

import pytest

from broker.config import Part
from client.allocate.registry import BUILT_IN_STRATEGIES
from client.trigger import Trigger
from tests.docs.pages import table_of, text_of
from tests.unit.client.allocate.strategy_classes import strategy_classes

pytestmark = pytest.mark.walk


def test_the_page_about_a_rebalance_has_every_trigger() -> None:
    rows = table_of("docs/one-rebalance.md", "What keeps a group right when something is lost")
    assert sorted(row["trigger"] for row in rows) == sorted(Trigger)


@pytest.mark.parametrize("trigger", Trigger)
def test_a_simulation_shows_of_every_trigger_that_it_is_enough_alone(trigger: Trigger) -> None:
    assert f"\ndef test_{trigger.lower()}_alone_" in text_of("tests/simulation/test_triggers.py")


def test_the_page_about_strategies_has_every_built_in_one() -> None:
    rows = text_of("docs/strategies.md").split("<!-- table: names -->", 1)[1].split("\n\n", 1)[0]
    assert re.findall(r"^\| `(\w+)`", rows, re.MULTILINE) == list(BUILT_IN_STRATEGIES)
    for name in BUILT_IN_STRATEGIES:
        assert f"\n**{name}**" in text_of("docs/strategies.md")


@pytest.mark.parametrize("table", ["moves", "topics"])
def test_each_built_in_strategy_is_in_the_tables_of_measurements(table: str) -> None:
    rows = text_of("docs/strategies.md").split(f"<!-- table: {table} -->", 1)[1].split("\n\n", 1)[0]
    measured = re.findall(r"^\| `([\w-]+)`", rows, re.MULTILINE)
    assert measured[: len(BUILT_IN_STRATEGIES)] == list(BUILT_IN_STRATEGIES), (
        "python examples/pages/strategies_table.py docs"
    )


def test_each_strategy_is_built_in_or_in_the_table_of_those_that_need_arguments() -> None:
    rows = text_of("docs/strategies.md").split("\nThese need arguments", 1)[1].split("\n\n")[1]
    with_arguments = re.findall(r"^\| `[^`]+` \| `(\w+)\(", rows, re.MULTILINE)
    built_in = [type(each.make()).__name__ for each in BUILT_IN_STRATEGIES.values()]
    assert sorted(built_in + with_arguments) == sorted(kind.__name__ for kind in strategy_classes())


def test_the_option_parts_names_every_feature_that_a_broker_can_be_without() -> None:
    (meaning,) = [
        row["meaning, and why this default"]
        for row in table_of("docs/configuration.md", "BrokerConfig")
        if row["option"] == "parts"
    ]
    assert all(part.value.lower() in meaning.lower() for part in Part)
