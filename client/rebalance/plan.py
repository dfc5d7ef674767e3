"""The plan of a pass: the queues that this member should own, and the changes that lead there. Pure.

    allocate_target   what: routes + member list + strategy -> the queues this member should own
    plan_rebalance    how:  owned against target -> revoke, keep, acquire

When a pass runs is decided by `client/instance/schedule.py`; `client/rebalance/leased_queues.py` carries the plan out.
RocketMQ: RebalanceImpl.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from operator import is_
from typing import NamedTuple

from client.allocate import AllocateMessageQueueStrategy
from client.allocate.strategy import is_group_wide
from model.arguments import shown
from model.errors import UsageError
from model.heartbeat import GroupView, MessageModel
from model.message_queue import MessageQueue
from model.topic_route import SortedQueues


class StrategyError(UsageError):
    """The allocation strategy failed, or returned queues that it may not return; nothing was revoked or acquired."""


class Plan(NamedTuple):
    """The difference between the owned queues and the target; each part sorted, so that passes are reproducible."""

    revoke: tuple[MessageQueue, ...]
    keep: tuple[MessageQueue, ...]
    acquire: tuple[MessageQueue, ...]


class DecidedTarget(NamedTuple):
    """The target that a pass computed from a member list, and from what.

    Member lists and the queue lists of routes are replaced when they change, so the same objects give the same target.
    """

    topics: tuple[str, ...]
    view: GroupView
    queues: dict[str, SortedQueues]
    target: list[MessageQueue]

    def is_from(self, topics: tuple[str, ...], view: GroupView, queues: dict[str, SortedQueues]) -> bool:
        """Whether it was computed from these."""
        same = len(queues) == len(self.queues) and all(map(is_, queues.values(), self.queues.values()))
        return same and view is self.view and topics == self.topics


def plan_rebalance(owned: Iterable[MessageQueue], target: Iterable[MessageQueue]) -> Plan:
    """Compare the queues that a member owns, without those that it is revoking already, with its target.

    RocketMQ: RebalanceImpl.updateProcessQueueTableInRebalance; over all topics at once, so that queues of a topic that
    is no longer subscribed are revoked like all others, with their offset persisted and their lease released.
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
    """Decide which queues a member should own, in the order of its topics. RocketMQ: RebalanceImpl.rebalanceByTopic.

    In CLUSTERING the strategy decides, topic by topic, or for all topics at once if it is a GroupWideStrategy; in
    BROADCASTING a member owns every queue of every topic. A topic that is not in `queues_of` does not exist and has no
    queues; for a GroupWideStrategy, topics that only other members subscribe to have to be in it too. The view is None
    in BROADCASTING only: a pass that could not get the view in CLUSTERING must end as not balanced and change nothing,
    because an empty view would mean to revoke everything.

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
    """Decide which queues a member should own in CLUSTERING mode, without the topics for which the strategy fails.

    The arguments are those of `allocate_target`; a topic without a decision is returned with the reason. RocketMQ
    notes it, too, and goes on with the next topic.
    """
    if is_group_wide(strategy):
        known = {topic: list(_sorted(queues)) for topic, queues in queues_of.items() if queues}
        mine = SortedQueues(chain.from_iterable(known.get(t, ()) for t in sorted(view.members.get(client_id, ()))))
        where = f"strategy {getattr(strategy, 'name', '?')} of group {group}, all topics:"
        # A copy, because the view is kept for later passes; everything else was made for this call.
        ask = partial(strategy.allocate_group, group, client_id, known, dict(view.members))
        try:
            share = _checked_share(ask, where, mine, len(view.members)) if mine else []
        except StrategyError as error:
            return [], dict.fromkeys(topics, error)
        place = {topic: number for number, topic in enumerate(topics)}
        # The view may be older than the last unsubscribe.
        return sorted((queue for queue in share if queue.topic in place), key=lambda queue: place[queue.topic]), {}
    target: list[MessageQueue] = []
    failed: dict[str, StrategyError] = {}
    for topic in topics:
        queues = _sorted(queues_of.get(topic, ()))
        members = view.members_of(topic)
        # No queue or no member is an ordinary state (a topic not created yet, a broker that restarted), while
        # strategies call it illegal; so they are not asked.
        if queues and members:
            where = f"strategy {strategy.name} of group {group}, topic {topic}:"
            ask = partial(strategy.allocate, group, client_id, list(queues), members)
            try:
                target += _checked_share(ask, where, queues, len(members))
            except StrategyError as error:
                failed[topic] = error
    return target, failed


def _sorted(queues: Sequence[MessageQueue]) -> SortedQueues:
    return queues if isinstance(queues, SortedQueues) else SortedQueues(sorted(queues))


def _checked_share(
    ask: Callable[[], Iterable[MessageQueue]], where: str, queues: SortedQueues, members: int
) -> list[MessageQueue]:
    # A strategy is user code, so anything may come out of it, and the loop of all groups must survive that. The
    # supervisor that reports StrategyError has the traceback in its cause. It may also change the lists it was given,
    # so it is judged by none of them.
    try:
        share = list(ask())
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # CancelledError too: a call that does not wait cannot be cancelled
        what = shown(error, 1000)
        raise StrategyError(f"{where} raised {what} for {len(queues)} queues, {members} members") from error
    taken: set[MessageQueue] = set()
    for queue in share:
        # The isinstance test: an equal plain tuple would pass, and an unhashable thing could not be looked up.
        if not isinstance(queue, MessageQueue) or not _contains(queues, queue):
            raise StrategyError(f"{where} returned {shown(queue)} which it was not given")
        if queue in taken:
            raise StrategyError(f"{where} returned {shown(queue)} twice")
        taken.add(queue)
    return share


def _contains(queues: SortedQueues, queue: MessageQueue) -> bool:
    # By bisection: a set of thousands of queues, to look up the few of one member, is most of a pass.
    try:
        at = bisect_left(queues, queue)
    except TypeError:  # one that was made of other types cannot be compared
        return False
    return at < len(queues) and queues[at] == queue
