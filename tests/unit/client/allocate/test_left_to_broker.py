"""It has a name and the shape of a strategy for all topics, and never gives a share."""

from __future__ import annotations

import pytest

from client.allocate.left_to_broker import LeftToBroker
from client.allocate.strategy import is_group_wide
from model.assignment import BROKER_STRATEGY


def test_it_is_told_in_heartbeats_and_asked_by_nobody() -> None:
    strategy = LeftToBroker()
    assert strategy.name == BROKER_STRATEGY
    assert is_group_wide(strategy)
    with pytest.raises(AssertionError, match="by a broker"):
        strategy.allocate("g", "c", [], ["c"])
    with pytest.raises(AssertionError, match="by a broker"):
        strategy.allocate_group("g", "c", {}, {"c": ["t"]})
