"""Pages that list what the code has, one row each, have all of it."""

from __future__ import annotations

import re

from broker.config import Part
from client.allocate.registry import BUILT_IN_STRATEGIES
from client.trigger import Trigger
from tests.docs.pages import table_of, text_of


def test_the_page_about_a_rebalance_has_every_trigger() -> None:
    rows = table_of("docs/one-rebalance.md", "What keeps a group right when something is lost")
    assert sorted(row["trigger"] for row in rows) == sorted(Trigger)


def test_the_page_about_strategies_has_every_built_in_one() -> None:
    rows = text_of("docs/strategies.md").split("<!-- table: names -->", 1)[1].split("\n\n", 1)[0]
    assert re.findall(r"^\| `(\w+)`", rows, re.MULTILINE) == list(BUILT_IN_STRATEGIES)
    for name in BUILT_IN_STRATEGIES:
        assert f"\n**{name}**" in text_of("docs/strategies.md")


def test_the_option_parts_names_every_feature_that_a_broker_can_be_without() -> None:
    (meaning,) = [
        row["meaning, and why this default"]
        for row in table_of("docs/configuration.md", "BrokerConfig")
        if row["option"] == "parts"
    ]
    assert all(part.value.lower() in meaning.lower() for part in Part)
