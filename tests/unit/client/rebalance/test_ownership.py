"""Every kind of share has the shape that a consumer relies on; mypy compares the types."""

from __future__ import annotations

import inspect

import pytest

from client.pop.consumption import PopConsumption
from client.pop.receiver import PopReceiver
from client.rebalance.leased_queues import LeasedQueues
from client.rebalance.ownership import QueueOwnership
from client.rebalance.unleased_queues import UnleasedQueues


@pytest.mark.parametrize("kind", [LeasedQueues, UnleasedQueues, PopConsumption, PopReceiver])
def test_every_share_takes_what_a_consumer_gives_it(kind: type) -> None:
    for name in ("rebalance", "persist", "offsets_reset", "close"):
        wanted = list(inspect.signature(getattr(QueueOwnership, name)).parameters)
        assert list(inspect.signature(getattr(kind, name)).parameters) == wanted
