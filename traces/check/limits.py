"""The bounds of a history check: what is normal, declared beforehand. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Keeps(StrEnum):
    """What a group keeps in order."""

    NOTHING = "none"
    QUEUES = "queue"
    KEYS = "key"


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryLimits:
    """What a history may have; times are in milliseconds.

    Attributes:
        complete: every event of every node is there, as in a simulation. Else the last events of a node that was killed
            may be missing, and what rests on them is in doubt.
        drained: the history goes on until the groups had nothing left to consume, so a message that was not processed
            by its end is lost.
        double_owner_ms: how long a queue may have two owners: clocks of two machines differ.
        orphan_ms: how long it may have none. A lost notification takes 20 s, and a handover up to 10 s more.
        notify_ms: from a change of a group to its notification. Brokers hold it for up to 10 s while a group is new.
        stale_ms: how long a member may go on with an old member list; its timer gets a new one every 20 s.
        explained_ms: how old the change may be that explains a move which no pass names as its cause.
        flap_moves, flap_ms: a queue flaps if it moves so often within that time between members that stayed.
        thundering_passes: passes for nothing within a minute, of one group, beyond what its changes explain.
        order: group -> what it keeps in order. Only a ledger shows whether it does.
    """

    complete: bool = False
    drained: bool = False
    double_owner_ms: float = 100.0
    orphan_ms: float = 30_000.0
    notify_ms: float = 15_000.0
    stale_ms: float = 45_000.0
    explained_ms: float = 60_000.0
    flap_moves: int = 4
    flap_ms: float = 60_000.0
    thundering_passes: int = 20
    order: Mapping[str, Keeps] = field(default_factory=dict)
