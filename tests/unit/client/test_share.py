"""Every kind of share has the shape that a consumer relies on; mypy compares the types."""

from __future__ import annotations

import inspect

import pytest

from client.pop_receiver import PopReceiver
from client.pop_share import PopShare
from client.queue_share import QueueShare
from client.share import Share
from client.unleased_share import UnleasedShare


@pytest.mark.parametrize("kind", [QueueShare, UnleasedShare, PopShare, PopReceiver])
def test_every_share_takes_what_a_consumer_gives_it(kind: type) -> None:
    for name in ("rebalance", "persist", "offsets_reset", "close"):
        wanted = list(inspect.signature(getattr(Share, name)).parameters)
        assert list(inspect.signature(getattr(kind, name)).parameters) == wanted
