"""Rebalance: when a pass runs, what this member should own, and how it gets there from what it owns.

Three decisions, all pure; the loop that carries them out lives in the client instance.

    RebalanceSchedule   when: six triggers, coalesced per group, become passes
    allocate_target     what: route + member list + strategy -> the queues this member should own
    plan_rebalance      how:  owned against target -> revoke, keep, acquire

Invariant of the schedule: after any wake-up of a group at least one pass of it begins later than the wake-up, and
never two passes of one group run at a time.

    wake(g, NOTIFY, "b1/7") at 5.0  ->  next_deadline() == 5.0
    take_due(5.0)                   ->  [RebalancePass(g, (NOTIFY,), "b1/7")]      g runs
    wake(g, ROUTE), wake(g, NOTIFY) ->  nothing is due: remembered, however many there are
    finished(g, True, 5.2)          ->  next_deadline() <= 5.2
    take_due(5.2)                   ->  [RebalancePass(g, (ROUTE, NOTIFY), "")]    exactly one more
    finished(g, True, 5.3)          ->  next_deadline() == 25.3, the timer

RocketMQ: RebalanceService, RebalanceImpl. There one flag wakes one thread that runs every group, and a second pass
waits until 1 s after the last; here each group has its own schedule and no wait.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import NamedTuple

from client.allocate import AllocateMessageQueueStrategy, GroupWideStrategy
from client.allocate.strategy import is_group_wide
from model.errors import UsageError
from model.heartbeat import GroupView, MessageModel
from model.limits import REBALANCE_INTERVAL_S, REBALANCE_RETRY_S
from model.message_queue import MessageQueue


class Trigger(StrEnum):
    """What can set off a pass; each of them alone is enough to keep a group consumed."""

    START = "START"
    """A consumer started, or changed what it subscribes to."""
    TIMER = "TIMER"
    """Nothing else came for a while; heals whatever the other triggers missed."""
    NOTIFY = "NOTIFY"
    """A broker said that the members of the group changed."""
    ROUTE = "ROUTE"
    """A polled route differs from the cached one."""
    LOCK = "LOCK"
    """A queue that was refused may be free now."""
    RECONNECT = "RECONNECT"
    """A connection to a broker came back, and this client is registered there again."""


class StrategyError(UsageError):
    """The allocation strategy failed or gave what it may not give; nothing was revoked or acquired."""


class Plan(NamedTuple):
    """The way from what is owned to what should be; each part sorted, so that passes are reproducible."""

    revoke: tuple[MessageQueue, ...]
    keep: tuple[MessageQueue, ...]
    acquire: tuple[MessageQueue, ...]


def plan_rebalance(owned: Iterable[MessageQueue], target: Iterable[MessageQueue]) -> Plan:
    """Compare what a member owns with what it should own.

    RocketMQ: RebalanceImpl.updateProcessQueueTableInRebalance; over all topics at once, so that queues of a topic that
    is no longer subscribed are revoked like all others, with their offset persisted and their lease released.

    Args:
        owned: queues of this member's table that it is not giving up already.
        target: result of `allocate_target`.
    """
    owned_set, target_set = set(owned), set(target)
    return Plan(
        revoke=tuple(sorted(owned_set - target_set)),
        keep=tuple(sorted(owned_set & target_set)),
        acquire=tuple(sorted(target_set - owned_set)),
    )


def allocate_target(
    strategy: AllocateMessageQueueStrategy,
    group: str,
    client_id: str,
    model: MessageModel,
    topics: Iterable[str],
    queues_of: Mapping[str, Sequence[MessageQueue]],
    view: GroupView | None,
) -> list[MessageQueue]:
    """Decide which queues a member should own. RocketMQ: RebalanceImpl.rebalanceByTopic.

    Args:
        strategy: decides in CLUSTERING mode; topic by topic, or for all topics at once if it is a GroupWideStrategy.
        group: the consumer group.
        client_id: the member that asks.
        model: BROADCASTING owns every queue of every topic, without a strategy.
        topics: what the member subscribes to.
        queues_of: readable queues by topic; a topic that is not in it does not exist and has none. For a
            GroupWideStrategy, topics that only other members subscribe to have to be in it too.
        view: members of the group; None in BROADCASTING only. A pass that could not get the view in CLUSTERING must
            end as not balanced and change nothing, because an empty view would mean to give up everything.

    Returns:
        The queues, in the order of `topics`.

    Raises:
        StrategyError: the strategy raised, or returned a queue that it was not given, or one twice.
    """
    if model is MessageModel.BROADCASTING:
        return [queue for topic in topics for queue in sorted(queues_of.get(topic, ()))]
    assert view is not None, f"group {group}: CLUSTERING cannot be allocated without the members"
    target, failed = allocate_topics(strategy, group, client_id, topics, queues_of, view)
    for error in failed.values():
        raise error
    return target


def allocate_topics(
    strategy: AllocateMessageQueueStrategy,
    group: str,
    client_id: str,
    topics: Iterable[str],
    queues_of: Mapping[str, Sequence[MessageQueue]],
    view: GroupView,
) -> tuple[list[MessageQueue], dict[str, StrategyError]]:
    """Decide which queues a member should own in CLUSTERING mode, as far as the strategy can tell.

    The arguments are those of `allocate_target`.

    Returns:
        The queues, in the order of `topics`; and topics without a decision, with the reason. RocketMQ notes it, too,
        and goes on with the next topic.
    """
    if is_group_wide(strategy):
        try:
            return _group_wide_target(strategy, group, client_id, topics, queues_of, view), {}
        except StrategyError as error:
            return [], dict.fromkeys(topics, error)
    target: list[MessageQueue] = []
    failed: dict[str, StrategyError] = {}
    for topic in topics:
        queues = sorted(queues_of.get(topic, ()))
        members = view.members_of(topic)
        # No queue or no member is an ordinary state (a topic not created yet, a broker that restarted), while
        # strategies call it illegal; so they are not asked.
        if queues and members:
            where = f"strategy {strategy.name} of group {group}, topic {topic}:"
            ask = partial(strategy.allocate, group, client_id, queues.copy(), members)
            try:
                target += _checked_share(ask, where, queues, len(members))
            except StrategyError as error:
                failed[topic] = error
    return target, failed


def _group_wide_target(
    strategy: GroupWideStrategy,
    group: str,
    client_id: str,
    topics: Iterable[str],
    queues_of: Mapping[str, Sequence[MessageQueue]],
    view: GroupView,
) -> list[MessageQueue]:
    known = {topic: sorted(queues) for topic, queues in queues_of.items() if queues}
    mine = [queue for topic in view.members.get(client_id, ()) for queue in known.get(topic, ())]
    if not mine:
        return []
    where = f"strategy {getattr(strategy, 'name', '?')} of group {group}, all topics:"
    # A copy, for the view is kept and serves later passes; everything else was made for this call.
    ask = partial(strategy.allocate_group, group, client_id, known, dict(view.members))
    share = _checked_share(ask, where, mine, len(view.members))
    by_topic: dict[str, list[MessageQueue]] = {topic: [] for topic in topics}
    for queue in share:
        # The view may be older than the last unsubscribe.
        by_topic.get(queue.topic, []).append(queue)
    return [queue for of_topic in by_topic.values() for queue in of_topic]


def _checked_share(
    ask: Callable[[], Iterable[MessageQueue]], where: str, queues: list[MessageQueue], members: int
) -> list[MessageQueue]:
    # A strategy is user code, so anything may come out of it, and the loop of all groups must survive that. The
    # supervisor that reports StrategyError has the traceback in its cause. It may also change the lists it was given,
    # so it is judged by none of them.
    left = set(queues)
    try:
        share = list(ask())
    except Exception as error:
        raise StrategyError(f"{where} raised {error!r} for {len(queues)} queues, {members} members") from error
    for queue in share:
        # The isinstance test: an equal plain tuple would pass, and an unhashable thing could not be looked up.
        if not isinstance(queue, MessageQueue) or queue not in left:
            offence = "twice" if share.count(queue) > 1 and queue in queues else "which it was not given"
            raise StrategyError(f"{where} returned {queue!r} {offence}")
        left.remove(queue)
    return share


class RebalancePass(NamedTuple):
    """One pass to run: which group, every trigger since the last pass began, and the first cause among them."""

    group: str
    triggers: tuple[Trigger, ...]
    cause: str


@dataclass(slots=True)
class _GroupSchedule:
    """State of one group. `woken_at` is set exactly while `triggers` is not empty; `timer_at` may be infinite."""

    interval_s: float
    retry_s: float
    timer_at: float
    woken_at: float = math.inf
    triggers: dict[Trigger, None] = field(default_factory=dict)
    cause: str = ""
    running: bool = False


class RebalanceSchedule:
    """When each group's next pass begins; see the module header for a worked example.

    Protocol of use, by the loop of the client instance: wait until `next_deadline()` or until something calls `wake`;
    run every pass of `take_due(now)`; call `finished` for each, whatever came of it. All times are the same monotonic
    clock in seconds.
    """

    def __init__(
        self,
        *,
        interval_s: float = REBALANCE_INTERVAL_S,
        retry_s: float = REBALANCE_RETRY_S,
        enabled: frozenset[Trigger] = frozenset(Trigger),
    ) -> None:
        """Make an empty schedule.

        Args:
            interval_s: wait after a pass that found or left the group balanced.
            retry_s: wait after one that did not.
            enabled: triggers that work; the others are ignored, to study what each is good for. Without TIMER a group
                that is not balanced is not tried again by itself either.
        """
        self._interval_s = interval_s
        self._retry_s = retry_s
        self._enabled = enabled
        self._groups: dict[str, _GroupSchedule] = {}

    def add(self, group: str, now: float, *, interval_s: float | None = None, retry_s: float | None = None) -> None:
        """Begin to schedule a group; its first pass is due when it is woken, or at its first timer.

        Args:
            group: one that is not scheduled yet.
            now: seconds.
            interval_s: instead of the schedule's own.
            retry_s: instead of the schedule's own.
        """
        assert group not in self._groups, f"group {group} is scheduled already"
        state = _GroupSchedule(
            interval_s=self._interval_s if interval_s is None else interval_s,
            retry_s=self._retry_s if retry_s is None else retry_s,
            timer_at=math.inf,
        )
        self._groups[group] = state
        self._start_timer(state, state.interval_s, now)

    def __contains__(self, group: str) -> bool:
        return group in self._groups

    def remove(self, group: str) -> None:
        """Forget a group. A pass of it that runs now may still report `finished`, before the group is added again."""
        self._groups.pop(group, None)

    def wake(self, group: str, trigger: Trigger, cause: str = "", *, now: float) -> None:
        """Ask for a pass that begins later than this call.

        Args:
            group: ignored if it is not scheduled: a notification may arrive after its consumer stopped.
            trigger: ignored if it is disabled.
            cause: id of the event behind it; the first one that is not empty stays with the pass.
            now: seconds.
        """
        state = self._groups.get(group)
        if state is None or trigger not in self._enabled:
            return
        if not state.triggers:
            state.woken_at = now
        state.triggers[trigger] = None
        state.cause = state.cause or cause

    def wake_all(self, trigger: Trigger, cause: str = "", *, now: float) -> None:
        """Wake every group; see `wake`."""
        for group in self._groups:
            self.wake(group, trigger, cause, now=now)

    def take_due(self, now: float) -> list[RebalancePass]:
        """Begin every pass that is due: its group counts as running until `finished`.

        Returns:
            The passes, in the order in which their groups were added. Triggers are in order of arrival; TIMER is last
            when the timer ran out too.
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
        """End the pass of a group and start its timer; wake-ups that came meanwhile are due at once.

        Args:
            group: ignored if it was removed meanwhile.
            balanced: whether the member owns now exactly what it should own.
            now: seconds.
        """
        state = self._groups.get(group)
        if state is None:
            return
        assert state.running, f"group {group} finished a pass that never began"
        state.running = False
        self._start_timer(state, state.interval_s if balanced else state.retry_s, now)

    def next_deadline(self) -> float | None:
        """When `take_due` has something next, in seconds.

        Returns:
            A time, which has passed already if a wake-up is waiting; None if nothing is scheduled: no group, all of
            them running, or TIMER disabled.
        """
        deadline = min(
            (min(state.timer_at, state.woken_at) for state in self._groups.values() if not state.running),
            default=math.inf,
        )
        return None if deadline == math.inf else deadline

    def _start_timer(self, state: _GroupSchedule, wait_s: float, now: float) -> None:
        state.timer_at = now + wait_s if Trigger.TIMER in self._enabled else math.inf
