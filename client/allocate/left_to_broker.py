"""BROKER: strategy of a member whose queues a broker assigns (`client/rebalance/broker_assigned_queues.py`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from model.assignment import BROKER_STRATEGY
from model.message_queue import MessageQueue


class LeftToBroker:
    """Stands where a strategy stands, so that heartbeats tell who decides; asked for a share, it has none to give."""

    name = BROKER_STRATEGY

    def allocate(
        self, consumer_group: str, current_cid: str, mq_all: Sequence[MessageQueue], cid_all: Sequence[str]
    ) -> list[MessageQueue]:
        """Never called: see the class."""
        raise AssertionError(f"the queues of group {consumer_group!r} are shared out by a broker")

    def allocate_group(
        self,
        consumer_group: str,
        current_cid: str,
        queues_of: Mapping[str, Sequence[MessageQueue]],
        topics_of: Mapping[str, Collection[str]],
    ) -> list[MessageQueue]:
        """Never called. It makes this a `GroupWideStrategy`: whoever asks the broker tells it about all topics."""
        raise AssertionError(f"the queues of group {consumer_group!r} are shared out by a broker")
