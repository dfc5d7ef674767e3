"""Beginning: the first seconds of a name server, in which it does not know yet that a topic does not exist. Pure.

Its table is empty at the start, and clients may ask before brokers have registered. The answer "does not exist" is
definite, so it has to wait until all brokers have had time to register, except in a new cluster:

    started at 0.0, broker-a registers again at 0.2      knows_all(1.0) False    broker-b may still register
                                                         knows_all(5.0) True
    started at 0.0, broker-a registers as a newcomer     knows_all(0.3) True     no topic can be missing

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
