"""Finds the target of one member under leases, from the member list of its group, its routes and the strategy.

`client/rebalance/plan.py` decides; this module collects its input. RocketMQ: RebalanceImpl.rebalanceByTopic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from client.allocate import AllocateMessageQueueStrategy
from client.allocate.strategy import is_group_wide
from client.instance.schedule import RebalancePass
from client.pull.owned_queue import OwnedQueue
from client.rebalance.ownership import MemberContext
from client.rebalance.plan import DecidedTarget, StrategyError, allocate_topics
from client.trigger import Trigger
from model.heartbeat import GroupView
from model.message_queue import MessageQueue
from model.topic_route import SortedQueues

_ABOUT_MEMBERS = frozenset({Trigger.NOTIFY, Trigger.LOCK})
"""Triggers of a pass that uses the member list of a notification: other passes fetch it, in case one was lost."""


class TargetFinder:
    """Finds the target of a member, which owns `owned`.

    Attributes:
        topics_of_others: see `QueueOwnership`.
        version: the group version that this search has seen; -1 if none.
        undecided: the topics for which the strategy failed in this search.
    """

    def __init__(
        self, context: MemberContext, strategy: AllocateMessageQueueStrategy, owned: Mapping[MessageQueue, OwnedQueue]
    ) -> None:
        self.topics_of_others: tuple[str, ...] = ()
        self.version = -1
        self.undecided: dict[str, StrategyError] = {}
        self._instance, self._group = context.instance, context.group
        self._strategy, self._owned = strategy, owned
        self._decided: DecidedTarget | None = None

    def begin(self) -> None:
        """Begin a search: reset the results of the last one."""
        self.version, self.undecided = -1, {}

    def forget(self) -> None:
        """Ask for the member list again, because the target may have changed unseen."""
        self._decided = None

    def notified(self, topics: tuple[str, ...]) -> Sequence[MessageQueue] | None:
        """The last target, if the notifications do not change it; None if it may be another one."""
        # Each broker of the group notifies of a change, but every member plans with the list of the first broker.
        last, notified = self._decided, self._instance.views.notified_members(self._group, topics)
        if last is None or notified is None or self.topics_of_others:
            return None  # a route of the topics of others may still be unknown
        return last.target if last.is_from(topics, notified.view, self._queues(topics)) else None

    async def find(self, due: RebalancePass, topics: tuple[str, ...], cause: str) -> Sequence[MessageQueue] | None:
        """The target of this member; None if it cannot be computed yet.

        For a topic for which the strategy fails, the target is the queues that the member owns; queues of other topics
        may be revoked. RlabError: the member list could not be fetched. Cancellation: harmless.
        """
        # Cleared first: after a failure or a cancellation, no later notification may be compared with the old target.
        last, self._decided = self._decided, None
        if not topics:
            return []  # it has unsubscribed from its last topic, and has no broker to ask
        if last is not None and last.topics == topics and due.triggers == (Trigger.LOCK,):
            # Only a lease is free. If the group has changed as well, another pass follows this one. In a large group,
            # where a newcomer moves a queue of every member, a second request would be half of all the work.
            self._decided, self.version = last, last.view.version
            return last.target
        view = await self.view(topics, cause, notified=_ABOUT_MEMBERS.issuperset(due.triggers))
        if view is None:
            # Without any route there is no queue, and no broker that could answer with members.
            has_route = any(self._instance.routes.route_of(topic) is not None for topic in topics)
            return None if has_route else []
        queues = self._queues((*topics, *self.topics_of_others))
        if last is not None and last.is_from(topics, view, queues):
            self._decided = last  # the usual case: the timer started the pass, and nothing has changed
            return last.target
        client_id = self._instance.client_id
        target, self.undecided = allocate_topics(self._strategy, self._group, client_id, topics, queues, view)
        if self.undecided:
            return target + [queue for queue in self._owned if queue.topic in self.undecided]
        self._decided = DecidedTarget(topics, view, queues, target)
        return target

    async def view(self, topics: tuple[str, ...], cause: str, *, notified: bool = False) -> GroupView | None:
        """The member list of the group; None if no broker can answer, or if this member is not in the list.

        RlabError: the list could not be fetched. Cancellation: harmless.
        """
        views, client_id = self._instance.views, self._instance.client_id
        fetched = await views.fetch(self._group, topics, notified=notified)
        if fetched is not None and client_id not in fetched.view.members:
            # The broker is new, or our session expired there. A target without us would revoke all our queues.
            await self._instance.heartbeats.send(cause)
            fetched = await views.fetch(self._group, topics)
        if fetched is None or client_id not in fetched.view.members:
            return None
        if fetched.notify_in_s and not self._owned and len(fetched.view.members) > 1:
            # More members are joining. Until that pauses, other members own the queues that we would request: the
            # broker's delayed notification starts the one pass that counts.
            return None
        self.version = fetched.view.version
        if is_group_wide(self._strategy):
            self.topics_of_others = tuple(sorted(fetched.view.topics().difference(topics)))
            await self._instance.fetch_missing_routes(self.topics_of_others, cause)
        return fetched.view

    def _queues(self, topics: tuple[str, ...]) -> dict[str, SortedQueues]:
        return {topic: self._instance.routes.subscribe_queues(topic) for topic in topics}
