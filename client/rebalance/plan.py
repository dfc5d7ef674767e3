"""The plan of a pass: which queues this member should own, and the steps from the queues that it owns now. Pure.

    allocate_target   what: routes + member list + strategy -> the queues this member should own
    plan_rebalance    how:  owned against target -> revoke, keep, acquire

`client/instance/schedule.py` decides when a pass runs; `client/rebalance/leased_queues.py` carries the plan out.
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
from model.arguments import short_repr
from model.counted import plural
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
    """The target that a pass computed, and its input: topics, member list and queues.

    Member lists and the queue lists of routes are replaced when they change, so the same objects give the same target.
    """

    topics: tuple[str, ...]
    view: GroupView
    queues: dict[str, SortedQueues]
    target: list[MessageQueue]

    def is_from(self, topics: tuple[str, ...], view: GroupView, queues: dict[str, SortedQueues]) -> bool:
        """Whether the target was computed from this input."""
        same = len(queues) == len(self.queues) and all(map(is_, queues.values(), self.queues.values()))
        return same and view is self.view and topics == self.topics


def plan_rebalance(owned: Iterable[MessageQueue], target: Iterable[MessageQueue]) -> Plan:
    """Compare the queues that a member owns with its target; queues that are being revoked are not owned.

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
    because an empty view would revoke every queue.

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
    """Decide which queues a member should own in CLUSTERING; a topic for which the strategy fails does not stop others.

    The arguments are the same as for `allocate_target`; a topic without a decision is returned with the error. RocketMQ
    logs the error, too, and goes on with the next topic.
    """
    if is_group_wide(strategy):
        queues_by_topic = {topic: list(_sorted(queues)) for topic, queues in queues_of.items() if queues}
        own_queues = SortedQueues(
            chain.from_iterable(queues_by_topic.get(t, ()) for t in sorted(view.members.get(client_id, ())))
        )
        where = f"strategy {getattr(strategy, 'name', '?')} of group {group}, all topics:"
        # The members are a copy, because the view is kept for later passes; all other arguments were made for this
        # call.
        ask = partial(strategy.allocate_group, group, client_id, queues_by_topic, dict(view.members))
        try:
            share = _checked_share(ask, where, own_queues, len(view.members)) if own_queues else []
        except StrategyError as error:
            return [], dict.fromkeys(topics, error)
        topic_index = {topic: number for number, topic in enumerate(topics)}
        # The view may be older than the last unsubscribe.
        return sorted(
            (queue for queue in share if queue.topic in topic_index), key=lambda queue: topic_index[queue.topic]
        ), {}
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
    # A strategy is user code: it may raise or return anything, and the loop of all groups must survive that. The
    # report of a StrategyError has the traceback in its cause. A strategy may also change the lists that it is given,
    # so its answer is compared with other lists.
    try:
        share = list(ask())
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # CancelledError too: a call that does not wait cannot be cancelled
        error_text = short_repr(error, 1000)
        raise StrategyError(
            f"{where} raised {error_text} for {plural(len(queues), 'queue')}, {plural(members, 'member')}"
        ) from error
    seen_queues: set[MessageQueue] = set()
    for queue in share:
        # The isinstance test is needed: an equal plain tuple would pass, and an unhashable object would raise below.
        if not isinstance(queue, MessageQueue) or not _contains(queues, queue):
            raise StrategyError(f"{where} returned {short_repr(queue)} which it was not given")
        if queue in seen_queues:
            raise StrategyError(f"{where} returned {short_repr(queue)} twice")
        seen_queues.add(queue)
    return share


def _contains(queues: SortedQueues, queue: MessageQueue) -> bool:
    # By bisection: to build a set of thousands of queues for the look-up of a few costs most of a pass.
    try:
        index = bisect_left(queues, queue)
    except TypeError:  # a MessageQueue with fields of other types cannot be compared
        return False
    return index < len(queues) and queues[index] == queue
