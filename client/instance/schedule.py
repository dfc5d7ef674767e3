"""The schedule of rebalance passes: triggers, coalesced per group, become passes. Pure.

Invariant: after any wake-up of a group at least one pass of it begins later than the wake-up, and never two passes of
one group run at a time.

    wake(g, NOTIFY, "b1/7") at 5.0  ->  next_deadline() == 5.0
    begin_due(5.0)                  ->  [RebalancePass(g, (NOTIFY,), "b1/7")]      g runs
    wake(g, ROUTE), wake(g, NOTIFY) ->  nothing is due: remembered, however many there are
    finished(g, True, 5.2)          ->  next_deadline() <= 5.2
    begin_due(5.2)                  ->  [RebalancePass(g, (ROUTE, NOTIFY), "")]    exactly one more
    finished(g, True, 5.3)          ->  next_deadline() == 25.3, the timer

RocketMQ: RebalanceService. There one flag wakes one thread that runs every group, and a second pass waits until 1 s
after the last; here each group has its own schedule and no wait.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

from client.trigger import Trigger
from model.limits import REBALANCE_INTERVAL_S, REBALANCE_RETRY_S


class RebalancePass(NamedTuple):
    """One pass to run: which group, every trigger since the last pass began, and the first cause among them."""

    group: str
    triggers: tuple[Trigger, ...]
    cause: str


@dataclass(slots=True)
class _GroupSchedule:
    """State of one group. `woken_at` is set exactly while `triggers` is not empty; `timer_at` may be infinite."""

    interval_s: float
    timer_at: float = math.inf
    woken_at: float = math.inf
    triggers: dict[Trigger, None] = field(default_factory=dict)
    cause: str = ""
    running: bool = False


class RebalanceSchedule:
    """The time of each group's next pass; see the module header for a worked example.

    Protocol of use, by the loop of the client instance: wait until `next_deadline()` or until something calls `wake`;
    run every pass of `begin_due(now)`; call `finished` for each, whatever its result. All times are the same monotonic
    clock in seconds.
    """

    def __init__(
        self,
        *,
        interval_s: float = REBALANCE_INTERVAL_S,
        retry_s: float = REBALANCE_RETRY_S,
        enabled: frozenset[Trigger] = frozenset(Trigger),
    ) -> None:
        """Make an empty schedule: `interval_s` is the wait after a balanced pass, `retry_s` that after any other.

        Triggers that are not enabled are ignored. Without TIMER there is no retry of an unbalanced pass either.
        """
        self._interval_s = interval_s
        self._retry_s = retry_s
        self._enabled = enabled
        self._groups: dict[str, _GroupSchedule] = {}

    def add(self, group: str, now: float, *, interval_s: float | None = None) -> None:
        """Begin to schedule a group; its first pass is due when it is woken, or at its first timer."""
        assert group not in self._groups, f"group {group} is scheduled already"
        state = self._groups[group] = _GroupSchedule(self._interval_s if interval_s is None else interval_s)
        self._start_timer(state, state.interval_s, now)

    def __contains__(self, group: str) -> bool:
        return group in self._groups

    def remove(self, group: str) -> None:
        """Forget a group. A pass of it that runs now may still report `finished`, before the group is added again."""
        self._groups.pop(group, None)

    def wake(self, group: str, trigger: Trigger, cause: str = "", *, now: float) -> None:
        """Ask for a pass that begins later than this call; its cause is the first one that is not empty.

        A group that is not scheduled is ignored: a notification may arrive after its consumer stopped.
        """
        state = self._groups.get(group)
        if state is None or trigger not in self._enabled:
            return
        if not state.triggers:
            state.woken_at = now
        state.triggers[trigger] = None
        state.cause = state.cause or cause

    def begin_due(self, now: float) -> list[RebalancePass]:
        """Begin every pass that is due, in the order of `add`; their groups count as running until `finished`.

        Triggers are in order of arrival; TIMER is last when the timer ran out too.
        """
        due: list[RebalancePass] = []
        for group, state in self._groups.items():
            if state.running or min(state.timer_at, state.woken_at) > now:
                continue
            if state.timer_at <= now:
                state.triggers[Trigger.TIMER] = None
            due.append(RebalancePass(group, tuple(state.triggers), state.cause))
            state.running = True
            state.timer_at = state.woken_at = math.inf
            state.triggers.clear()
            state.cause = ""
        return due

    def finished(self, group: str, balanced: bool, now: float) -> None:
        """End the pass of a group and start its timer; wake-ups during the pass are due at once.

        A group that was removed is ignored.
        """
        state = self._groups.get(group)
        if state is None:
            return
        assert state.running, f"group {group} finished a pass that never began"
        state.running = False
        self._start_timer(state, state.interval_s if balanced else self._retry_s, now)

    def next_deadline(self) -> float | None:
        """The time of the next pass, in seconds; in the past if a wake-up is waiting.

        None if nothing is scheduled: no group, all of them running, or TIMER disabled.
        """
        deadline = min(
            (min(state.timer_at, state.woken_at) for state in self._groups.values() if not state.running),
            default=math.inf,
        )
        return None if deadline == math.inf else deadline

    def _start_timer(self, state: _GroupSchedule, wait_s: float, now: float) -> None:
        state.timer_at = now + wait_s if Trigger.TIMER in self._enabled else math.inf
