"""Notifications of groups that changed: when the members of each are notified. Pure.

The first change of a quiet group is notified at once, further ones at most once in a window. The window is 100 ms,
longer in proportion in a group of more than a hundred, and longer when the broker is late itself: each notification
sets off a pass of every member.

A group grows while members join in a row that are a quarter of the group or more. Then a notification about joins alone
waits until the joins pause: for half a window, or twice the longest gap between those joins. So a new group converges
once, and not once for each member. No message waits for that, because other members own the queues. A leave is notified
without that wait.

    t=0.00  A joins   version 1, notify at 0.00
    t=0.02  B joins   version 2, notify at 0.10 (window)
    t=0.05  C joins   version 3, no second notification: the one at 0.10 carries version 3
    t=0.09  five join   version 8, the eighth in a row: notify when no member joins for 2 * 0.04, at 0.17

In a group with clients of RocketMQ every notification waits for `STOCK_SETTLE_S`, until all brokers know of the change.

RocketMQ notifies all members at each change: DefaultConsumerIdsChangeListener. Kafka lets every new group wait for
`group.initial.rebalance.delay.ms`, 3 s.
"""

from __future__ import annotations

from broker.groups.group import NEVER, ConsumerGroupInfo
from model.limits import (
    MAX_GROWTH_WAIT_S,
    MAX_NEW_GROUP_WAIT_S,
    MAX_NOTIFY_WINDOW_S,
    MAX_PAUSE_S,
    NOTIFY_WINDOW_MEMBERS,
    NOTIFY_WINDOW_S,
    STOCK_SETTLE_S,
)

_WINDOWS_PER_DELAY = 4
"""A window is at least this many times as long as the delay of the broker, which so spends little time on this."""
_GAPS_PER_PAUSE = 2
"""Joins have paused when none came for this many times their longest gap."""


class Notifications:
    """The groups of one broker with a notification that is due."""

    def __init__(self, window_s: float = NOTIFY_WINDOW_S) -> None:
        self._pending: dict[str, ConsumerGroupInfo] = {}
        self._earliest: float | None = NEVER  # the earliest of their times; None: compute it
        self._base_window_s = window_s

    def schedule(self, info: ConsumerGroupInfo, now: float, is_join: bool) -> None:
        """Schedule a notification of a changed group; `is_join` if a member joined and nothing else changed."""
        self._forget_earliest(info)
        if info.notify_at == NEVER:
            info.pending_since, info.pending_joins_only = now, True
        info.pending_joins_only = info.pending_joins_only and is_join
        if not is_join:
            info.growth, info.longest_gap_s = 0, 0.0
        earliest = max(now + STOCK_SETTLE_S if info.leaseless else now, info.window_ends_at)
        if info.notify_at <= now or not (info.pending_joins_only and info.is_growing):
            info.notify_at = min(info.notify_at, earliest)
        else:
            latest = max(info.pending_since + MAX_GROWTH_WAIT_S, info.group_began_at + MAX_NEW_GROUP_WAIT_S)
            info.notify_at = max(earliest, min(now + self._pause_s(info), latest))
        self._pending[info.group] = info
        if self._earliest is not None:
            self._earliest = min(self._earliest, info.notify_at)

    def forget(self, info: ConsumerGroupInfo) -> None:
        """Cancel the notification of this group."""
        self._forget_earliest(info)
        info.notify_at = NEVER
        self._pending.pop(info.group, None)

    def collect_due(self, now: float) -> list[ConsumerGroupInfo]:
        """The groups whose members are notified now; each opens a window in which it is not returned again."""
        if now < self.earliest():
            return []
        due = [info for info in self._pending.values() if info.notify_at <= now]
        for info in due:
            # If the broker is late, the window is longer: notifications cause more work for it.
            delay_s = now - info.notify_at
            self.forget(info)
            info.window_ends_at = now + self._window_s(info, delay_s)
        return due

    def earliest(self) -> float:
        """The time of the next notification, NEVER without one."""
        if self._earliest is None:
            self._earliest = min((info.notify_at for info in self._pending.values()), default=NEVER)
        return self._earliest

    def _forget_earliest(self, info: ConsumerGroupInfo) -> None:
        """Forget the earliest time if it is that of this group, whose time is about to change."""
        if info.notify_at == self._earliest:
            self._earliest = None

    def _pause_s(self, info: ConsumerGroupInfo) -> float:
        return max(self._window_s(info) / 2, min(_GAPS_PER_PAUSE * info.longest_gap_s, MAX_PAUSE_S))

    def _window_s(self, info: ConsumerGroupInfo, delay_s: float = 0.0) -> float:
        window_s = self._base_window_s * max(1.0, len(info.members) / NOTIFY_WINDOW_MEMBERS)
        return max(self._base_window_s, min(max(window_s, _WINDOWS_PER_DELAY * delay_s), MAX_NOTIFY_WINDOW_S))
