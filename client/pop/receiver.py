"""Pops for one PopConsumer, from all brokers of its topics at the same time, and loses none of their messages.

A `receive` returns as soon as any broker has messages. Other brokers may answer a moment later, with messages that are
then invisible to all other consumers: these are *kept* for the next `receive`, and returned to the broker if none comes
soon. The pops of a `receive` that is cancelled are cancelled too, unless another one waits for their messages.

A broker that had messages the last time is asked again at once and alone (`had_messages`): under load one request is
one batch, and no broker pops more than was asked for. Brokers that had none are asked with long polls at the same time,
so an empty broker delays nothing and a full one starves no other.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass, field
from functools import partial

import anyio

from client.config import ServerDialect
from client.instance.schedule import RebalancePass
from client.pop.intake import PopIntake
from client.pop.message import PopMessage, handle_of
from client.pop.requests import PopTerms, targets_to_pop
from client.rebalance.ownership import MemberContext
from model.errors import (
    IllegalOperation,
    NetworkError,
    NoPermission,
    NotMaster,
    RequestCodeNotSupported,
    RlabError,
)
from model.limits import POP_KEEP_S
from model.message_queue import MessageQueue
from model.subscription import SubscriptionData
from remoting.deadline_driver import DeadlineDriver
from remoting.tasks import run_together

logger = logging.getLogger(__name__)

_FRESH, _SURE = 0.1, 0.6
"""A kept message is returned as it is if less than _FRESH of its invisible time passed here and less than _SURE since
the request was sent, because the travel time of the answer is unknown; otherwise the invisible time is extended first,
and a dead handle drops the message. With `renew`, the broker extends the messages of an answer that
came in time; a later answer's messages are extended here first."""
_LEAST_HOLD_S = 1.0
"""A long poll is held for up to half of the invisible time, but at least this long."""
_LINGER_S = 0.25
"""How long a `receive` that times out waits for the answers of its long polls, which end at the same time."""


@dataclass(slots=True, eq=False)
class _Target:
    """A topic on a broker, with the result of the last pop, and the number of outstanding ones.

    After a failure it is not asked again before the loop time `not_before`.
    """

    queue: MessageQueue
    had_messages: bool = True
    popping: int = 0
    error: RlabError | None = None
    not_before: float = 0.0
    failing_since: float | None = None


@dataclass(slots=True, eq=False)
class _Kept:
    """The messages of one answer, the loop times of request and answer, and their invisible time."""

    messages: list[PopMessage]
    sent_at: float
    received_at: float
    invisible_s: float
    renew: bool  # whether their broker extends them once it is asked to (KEEP_MESSAGES)

    @property
    def is_late(self) -> bool:
        """Whether the answer took so long that another member may have received its messages."""
        return self.received_at - self.sent_at > _SURE * self.invisible_s

    def is_fresh(self, now: float) -> bool:
        """Whether this client certainly still has the messages, without a further request."""
        if self.renew:
            return not self.is_late
        return now - self.received_at <= _FRESH * self.invisible_s and now - self.sent_at <= _SURE * self.invisible_s


@dataclass(slots=True, eq=False)
class _Receive:
    """One `receive` call: its arguments, the targets asked, its outstanding short requests, and its wake-up."""

    max_n: int
    invisible_s: float
    renew: bool
    deadline: float
    asked: dict[_Target, None] = field(default_factory=dict)
    hurrying: int = 0
    news: asyncio.Future[bool] | None = None
    is_cancelled: bool = False

    def wake(self, news: bool = True) -> None:
        """End its wait, with or without news."""
        if self.news is not None and not self.news.done():
            self.news.set_result(news)


_Outcome = list[PopMessage] | RlabError
"""The result of a pop."""
_Popped = Callable[[_Outcome], None]


