"""The limits up to which `rlab check` takes a history as normal. They are set before the run. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class OrderScope(StrEnum):
    """The messages that a group promises to process in order: none, all of a queue, or all of a key."""

    NONE = "none"
    QUEUE = "queue"
    KEY = "key"


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryLimits:
    """The limits for a history; times are in milliseconds.

    Attributes:
        complete: every event of every node is present, as in a simulation. Otherwise the last events of a killed node
            may be missing, and anomalies that depend on them are in doubt.
        all_consumed: the run lasted until its groups had consumed every message. So a message that was not processed
            by its end is lost.
        double_owner_ms: how long a queue may have two owners, because the clocks of two machines differ.
        orphan_ms: how long a queue may have no owner. A lost notification costs 20 s, and a handover up to 10 s more.
        notification_ms: time from a change of a group to its notification. Brokers delay it by up to 10 s while a group
            is new.
        stale_ms: how long a member may use an old member list; its timer fetches a new one every 20 s.
        explains_move_ms: maximum age of a change that explains a move, if no pass names the change as its cause.
        flap_moves, flap_ms: a queue flaps if it moves `flap_moves` times within `flap_ms` between members that stayed.
        needless_passes: allowed needless passes of one group within a minute, besides those that its changes explain.
        order: group -> the order that it promises. Checked only if the history has a ledger, see `ledger.py`.
    """

    complete: bool = False
    all_consumed: bool = False
    double_owner_ms: float = 100.0
    orphan_ms: float = 30_000.0
    notification_ms: float = 15_000.0
    stale_ms: float = 45_000.0
    explains_move_ms: float = 60_000.0
    flap_moves: int = 4
    flap_ms: float = 60_000.0
    needless_passes: int = 20
    order: Mapping[str, OrderScope] = field(default_factory=dict)
