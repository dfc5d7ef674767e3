"""Queues that a consumer owns under leases: carries out the plans of `client/rebalance/plan.py`.

RocketMQ: RebalanceImpl.updateProcessQueueTableInRebalance, RebalancePushImpl. A queue passes through

    acquire: lease granted -> OwnedQueue, pull loop starts                                 QUEUE_ACQUIRED
    revoke:  stop pulling -> drain (up to a grace) -> commit and release the lease         QUEUE_DROPPED
    lost:    a pull or commit answers that another member owns it: stop, commit nothing    QUEUE_DROPPED
    reset:   the group's offset was set: stop, drain, acquire it again                     QUEUE_DROPPED

A revoked queue does not delay the others: it is drained and released in the background. The broker then notifies the
member that waits for it (LOCK there). A queue that is in the target again before its release is acquired after it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from functools import partial

import anyio

from client.allocate import AllocateMessageQueueStrategy
from client.allocate.strategy import is_group_wide
from client.instance.schedule import RebalancePass
from client.leases.offsets_to_commit import OffsetsToCommit
from client.leases.prompt_commits import PromptCommits
from client.leases.requests import Commit, Grant, LeaseRequests
from client.pull.owned_queue import OwnedQueue, process_queue_for
from client.rebalance.ownership import MemberContext
from client.rebalance.plan import DecidedTarget, StrategyError, allocate_topics, plan_rebalance
from client.rebalance.pulled_queues import PulledQueues
from client.trigger import Trigger
from model.errors import ClientIdConflict, LeaseLost, NetworkError, OffsetRegression, RlabError, ServerError
from model.events import EventKind
from model.heartbeat import GroupView
from model.limits import PULL_RETRY_ERROR_S
from model.message_queue import MessageQueue
from remoting.tasks import run_together

logger = logging.getLogger(__name__)

_SHUTDOWN_IDLE_WAIT_S = 0.05
"""Wait for listeners before a shutdown announces itself: sooner done, the group has one rebalance instead of two."""

_RELEASE_FIRST_WAIT_S = 0.25
"""Longest wait for the release of revoked queues before others are acquired: a broker may hang."""

_ABOUT_MEMBERS = frozenset({Trigger.NOTIFY, Trigger.LOCK})
"""Triggers of a pass that asks for no list if the notification brought it: the others heal a lost notification."""

_NOT_DONE = (NetworkError, ServerError)
"""After these a broker may not have done what it was asked. It is asked again."""


class LeasedQueues(PulledQueues):
    """The queues of one member that it has leases of."""

    _offsets: OffsetsToCommit

    def __init__(self, context: MemberContext, strategy: AllocateMessageQueueStrategy) -> None:
        super().__init__(context, OffsetsToCommit())
        self._strategy = strategy
        self._leases = LeaseRequests(context.instance, context.group)
        self._prompt = PromptCommits(self._commit_promptly)
        self._background.start_soon(self._prompt.run)
        self._reacquire: dict[MessageQueue, None] = {}
        self._released = anyio.Event()
        self._version_seen = -1
        self._undecided: dict[str, StrategyError] = {}  # topics for which the strategy failed in this pass
        self._decided: DecidedTarget | None = None
        # Queues that may have been granted by an answer that was lost.
        self._possibly_granted: dict[MessageQueue, None] = {}

    # --- rebalance ---------------------------------------------------------------------------------------------------

    async def rebalance(self, due: RebalancePass, topics: tuple[str, ...]) -> bool:
        """See `QueueOwnership`: find the target, then revoke and acquire.

        StrategyError: the strategy failed; nothing was changed of the topics for which it did. RlabError: the member
        list could not be fetched; nothing was changed.

        Cancellation: a lease that was granted unseen is granted again in the next pass.
        """
        if due.triggers == (Trigger.NOTIFY,) and self._is_known(topics):
            return True
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

    def _is_known(self, topics: tuple[str, ...]) -> bool:
        """Whether a notification brings nothing: a pass would plan as the last one did, and that has been done."""
        # Each broker of the group notifies of a change, and every member plans with the list of the first of them.
        last, told = self._decided, self._instance.views.told(self._group, topics)
        if last is None or told is None or last.topics != topics or self.topics_of_others:
            return False  # of topics of others, a route may still be unknown
        queues = {topic: self._instance.routes.subscribe_queues(topic) for topic in topics}
        done = last.is_from(told.view, queues) and self.owned.keys() == set(last.target) and not self._possibly_granted
        return done and not self._leases.unconfirmed(self.owned.values())

    async def _target(self, due: RebalancePass, topics: tuple[str, ...], cause: str) -> list[MessageQueue] | None:
        """The target of this member; None if it cannot be computed yet.

        For a topic for which the strategy fails, the target is what the member owns; queues of others may be revoked.
        """
        if not topics:
            return []  # it has unsubscribed from the last one, and there is no broker of its topics to ask
        last, self._decided = self._decided, None
        if last is not None and last.topics == topics and due.triggers == (Trigger.LOCK,):
            # Only a lease is free. If the group has changed as well, the pass for that is due after this one; and in a
            # large group, where a newcomer moves a queue of every member, a second request is half of all the work.
            self._decided, self._version_seen = last, last.view.version
            return last.target
        view = await self._view(topics, cause, notified=set(due.triggers) <= _ABOUT_MEMBERS)
        if view is None:
            return None
        seen = (*topics, *self.topics_of_others)
        queues = {topic: self._instance.routes.subscribe_queues(topic) for topic in seen}
        if last is not None and last.topics == topics and last.is_from(view, queues):
            self._decided = last  # nearly every pass is one of the timer that finds nothing new
            return last.target
        client_id = self._instance.client_id
        target, self._undecided = allocate_topics(self._strategy, self._group, client_id, topics, queues, view)
        if self._undecided:
            target += [queue for queue in self.owned if queue.topic in self._undecided]
        else:
            self._decided = DecidedTarget(topics, view, queues, target)
        return target

    async def _view(self, topics: tuple[str, ...], cause: str, *, notified: bool = False) -> GroupView | None:
        """The member list of the group; None if it cannot be had, or this member is not in it."""
        views, client_id = self._instance.views, self._instance.client_id
        fetched = await views.fetch(self._group, topics, notified=notified)
        if fetched is not None and client_id not in fetched.view.members:
            # The broker is new, or our session expired there. A target without us would revoke everything we own.
            await self._instance.heartbeats.send(cause)
            fetched = await views.fetch(self._group, topics)
        if fetched is None or client_id not in fetched.view.members:
            return None
        if fetched.notify_in_s and not self.owned and len(fetched.view.members) > 1:
            # More members are joining. Until that pauses, others own what we would ask for: the notification that is
            # on its way begins the one pass that counts.
            return None
        self._version_seen = fetched.view.version
        if is_group_wide(self._strategy):
            self.topics_of_others = tuple(sorted(fetched.view.topics().difference(topics)))
            await self._instance.learn_routes(self.topics_of_others, cause)
        return fetched.view

    async def _apply_plan(self, target: list[MessageQueue], cause: str) -> tuple[int, bool]:
        """Revoke and acquire towards the target; returns (queues moved, balanced)."""
        plan = plan_rebalance(self.owned, target)
        self._revoke([self.owned[queue] for queue in plan.revoke], cause)
        if plan.acquire and plan.revoke:
            await self._wait_idle_released(plan.revoke)
        self._reacquire = {queue: None for queue in plan.acquire if queue in self._releasing}
        wanted = [queue for queue in plan.acquire if queue not in self._releasing]
        kept = [owned for queue in plan.keep if (owned := self.owned.get(queue)) is not None]  # some may be lost by now
        again = self._leases.unconfirmed(kept)
        again += [queue for queue in self._possibly_granted if queue not in target and queue not in self._releasing]
        # What was confirmed before the request: commits may pass a grant that waits here for another broker's answer.
        confirmed_before = {queue: self._offsets.confirmed(queue) for queue in again}
        outcome = await self._leases.acquire(wanted + again, cause)
        for queue, grant in outcome.granted.items():
            self._possibly_granted.pop(queue, None)
            if queue in self.owned:
                self._regranted(self.owned[queue], grant, confirmed_before.get(queue), cause)
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

    def _start(self, owned: OwnedQueue) -> None:
        owned.on_unsent = self._prompt.note
        super()._start(owned)

    # --- gaining and losing queues -----------------------------------------------------------------------------------

    def _granted(self, queue: MessageQueue, grant: Grant, cause: str, *, keep: bool) -> None:
        process_queue = process_queue_for(self._options, grant.start_offset)
        owned = OwnedQueue(queue, grant.token, process_queue, cause, grant.session)
        if keep:
            self._acquired(owned)
        else:
            # Granted by an earlier request whose answer was lost; now the queue is in the target of another member.
            self._releasing[queue] = owned
            self._background.start_soon(self._drain_and_release, [owned], cause)

    def _regranted(self, owned: OwnedQueue, grant: Grant, confirmed: int | None, cause: str) -> None:
        """The broker has confirmed or renewed a lease that may have ended with our session.

        `confirmed` is the offset that it had taken before it was asked.
        """
        if (confirmed or 0) <= grant.start_offset <= owned.commit_offset:
            owned.token, owned.session = grant.token, grant.session
            owned.sent_commit = 0  # what was sent under the old lease may have been refused
            self._callbacks.arrived(owned)  # nothing was dispatched while the lease was in doubt
            return
        # Another member owned it in between, and has committed messages that we would consume again. Or the group was
        # reset while we were away: without a reset, a broker never goes back behind an offset that it has confirmed.
        self._lost(owned)
        if owned.queue not in self._releasing:
            self._granted(owned.queue, grant, cause, keep=True)

    def _lost(self, owned: OwnedQueue) -> None:
        """Drop a queue that another member owns. Messages with listeners may be duplicates; nothing is committed."""
        if self.owned.get(owned.queue) is not owned:
            return
        cause = self._report_dropped(owned, "lost")
        self._decided = None  # the target may have changed unseen
        self._abandon(owned, cause)
        self._instance.wake(self._group, Trigger.LOCK, cause)

    def _abandon(self, owned: OwnedQueue, cause: str) -> None:
        """Drop a queue whose lease is not valid any more; it may be acquired again once it is drained.

        Acquired at once, it could dispatch a message that a listener still has, or one before or after it.
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
        """Drop the messages of queues whose offset was set, and acquire the queues again, to begin at the new offset.

        Leases up to the token were revoked by the broker; a later one begins at the new offset already.
        """
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
        """Drain and release queues in the background: idle ones in one request per broker, busy ones each alone."""
        self._begin_release(queues, cause)
        idle: dict[str, list[OwnedQueue]] = {}
        for owned in queues:
            if owned.process_queue.dispatched:
                self._background.start_soon(self._drain_and_release, [owned], cause)
            else:
                idle.setdefault(owned.queue.broker_name, []).append(owned)
        for of_one_broker in idle.values():
            self._background.start_soon(self._drain_and_release, of_one_broker, cause)

    async def _wait_idle_released(self, revoked: Collection[MessageQueue]) -> None:
        """Release before acquiring: wait for the release of those of these queues that are idle.

        When a newcomer moves a queue from each member to the next, all of them do this at the same time. A member that
        acquired at once would be refused, notified of the release by its neighbour, and ask again.
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
        """Commit and release until every broker has done it: an unused lease would strand its queue.

        A broker that is busy or stopping has not done it; one that refuses a commit has. One that is in no route may
        come back with its leases; but at the end of the membership they end by themselves.
        """
        left = {owned.queue: owned for owned in queues}
        for owned in queues:
            owned.detached = True  # the commit below is the last; a result after it is ignored
        rewinds = {owned.queue for owned in queues if owned.rewound or self._offsets.is_reset(owned.queue)}
        logged: set[tuple[MessageQueue, type[RlabError]]] = set()  # not the text: it says when the next attempt is
        while left:
            # The commit of a release may not go backwards, so a reset has to be committed before.
            resets = [Commit(o.queue, o.commit_offset, o.token) for o in left.values() if o.queue in rewinds]
            failures = await self._leases.commit(resets, cause, reset=True)
            rewinds = {queue for queue, error in failures.items() if isinstance(error, _NOT_DONE)}
            commits = [Commit(o.queue, o.commit_offset, o.token) for o in left.values() if o.queue not in rewinds]
            failures |= await self._leases.release(commits, cause)
            for queue, error in failures.items():
                if (queue, type(error)) not in logged:
                    logged.add((queue, type(error)))
                    logger.warning("%s: release of %s: %s", self._instance.client_id, queue, error)
            brokers = self._instance.routes.brokers()
            left = {
                queue: left[queue]
                for queue, error in failures.items()
                if isinstance(error, _NOT_DONE) and (queue.broker_name in brokers or not self._closing)
            }
            if left:
                await anyio.sleep(PULL_RETRY_ERROR_S)

    async def close(self, cause: str) -> None:
        """Release everything: stop pulling, drain, commit and release the leases.

        If that takes a while, a heartbeat without subscriptions lets the other members own the idle queues now.

        Cancellation: leases that are not released yet end with the membership.
        """
        self._closing = True
        queues = list(self.owned.values())
        for owned in queues:
            owned.stop()
            self._report_dropped(owned, "shutdown", cause)
        self.owned.clear()
        queues += self._orphaned()
        with anyio.move_on_after(_SHUTDOWN_IDLE_WAIT_S):
            await self._drain(queues)
        busy = [owned for owned in queues if owned.process_queue.dispatched]
        await self._release_before_close([owned for owned in queues if owned not in busy], cause)
        if busy:
            heartbeat = partial(self._instance.heartbeats.send, cause)
            await run_together([heartbeat, *(partial(self._release_before_close, [owned], cause) for owned in busy)])
        with anyio.move_on_after(self._options.shutdown_grace_s + self._instance.config.request_timeout_s):
            while self._releasing:  # revoked before, and released by their own tasks
                await self._wait_released()

    async def _release_before_close(self, queues: list[OwnedQueue], cause: str) -> None:
        await self._drain(queues)
        with anyio.move_on_after(self._instance.config.request_timeout_s):
            await self._release(queues, cause)

    # --- offsets -----------------------------------------------------------------------------------------------------

    async def persist(self) -> dict[MessageQueue, RlabError]:
        """See `PulledQueues`."""
        failures: dict[MessageQueue, RlabError] = {}
        self._take_offsets()
        for reset, offsets in self._offsets.split_dirty():
            held = {self.owned[queue]: offset for queue, offset in offsets.items() if queue in self.owned}
            failed = await self._commit(held, reset=reset)
            self._offsets.confirm({o.queue: offset for o, offset in held.items() if o.queue not in failed})
            failures |= failed
        return failures

    async def _commit_promptly(self, queues: list[OwnedQueue]) -> None:
        """Commit what no pull has taken along. It is not confirmed by that: a broker that crashes may lose it."""
        wanted = [owned for owned in queues if not (owned.detached or self._offsets.is_reset(owned.queue))]
        offsets = {owned: offset for owned in wanted if (offset := owned.take_commit()) is not None}
        if offsets:
            await self._commit(offsets, soon=True)

    async def _commit(
        self, offsets: dict[OwnedQueue, int], *, reset: bool = False, soon: bool = False
    ) -> dict[MessageQueue, RlabError]:
        commits = [Commit(owned.queue, offset, owned.token) for owned, offset in offsets.items()]
        failures = await self._leases.commit(commits, reset=reset, soon=soon)
        for owned, commit in zip(offsets, commits, strict=True):
            error = failures.get(owned.queue)
            if error is None or (soon and (owned.detached or isinstance(error, OffsetRegression))):
                continue  # a pull or the release with a later offset has overtaken it
            owned.sent_commit = 0
            logger.warning("%s: commit of %s: %s", self._instance.client_id, owned.queue, error)
            # A lease that was renewed while the commit was outstanding is not lost: see `PullLoop`. With a conflict
            # another process lives under our client id, and so our leases are its own.
            if isinstance(error, LeaseLost | ClientIdConflict) and owned.token == commit.token:
                self._lost(owned)
        return failures
