"""The rules that a replay may change, and what they change of what comes to a group from outside. Pure.

A session timeout moves the moments at which silent members are taken out. The trace tells of those that were silent for
longer than the timeout that it was recorded with; silences that were shorter than it are not in the trace, so a shorter
timeout may look better than it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from client.allocate.registry import check_strategy_name
from model.errors import ConfigError
from model.limits import LEASE_CLOSE_GRACE_S, MEMBER_EXPIRY_S
from pipeline.replay.recorded import STEP_MS, Change, Leave, Recorded

Members = dict[str, tuple[str, ...]]


class Handover(StrEnum):
    """How a queue goes from one member to another."""

    DRAIN = "drain"
    """What ships: the old owner finishes what its listener has, then gives the lease back."""
    CUT = "cut"
    """The old owner gives the lease back at once; what its listener has is delivered again."""
    OVERLAP = "overlap"
    """The reference's way (quirk OVERLAPPING_HANDOVER): no lease; the new owner begins while the old one works."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a replay goes by.

    Attributes:
        strategy: name of an allocation strategy.
        interval_ms: between two looks of a member that is balanced.
        timeout_ms: session timeout: how long brokers keep a member that is silent.
        was_timeout_ms: what it was when the trace was recorded; events do not tell it.
        handover: see `Handover`.
        notify: whether members are told of changes; else they find out when they look again.
    """

    strategy: str
    interval_ms: float
    timeout_ms: float = MEMBER_EXPIRY_S * 1000
    was_timeout_ms: float = MEMBER_EXPIRY_S * 1000
    handover: Handover = Handover.DRAIN
    notify: bool = True

    def __post_init__(self) -> None:
        """Refuse what cannot be replayed.

        Raises:
            ConfigError: naming the rule.
        """
        check_strategy_name("strategy", self.strategy)
        for name in ("interval_ms", "timeout_ms", "was_timeout_ms"):
            if not 100 <= getattr(self, name) <= 3_600_000:
                raise ConfigError(f"{name} must be 100 to 3600000, got {getattr(self, name):g}")

    @property
    def expiry_shift_ms(self) -> float:
        """By how much later a silent member is taken out than in the trace."""
        return self.timeout_ms - self.was_timeout_ms


def shifted_changes(changes: Sequence[Change], rules: Rules) -> list[Change]:
    """The changes under these rules, in order.

    An expiry comes earlier or later. A member that is back by then was never gone.
    """
    if not rules.expiry_shift_ms:
        return list(changes)
    moved = [
        change._replace(at_ms=change.at_ms + rules.expiry_shift_ms) if change.reason == "expiry" else change
        for change in changes
        if change.reason != "expiry" or not _is_back(change, changes, rules)
    ]
    return sorted(moved, key=lambda change: change.at_ms)


def _is_back(expiry: Change | Leave, changes: Iterable[Change], rules: Rules) -> bool:
    until_ms = expiry.at_ms + rules.expiry_shift_ms
    return any(
        change.client == expiry.client and change.topics is not None and expiry.at_ms < change.at_ms <= until_ms
        for change in changes
    )


def leaves_under(recorded: Recorded, rules: Rules) -> list[tuple[float, Leave]]:
    """The leaves under these rules; each with the time from which on the member consumed nothing any more."""
    found: list[tuple[float, Leave]] = []
    for leave in recorded.leaves:
        silent_ms, at_ms = leave.at_ms, leave.at_ms
        if leave.reason == "close":
            silent_ms = max(leave.heard_ms, min(leave.deaf_ms, leave.at_ms - LEASE_CLOSE_GRACE_S * 1000))
        elif leave.reason == "expiry":
            silent_ms = max(leave.heard_ms, min(leave.deaf_ms, leave.at_ms - rules.was_timeout_ms))
            at_ms = max(silent_ms, leave.at_ms + rules.expiry_shift_ms)
            if _is_back(leave, recorded.changes, rules):
                at_ms = float("inf")
        # What it did in that very moment, it did.
        found.append((silent_ms + STEP_MS / 2, leave._replace(at_ms=at_ms)))
    return found


def views_of(changes: Iterable[Change]) -> list[Members]:
    """The members, client -> topics, sorted, before any change and after each of them."""
    members: Members = {}
    views: list[Members] = [{}]
    for change in changes:
        if change.topics is None:
            members.pop(change.client, None)
        else:
            members[change.client] = change.topics
        views.append(dict(sorted(members.items())))
    return views
