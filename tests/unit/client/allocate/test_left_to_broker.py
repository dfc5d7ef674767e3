"""It has a name and the shape of a strategy for all topics, and never gives a share."""

from __future__ import annotations

import pytest

from client.allocate import GroupWideStrategy
from client.allocate.left_to_broker import LeftToBroker
from model.assignment import BROKER_STRATEGY


def test_it_is_told_in_heartbeats_and_asked_by_nobody() -> None:
    strategy = LeftToBroker()
    assert strategy.name == BROKER_STRATEGY
    assert isinstance(strategy, GroupWideStrategy)
    with pytest.raises(AssertionError, match="by a broker"):
        strategy.allocate("g", "c", [], ["c"])
    with pytest.raises(AssertionError, match="by a broker"):
        strategy.allocate_group("g", "c", {}, {"c": ["t"]})