class PopReceiver(PopIntake):
    """See the module header."""

    def __init__(self, context: MemberContext, *, order: bool) -> None:
        super().__init__(context, order=order, retry_s=0)
        self._targets: dict[MessageQueue, _Target] = {}
        self._kept: deque[_Kept] = deque()
        # Waiting calls, the longest first. An answer with messages wakes one of them.
        self._waiting: dict[_Receive, None] = {}
        self._closing = False
        self._loop = asyncio.get_running_loop()
        self._driver = DeadlineDriver(self._next_return, self._return_old)
        context.background.start_soon(self._driver.run)

    async def rebalance(self, due: RebalancePass, topics: tuple[str, ...]) -> bool:
        """Find the brokers that have the topics. See `QueueOwnership.rebalance`."""
        places = targets_to_pop(self._context.instance.routes, topics)
        self._targets = {queue_key: self._targets.get(queue_key) or _Target(queue_key) for queue_key in places}
        for target in self._targets.values():
            target.not_before = 0.0  # a broker may be back
        self._wake_all()
        return True

    # --- receiving ---------------------------------------------------------------------------------------------------

    async def receive(self, max_n: int, invisible_s: float, wait_s: float, *, renew: bool) -> list[PopMessage]:
        """See `PopConsumer.receive`."""
        if renew and self._context.instance.config.dialect is ServerDialect.ROCKETMQ:
            raise RequestCodeNotSupported("a broker of RocketMQ extends no invisible times: receive without `renew`")
        this = _Receive(max_n, invisible_s, renew, self._loop.time() + wait_s)
        while True:
            if self._closing:
                raise IllegalOperation("this consumer was shut down during a receive")
            messages = await self._poll_kept(this)
            if messages:
                self._wake_one()  # to take the rest, or to ask next
                return messages
            now = self._loop.time()
            if now >= this.deadline and not self._is_answered_later(this):
                break
            self._ask(this, now)
            if await self._wait(this, self._patience_s(this, now)):
                continue
            if self._loop.time() >= this.deadline + _LINGER_S:
                break
        errors = [target.error for target in self._targets.values() if target.error is not None]
        if errors and len(errors) == len(self._targets):
            raise copy(errors[0])  # each caller's own: one that stays would collect all their tracebacks
        return []

    async def _wait(self, this: _Receive, patience_s: float) -> bool:
        """Wait for a wake-up; returns False after the time."""
        # A timer and a future cost a third of a cancel scope and an event, and every `receive` comes here.
        news: asyncio.Future[bool] = self._loop.create_future()
        this.news = news
        self._waiting[this] = None
        timer = self._loop.call_later(patience_s, this.wake, False)
        try:
            return await news
        except BaseException:
            self._wake_one()  # a cancelled call must not swallow the wake-up of another
            if not self._waiting:
                self._cancel_pops(this)
            raise
        finally:
            timer.cancel()
            self._waiting.pop(this, None)

    def _cancel_pops(self, this: _Receive) -> None:
        """Let parked pops of a cancelled call take no messages, and return messages that come all the same."""
        this.is_cancelled = True
        for broker_name in dict.fromkeys(target.queue.broker_name for target in this.asked if target.popping):
            self.requests.cancel(broker_name)

    def _is_answered_later(self, this: _Receive) -> bool:
        """Whether this `receive` has outstanding requests, or has not sent any yet."""
        if not this.asked:
            return bool(self._targets)
        return any(target.popping for target in this.asked)

    def _patience_s(self, this: _Receive, now: float) -> float:
        """How long this call may wait for a wake-up."""
        if now >= this.deadline:
            return _LINGER_S
        retries = [t.not_before for t in self._targets.values() if not t.popping and t.not_before > now]
        return min([this.deadline, *retries]) - now

    def _ask(self, this: _Receive, now: float) -> None:
        left_s = max(0.0, this.deadline - now)
        # A target that had messages moves to the end, so that the others get their turn.
        for target in list(self._targets.values()):
            subscription = self._context.subscription_of(target.queue.topic)
            # An unsubscribed topic stays a target until the next pass.
            if subscription is None or target.not_before > now or (left_s == 0 and target in this.asked):
                continue
            if target.had_messages and not this.hurrying:
                self._start(target, subscription, this, 0.0)
            elif not target.had_messages and not target.popping:
                self._start(target, subscription, this, left_s)

    def _start(self, target: _Target, subscription: SubscriptionData, this: _Receive, suspend_s: float) -> None:
        """Ask a broker in the background, so that a cancelled `receive` loses nothing."""
        this.asked[target] = None
        target.popping += 1
        self._outstanding += 1
        this.hurrying += not suspend_s
        suspend_ms = int(min(suspend_s, max(_LEAST_HOLD_S, this.invisible_s / 2)) * 1000)
        terms = PopTerms(max_n=this.max_n, invisible_ms=round(this.invisible_s * 1000), suspend_ms=suspend_ms)
        broker_name = target.queue.broker_name
        popped = partial(self._popped, target, this, suspend_s, self._loop.time())
        # A task only for requests that cannot be sent at once: it would cost more than the rest of the request.
        if not self.requests.start_pop(broker_name, subscription, popped, **terms):
            self._context.background.start_soon(self._pop, broker_name, subscription, terms, popped)

    async def _pop(self, broker: str, subscription: SubscriptionData, terms: PopTerms, popped: _Popped) -> None:
        outcome: _Outcome = []
        try:
            outcome = await self.requests.pop(broker, subscription, **terms)
        except RlabError as error:
            outcome = error
        finally:
            popped(outcome)

    def _popped(self, target: _Target, this: _Receive, suspend_s: float, sent_at: float, outcome: _Outcome) -> None:
        has_messages = False
        target.popping -= 1
        this.hurrying -= not suspend_s
        if isinstance(outcome, RlabError):
            self._failed(target, outcome)
        else:
            has_messages = bool(outcome)
            target.error, target.failing_since, target.had_messages = None, None, has_messages
            instance = self._context.instance
            if instance.refusals.refused:
                instance.refusals.discard(instance.client_id, self._context.group, target.queue)
            if has_messages:
                if self._targets.get(target.queue) is target:  # unless a pass has removed it
                    self._targets[target.queue] = self._targets.pop(target.queue)
                self._keep(target, outcome, sent_at, this)
        if has_messages:
            self._wake_one()
        elif suspend_s:
            self._wake_all()
        else:
            this.wake()
        self._outstanding -= 1
        if self._closing and not self._outstanding:
            self._idle.set()

    def _failed(self, target: _Target, error: RlabError) -> None:
        instance = self._context.instance
        if (subscription := self._context.subscription_of(target.queue.topic)) is not None:
            error = subscription.explained(error, target.queue.broker_name)
        if isinstance(error, NoPermission | RequestCodeNotSupported):
            instance.refusals.add(instance.client_id, self._context.group, target.queue, error)
        else:
            level = logging.DEBUG if isinstance(error, NetworkError | NotMaster) else logging.WARNING
            topic, broker_name, _ = target.queue
            logger.log(level, "%s: pop of %s on %s: %s", instance.client_id, topic, broker_name, error)
        now, broker_name = self._loop.time(), target.queue.broker_name
        target.not_before = now + instance.pause_s(broker_name)
        if target.failing_since is None:
            target.failing_since = now
        # A set that changes its master is as good as one without messages, for as long as other requests wait for it.
        if not instance.is_worth_waiting(broker_name, error, repeats=True) or (
            now - target.failing_since >= instance.config.request_timeout_s
        ):
            target.error = error

    def _wake_one(self) -> None:
        for this in self._waiting:
            del self._waiting[this]
            this.wake()
            return

    def _wake_all(self) -> None:
        for this in self._waiting:
            this.wake()
        self._waiting.clear()

    # --- kept messages -----------------------------------------------------------------------------------------------

    def _keep(self, target: _Target, messages: list[PopMessage], sent_at: float, this: _Receive) -> None:
        matching = self.matching(target.queue.topic, messages)
        if self._closing or matching is None or (this.is_cancelled and not self._waiting):
            self._return(messages if matching is None else matching)
        elif matching:
            batch = _Kept(matching, sent_at, self._loop.time(), this.invisible_s, this.renew)
            if this.renew and not batch.is_late:
                self.requests.keep(matching)
            self._kept.append(batch)
            self._driver.wake_by(_return_at(self._kept[0]))

    async def _poll_kept(self, this: _Receive) -> list[PopMessage]:
        """Up to max_n kept messages; those that lost much of their invisible time are extended first."""
        now = self._loop.time()
        polled: list[PopMessage] = []
        stale: list[PopMessage] = []
        while self._kept and len(polled) + len(stale) < this.max_n:
            batch, n_left = self._kept[0], this.max_n - len(polled) - len(stale)
            if (batch.renew or this.renew) and (batch.renew, batch.invisible_s) != (this.renew, this.invisible_s):
                # `_renew` would give them handles that the broker does not extend.
                self._return(self._kept.popleft().messages)
                continue
            chosen, batch.messages = batch.messages[:n_left], batch.messages[n_left:]
            if not batch.messages:
                self._kept.popleft()
            (polled if batch.is_fresh(now) and batch.invisible_s == this.invisible_s else stale).extend(chosen)
        if not stale:
            return polled
        extended = await self._renew(stale, polled, this.invisible_s)
        if this.renew and extended:
            self.requests.keep(extended)
        return polled + extended

    async def _renew(self, stale: list[PopMessage], polled: list[PopMessage], invisible_s: float) -> list[PopMessage]:
        good: dict[int, PopMessage] = {}

        async def renew(n: int, message: PopMessage) -> None:
            try:
                token, visible_ms = await self.requests.change_invisible(*handle_of(message), round(invisible_s * 1000))
            except RlabError as error:
                logger.debug("%s: %r was delivered elsewhere: %s", self._context.instance.client_id, message, error)
            else:
                message.renewed(token, visible_ms)
                good[n] = message

        try:
            await run_together([partial(renew, n, message) for n, message in enumerate(stale)])
        except BaseException:
            # The call was cancelled. Keep only messages that are certainly still ours.
            now = self._loop.time()
            self._kept.appendleft(_Kept([*polled, *good.values()], now, now, invisible_s, False))
            self._driver.wake_by(_return_at(self._kept[0]))
            raise
        return [good[n] for n in sorted(good)]

    def _next_return(self) -> float | None:
        return _return_at(self._kept[0]) if self._kept else None

    def _return_old(self, now: float) -> None:
        while self._kept and _return_at(self._kept[0]) <= now:
            self._return(self._kept.popleft().messages)

    def _return(self, messages: Iterable[PopMessage]) -> None:
        by_broker: dict[str, list[PopMessage]] = {}
        for message in messages:
            by_broker.setdefault(message.queue.broker_name, []).append(message)
        for broker_name, of_broker in by_broker.items():
            self.start(self._give_back, broker_name, of_broker)

    async def _give_back(self, broker_name: str, messages: list[PopMessage]) -> None:
        rows: dict[tuple[str, int, int], list[int]] = {}
        for message in messages:
            rows.setdefault((message.queue.topic, message.queue.queue_id, message.token), []).append(message.offset)
        try:
            await self.requests.give_back(broker_name, rows)
        except RequestCodeNotSupported:  # a broker of RocketMQ, which counts the delivery
            for message in messages:
                self.change_invisible(message, 0)
        except RlabError as error:
            client_id = self._context.instance.client_id
            logger.debug("%s: %d messages not returned to %s: %s", client_id, len(messages), broker_name, error)

    # --- the end -----------------------------------------------------------------------------------------------------

    async def close(self, cause: str) -> None:
        """Receive no more, and return kept messages to their brokers; see `QueueOwnership.close`.

        Cancellation: messages that are not returned are redelivered when their time ends.
        """
        self._closing = True
        self._wake_all()
        undelivered = [message for batch in self._kept for message in batch.messages]
        self._kept.clear()
        await self.leave(cause)
        with anyio.move_on_after(self._context.instance.config.request_timeout_s):
            self._return(undelivered)
            await self.wait_idle()


def _return_at(batch: _Kept) -> float:
    return batch.received_at + min(POP_KEEP_S, batch.invisible_s / 2)
