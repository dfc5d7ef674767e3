"""The rules that a replay may change, and their effect on the joins and leaves of members. Pure.

Another session timeout moves the times at which brokers remove silent members. The trace shows only silences longer
than the timeout in force when it was recorded, so a shorter timeout may look better than it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from client.allocate.registry import check_strategy_name
from model.errors import ConfigError
from model.limits import LEASE_CLOSE_GRACE_S, MEMBER_EXPIRY_S
from pipeline.replay.recorded import STEP_MS, MemberChange, MemberLeave, RecordedGroup

Members = dict[str, tuple[str, ...]]


class Handover(StrEnum):
    """The handover of a queue from one member to another."""

    DRAIN = "drain"
    """The default: the old owner waits until its listeners have finished, then releases the lease."""
    CUT = "cut"
    """The old owner releases the lease at once; messages dispatched to its listeners are redelivered."""
    OVERLAP = "overlap"
    """As in RocketMQ (quirk OVERLAPPING_HANDOVER): no lease; the new owner begins while the old one still works."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """One configuration of a group to replay.

    Attributes:
        was_timeout_ms: session timeout in force when the trace was recorded, for members that did not report theirs.
    """

    strategy: str
    interval_ms: float  # rebalance interval of a member that owns its target
    timeout_ms: float = MEMBER_EXPIRY_S * 1000  # session timeout: how long brokers keep a silent member
    was_timeout_ms: float = MEMBER_EXPIRY_S * 1000
    handover: Handover = Handover.DRAIN
    notify: bool = True  # whether brokers notify members of changes; else timed passes detect them

    def __post_init__(self) -> None:
        """Check the rules.

        Raises:
            ConfigError: a rule is out of range; the text names it.
        """
        check_strategy_name("strategy", self.strategy)
        for name in ("interval_ms", "timeout_ms", "was_timeout_ms"):
            if not 100 <= getattr(self, name) <= 3_600_000:
                raise ConfigError(f"{name} must be 100 to 3600000, got {getattr(self, name):g}")

    @property
    def expiry_shift_ms(self) -> float:
        """Delay of the removal of a silent member, compared with the trace; negative if it is earlier."""
        return self.timeout_ms - self.was_timeout_ms


def shifted_changes(changes: Sequence[MemberChange], rules: Rules) -> list[MemberChange]:
    """Return the changes of the member list under these rules, in order.

    Expiries are shifted; the expiry of a member that is back before its shifted time does not happen.
    """
    if not rules.expiry_shift_ms:
        return list(changes)
    moved = [
        change._replace(at_ms=change.at_ms + rules.expiry_shift_ms) if change.reason == "expiry" else change
        for change in changes
        if change.reason != "expiry" or not _is_back(change, changes, rules)
    ]
    return sorted(moved, key=lambda change: change.at_ms)


def _is_back(expiry: MemberChange | MemberLeave, changes: Iterable[MemberChange], rules: Rules) -> bool:
    until_ms = expiry.at_ms + rules.expiry_shift_ms
    return any(
        change.client == expiry.client and change.topics is not None and expiry.at_ms < change.at_ms <= until_ms
        for change in changes
    )


def leaves_under(recorded: RecordedGroup, rules: Rules) -> list[tuple[float, MemberLeave]]:
    """Return the leaves under these rules, each with the time at which the member stopped consuming."""
    leaves: list[tuple[float, MemberLeave]] = []
    for leave in recorded.leaves:
        silent_ms, at_ms = leave.at_ms, leave.at_ms
        if leave.reason == "close":
            silent_ms = max(leave.last_request_ms, min(leave.missed_ms, leave.at_ms - LEASE_CLOSE_GRACE_S * 1000))
        elif leave.reason == "expiry":
            was_timeout_ms = recorded.timeouts_ms.get(leave.client, rules.was_timeout_ms)
            silent_ms = max(leave.last_request_ms, min(leave.missed_ms, leave.at_ms - was_timeout_ms))
            at_ms = max(silent_ms, leave.at_ms + rules.expiry_shift_ms)
            if _is_back(leave, recorded.changes, rules):
                at_ms = float("inf")
        # Events at exactly that time still count.
        leaves.append((silent_ms + STEP_MS / 2, leave._replace(at_ms=at_ms)))
    return leaves


def member_views(changes: Iterable[MemberChange]) -> list[Members]:
    """Return the member list (client -> topics, sorted) before the first change and after each change."""
    members: Members = {}
    views: list[Members] = [{}]
    for change in changes:
        if change.topics is None:
            members.pop(change.client, None)
        else:
            members[change.client] = change.topics
        views.append(dict(sorted(members.items())))
    return views
