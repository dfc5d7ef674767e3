"""The queues that one consumer has: how it gets, gives up and loses them. Shell of `client/rebalance/plan.py`.

RocketMQ: RebalanceImpl.updateProcessQueueTableInRebalance, RebalancePushImpl. A queue passes through

    acquire: lease granted -> OwnedQueue, pull loop starts                                      QUEUE_ACQUIRED
    revoke:  stop pulling -> finish what listeners have (up to a grace) -> commit and unlock    QUEUE_DROPPED
    lost:    a pull or commit says that another member has it: stop, commit nothing             QUEUE_DROPPED
    reset:   the group's offset was set: stop, finish what listeners have, acquire it again     QUEUE_DROPPED

Queues on their way out do not hold up the others: they are released in the background, and a queue that should come
back meanwhile is asked for again once it is out.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from contextlib import suppress
from functools import partial

import anyio

from client.allocate import AllocateMessageQueueStrategy
from client.allocate.strategy import is_group_wide
from client.instance.schedule import RebalancePass
from client.leases.offsets_to_commit import OffsetsToCommit
from client.leases.requests import Commit, Grant, LeaseRequests
from client.pull.owned_queue import OwnedQueue, process_queue_for
from client.rebalance.ownership import MemberContext
from client.rebalance.plan import StrategyError, allocate_topics, plan_rebalance
from client.rebalance.pulled_queues import PulledQueues
from client.trigger import Trigger
from model.errors import LeaseLost, NetworkError, RlabError, ServerError
from model.events import EventKind
from model.heartbeat import GroupView
from model.limits import PULL_RETRY_ERROR_S
from model.message_queue import MessageQueue
from remoting.tasks import run_together

logger = logging.getLogger(__name__)

_SHUTDOWN_IDLE_WAIT_S = 0.05
"""Listeners that are done so soon after a shutdown began are waited for without a word: the group would share twice."""

_RELEASE_FIRST_WAIT_S = 0.25
"""Longest wait for brokers to take back what is given up, before more is asked for: one of them may hang."""


class LeasedQueues(PulledQueues):
    """The queues of one member that it has leases of."""

    def __init__(self, context: MemberContext, strategy: AllocateMessageQueueStrategy) -> None:
        super().__init__(context)
        self._strategy = strategy
        self._leases = LeaseRequests(context.instance, context.group)
        self._offsets = OffsetsToCommit()
        self._releasing: dict[MessageQueue, OwnedQueue] = {}
        self._reacquire: dict[MessageQueue, None] = {}
        self._released = anyio.Event()
        self._closing = False
        self._version_seen = -1
        self._undecided: dict[str, StrategyError] = {}  # topics that the strategy failed for in this pass
        # What the last pass that asked found: topics, and what of them is ours in which version of the group.
        self._last_target: tuple[tuple[str, ...], list[MessageQueue], int] | None = None
        # Queues whose grant may have been on its way when the answer was lost.
        self._possibly_granted: dict[MessageQueue, None] = {}

    # --- rebalance ---------------------------------------------------------------------------------------------------

    async def rebalance(self, due: RebalancePass, topics: tuple[str, ...]) -> bool:
        """Run one pass: find the target, then revoke and acquire.

        Returns:
            Whether this member has exactly what it should have now.

        Raises:
            StrategyError: the strategy failed; of the topics that it failed for nothing was changed.
            RlabError: the members could not be found out; nothing was changed.

        Cancellation: what was granted but not taken yet is granted again by the next pass.
        """
        trigger = "+".join(due.triggers)
        cause = self._emit(EventKind.REBALANCE_BEGIN, cause=due.cause, detail=trigger)
        moved, balanced, self._version_seen, self._undecided = 0, False, -1, {}
        try:
            target = await self._target(due, topics, cause)
            if target is not None and not self._closing:
                moved, balanced = await self._apply_plan(target, cause)
            for error in self._undecided.values():
                balanced = False
                raise error
        finally:
            detail = f"{trigger} {'balanced' if balanced else 'unbalanced'}"
            self._emit(EventKind.REBALANCE_END, cause=cause, version=self._version_seen, n=moved, detail=detail)
        return balanced

    async def _target(self, due: RebalancePass, topics: tuple[str, ...], cause: str) -> list[MessageQueue] | None:
        """What this member should have, or None when nobody can tell yet.

        Of topics that the strategy fails for, that is what it has: others it may have to give up all the same.
        """
        if not topics:
            return []  # it has given the last one up, and there is no broker of its topics to ask
        last, self._last_target = self._last_target, None
        if last is not None and last[0] == topics and due.triggers == (Trigger.LOCK,):
            # Only a lease came free. If the group has changed as well, the pass for that is due after this one; and in
            # a large group, where one newcomer moves a queue of everybody, asking twice is half of all the work.
            self._last_target, self._version_seen = last, last[2]
            return last[1]
        view = await self._view(topics, cause)
        if view is None:
            return None
        await self._learn_topics_of_others(topics, view, cause)
        seen = (*topics, *self.topics_of_others)
        queues = {topic: self._instance.routes.subscribe_queues(topic) for topic in seen}
        client_id = self._instance.client_id
        target, self._undecided = allocate_topics(self._strategy, self._group, client_id, topics, queues, view)
        if self._undecided:
            target += [queue for queue in self.owned if queue.topic in self._undecided]
        else:
            self._last_target = topics, target, view.version
        return target

    async def _learn_topics_of_others(self, topics: tuple[str, ...], view: GroupView, cause: str) -> None:
        """Get the routes of topics that only other members have, if the strategy shares all topics out together."""
        if is_group_wide(self._strategy):
            of_group = {topic for of_member in view.members.values() for topic in of_member}
            self.topics_of_others = tuple(sorted(of_group.difference(topics)))
            unknown = [topic for topic in self.topics_of_others if self._instance.routes.route_of(topic) is None]
            if unknown:
                with suppress(NetworkError):  # what does not exist is asked for each time, and no pass may fail for it
                    await self._instance.update_routes(tuple(unknown), cause)

    async def _view(self, topics: tuple[str, ...], cause: str) -> GroupView | None:
        views, client_id = self._instance.views, self._instance.client_id
        fetched = await views.fetch(self._group, topics)
        if fetched is not None and client_id not in fetched[1].members:
            # The broker is new, or took us for dead. An allocation without us would give up everything we have.
            await self._instance.heartbeats.send(cause)
            fetched = await views.fetch(self._group, topics)
        if fetched is None or client_id not in fetched[1].members:
            return None
        self._version_seen = fetched[1].version
        return fetched[1]

    async def _apply_plan(self, target: list[MessageQueue], cause: str) -> tuple[int, bool]:
        """Go from what is owned towards the target; returns (queues moved, balanced)."""
        plan = plan_rebalance(self.owned, target)
        self._revoke([self.owned[queue] for queue in plan.revoke], cause)
        if plan.acquire and plan.revoke:
            await self._wait_idle_released(plan.revoke)
        self._reacquire = {queue: None for queue in plan.acquire if queue in self._releasing}
        wanted = [queue for queue in plan.acquire if queue not in self._releasing]
        kept = [owned for queue in plan.keep if (owned := self.owned.get(queue)) is not None]  # some may be lost by now
        again = self._leases.unconfirmed(kept)
        again += [queue for queue in self._possibly_granted if queue not in target and queue not in self._releasing]
        outcome = await self._leases.acquire(wanted + again, cause)
        for queue, grant in outcome.granted.items():
            self._possibly_granted.pop(queue, None)
            if queue in self.owned:
                self._regranted(self.owned[queue], grant, cause)
            elif not self._closing and queue not in self._releasing:
                self._granted(queue, grant, cause, keep=queue in target)
        for queue in outcome.refused:
            self._possibly_granted.pop(queue, None)
            if queue in self.owned:
                self._lost(self.owned[queue])
        for queue, error in outcome.failed.items():
            if not error.definite:
                self._possibly_granted[queue] = None
        acquired = sum(queue in self.owned for queue in wanted)
        confirmed = not any(queue in outcome.failed for queue in plan.keep)
        return acquired + len(plan.revoke), confirmed and self.owned.keys() == set(target)

    # --- gaining and losing queues -----------------------------------------------------------------------------------

    def _granted(self, queue: MessageQueue, grant: Grant, cause: str, *, keep: bool) -> None:
        process_queue = process_queue_for(self._options, grant.start_offset)
        owned = OwnedQueue(queue, grant.token, process_queue, cause, grant.session)
        if keep:
            self._start(owned)
            self._emit(EventKind.QUEUE_ACQUIRED, queue, cause=cause, version=grant.token, offset=grant.start_offset)
        else:
            # An earlier request was granted and its answer lost; by now the queue is another member's to have.
            self._releasing[queue] = owned
            self._background.start_soon(self._drain_and_release, [owned], cause)

    def _regranted(self, owned: OwnedQueue, grant: Grant, cause: str) -> None:
        """A lease that the broker may have ended, because it did not hear of us, is ours still or again."""
        committed = self._offsets.confirmed(owned.queue)
        if (committed or 0) <= grant.start_offset <= owned.commit_offset:
            owned.token, owned.session = grant.token, grant.session
            self._callbacks.arrived(owned)  # nothing was handed out meanwhile
            return
        # Another member had it meanwhile, and has committed what we would consume once more. Or the group was reset
        # while we were away: without that a broker never goes back behind what it has confirmed.
        self._lost(owned)
        if owned.queue not in self._releasing:
            self._granted(owned.queue, grant, cause, keep=True)

    def _set_back(self, queue: MessageQueue, offset: int) -> None:
        self._offsets.reset(queue, offset)

    def _lost(self, owned: OwnedQueue) -> None:
        """Another member has the queue. What listeners still have may be delivered twice; nothing is committed."""
        if self.owned.get(owned.queue) is not owned:
            return
        cause = self._report_dropped(owned, "lost")
        self._last_target = None  # perhaps it is not ours any more, and we have not heard
        self._abandon(owned, cause)
        self._instance.wake(self._group, Trigger.LOCK, cause)

    def _abandon(self, owned: OwnedQueue, cause: str) -> None:
        """Drop a queue whose lease is not good any more; it may be acquired again once no listener has messages of it.

        Begun again at once, it could hand out a message that a listener still has, or one before or behind it.
        RocketMQ: the lock of the process queue, without which a queue is not removed from the table.
        """
        del self.owned[owned.queue]
        owned.detached = True
        owned.stop()
        self._offsets.forget(owned.queue)
        if owned.process_queue.dispatched:
            self._releasing[owned.queue] = owned
            self._background.start_soon(self._drain_abandoned, owned, cause)

    def offsets_reset(self, queues: Collection[MessageQueue], token: int, cause: str) -> None:
        """Drop what was fetched of queues whose offset was set, and begin them again where it is now."""
        for queue in queues:
            owned = self.owned.get(queue)
            if owned is None or owned.token > token:
                continue
            self._report_dropped(owned, "reset", cause)
            self._abandon(owned, cause)
        self._instance.wake(self._group, Trigger.LOCK, cause)

    async def _drain_abandoned(self, owned: OwnedQueue, cause: str) -> None:
        await self._drain([owned])
        del self._releasing[owned.queue]
        self._released.set()
        self._instance.wake(self._group, Trigger.LOCK, cause)

    def _revoke(self, queues: list[OwnedQueue], cause: str) -> None:
        """Give queues up in the background: the idle ones in one request per broker, each busy one when it is done."""
        for owned in queues:
            del self.owned[owned.queue]
            self._releasing[owned.queue] = owned
            owned.stop()
            self._report_dropped(owned, "revoked", cause)
        idle: dict[str, list[OwnedQueue]] = {}
        for owned in queues:
            if owned.process_queue.dispatched:
                self._background.start_soon(self._drain_and_release, [owned], cause)
            else:
                idle.setdefault(owned.queue.broker_name, []).append(owned)
        for of_one_broker in idle.values():
            self._background.start_soon(self._drain_and_release, of_one_broker, cause)

    async def _wait_idle_released(self, revoked: Collection[MessageQueue]) -> None:
        """Give before taking: wait until those of these queues are given back that no listener has messages of.

        When a newcomer moves a queue from each member to the next, all of them do this at the same time. Whoever asked
        at once would be refused, told when its neighbour has given up, and ask again.
        """
        with anyio.move_on_after(_RELEASE_FIRST_WAIT_S):
            while any(
                not owned.process_queue.dispatched for q in revoked if (owned := self._releasing.get(q)) is not None
            ):
                await self._wait_released()

    async def _wait_released(self) -> None:
        if self._released.is_set():
            self._released = anyio.Event()
        await self._released.wait()

    async def _drain_and_release(self, queues: list[OwnedQueue], cause: str) -> None:
        await self._drain(queues)
        await self._release(queues, cause)
        for owned in queues:
            del self._releasing[owned.queue]
            self._offsets.forget(owned.queue)
        self._released.set()
        if any(owned.queue in self._reacquire for owned in queues):
            self._instance.wake(self._group, Trigger.LOCK, cause)

    async def _release(self, queues: list[OwnedQueue], cause: str) -> None:
        """Commit and give back until every broker has done it: a lease that nobody uses would strand its queue.

        A broker that is busy or stopping has not, one that refuses a commit has. One that is in no route may come back,
        and finds its leases where it left them; but at the end of the membership they end by themselves.
        """
        left = {owned.queue: owned for owned in queues}
        for owned in queues:
            owned.detached = True  # the commit below is the last word; a result after it is ignored
        rewinds = [o for o in queues if o.rewound or self._offsets.is_reset(o.queue)]
        if rewinds:
            # What is given back may not go backwards; so that has to be said before.
            await self._leases.commit([Commit(o.queue, o.commit_offset, o.token) for o in rewinds], cause, reset=True)
        told: set[tuple[MessageQueue, type[RlabError]]] = set()  # not the text: it says when the next attempt is
        while left:
            commits = [Commit(o.queue, o.commit_offset, o.token) for o in left.values()]
            failures = await self._leases.release(commits, cause)
            for queue, error in failures.items():
                if (queue, type(error)) not in told:
                    told.add((queue, type(error)))
                    logger.warning("%s: release of %s: %s", self._instance.client_id, queue, error)
            brokers = self._instance.routes.brokers()
            left = {
                queue: left[queue]
                for queue, error in failures.items()
                if isinstance(error, NetworkError | ServerError) and (queue.broker_name in brokers or not self._closing)
            }
            if left:
                await anyio.sleep(PULL_RETRY_ERROR_S)

    async def close(self, cause: str) -> None:
        """Give everything up: stop the intake, finish what listeners have, commit and unlock.

        If that takes a while, the group hears now that we want nothing any more, so that the others have what is idle.

        Cancellation: queues that are not given back yet end with the membership.
        """
        self._closing = True
        queues = list(self.owned.values())
        for owned in queues:
            owned.stop()
            self._report_dropped(owned, "shutdown", cause)
        self.owned.clear()
        with anyio.move_on_after(_SHUTDOWN_IDLE_WAIT_S):
            await self._drain(queues)
        busy = [owned for owned in queues if owned.process_queue.dispatched]
        await self._release_before_close([owned for owned in queues if owned not in busy], cause)
        if busy:
            told = partial(self._instance.heartbeats.send, cause)
            await run_together([told, *(partial(self._release_before_close, [owned], cause) for owned in busy)])
        with anyio.move_on_after(self._options.shutdown_grace_s + self._instance.config.request_timeout_s):
            while self._releasing:  # given up before, and released by their own tasks
                await self._wait_released()

    async def _release_before_close(self, queues: list[OwnedQueue], cause: str) -> None:
        await self._drain(queues)
        with anyio.move_on_after(self._instance.config.request_timeout_s):
            await self._release(queues, cause)

    # --- offsets -----------------------------------------------------------------------------------------------------

    async def persist(self) -> dict[MessageQueue, RlabError]:
        """Commit how far every queue has come; returns what is not taken now, and is tried again next time."""
        failures: dict[MessageQueue, RlabError] = {}
        for owned in self.owned.values():
            self._report_dispatched(owned)
            if owned.rewound:
                owned.rewound = False
                self._offsets.reset(owned.queue, owned.commit_offset)
            self._offsets.update(owned.queue, owned.commit_offset)
        for reset, offsets in self._offsets.split_dirty():
            failures |= await self._commit(offsets, reset)
        return failures

    async def _commit(self, offsets: dict[MessageQueue, int], reset: bool) -> dict[MessageQueue, RlabError]:
        owned = {queue: self.owned[queue] for queue in offsets if queue in self.owned}
        commits = [Commit(queue, offsets[queue], owned[queue].token) for queue in owned]
        failures = await self._leases.commit(commits, reset=reset)
        tokens = {commit.queue: commit.token for commit in commits}
        for queue, error in failures.items():
            logger.warning("%s: commit of %s: %s", self._instance.client_id, queue, error)
            # A lease that was renewed while the commit was under way is not lost: see `PullLoop`.
            if isinstance(error, LeaseLost) and owned[queue].token == tokens[queue]:
                self._lost(owned[queue])
        self._offsets.confirm({queue: offsets[queue] for queue in owned if queue not in failures})
        return failures
