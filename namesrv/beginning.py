"""Beginning: decides when a name server that has just started knows all topics. Pure.

Its table is empty at the start, and clients may ask for a route before the brokers have registered. The answer that a
topic does not exist is definite, so it is given only after all brokers have had time to register; in a new cluster, at
once:

    started at 0.0, broker-a registers again at 0.2      is_complete(1.0) False    broker-b may still register
                                                         is_complete(5.0) True
    started at 0.0, broker-a registers as a newcomer     is_complete(0.3) True     no topic can be missing

A newcomer is a broker in the first run of its data directory, at its first registration. RocketMQ's name server answers
from its empty table at once, or with `needWaitForService` refuses every request for a route for its first 45 s.
"""

from __future__ import annotations

from model.limits import NAME_SERVER_STARTING_S
from namesrv.registration import BrokerKey


class Beginning:
    """See the module header; times are loop times in seconds."""

    def __init__(self, started: float) -> None:
        self._until = started + NAME_SERVER_STARTING_S
        self._new_brokers: dict[BrokerKey, None] = {}  # empty after the beginning
        self._returned = False  # whether a broker that is not new has registered

    def registered(self, key: BrokerKey, *, newcomer: bool, now: float) -> None:
        """Record a registration; a newcomer that registers again, because its topics changed, is still a newcomer."""
        if now >= self._until:
            self._new_brokers.clear()
        elif newcomer:
            self._new_brokers[key] = None
        elif key not in self._new_brokers:
            self._returned = True

    def is_complete(self, now: float) -> bool:
        """Whether a topic that no broker has registered does not exist."""
        return now >= self._until or (bool(self._new_brokers) and not self._returned)
