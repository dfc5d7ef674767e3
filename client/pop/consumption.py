"""What one push consumer in POP mode has: messages of any queue, each of them for itself, and no queues.

RocketMQ: RebalanceImpl.updateMessageQueueAssignment, ConsumeMessagePopConcurrentlyService. It stands beside
`client/rebalance/leased_queues.py`, which shares whole queues out. A message passes through

    popped    invisible to all others for `invisible_s`; again and again, while it waits or a listener has it
    success   acknowledged, with the others of the same turn of the loop
    failure   invisible for the retry delay, then it comes again from its own queue, to whoever pops it
    late      its handle died: it is another consumer's by now; what the listener says is ignored and counted

Nobody has to be balanced: a pass only finds out which brokers have the topics.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial

import anyio

from client.instance.schedule import RebalancePass
from client.listeners.listener import ConsumeResult
from client.listeners.send_back import SendBack
from client.listeners.worker_pool import WorkerPool
from client.options import ConsumeOrder
from client.pop.acks import PopAcks
from client.pop.loop import PopLoop
from client.pop.message import PopMessage, handle_of
from client.pop.process_queue import Popped, PopProcessQueue, not_renewed, renewed
from client.pop.requests import PopOptions, PopRequests, places_to_pop
from client.pull.owned_queue import OwnedQueue
from client.rebalance.ownership import MemberContext
from model.errors import ReceiptHandleDead, RlabError
from model.limits import MAX_INVISIBLE_MS, PULL_RETRY_ERROR_S
from model.message import MessageExt, retry_delay_ms
from model.message_queue import MessageQueue
from remoting.deadline_driver import DeadlineDriver

logger = logging.getLogger(__name__)

_DONE = (ConsumeResult.SUCCESS, ConsumeResult.COMMIT)


class PopConsumption:
    """The messages of one member.

    Args:
        listen: calls the listener of messages.

    Attributes:
        owned: queues it has: none, in this mode.
        topics_of_others: see `LeasedQueues`; none.
        pool: its workers.
        late: results that came after the handle of their message had died.
    """

    def __init__(
        self, context: MemberContext, listen: Callable[[Sequence[MessageExt]], Awaitable[ConsumeResult]]
    ) -> None:
        instance, group, options, background = context.instance, context.group, context.options, context.background
        self.owned: dict[MessageQueue, OwnedQueue] = {}
        self.topics_of_others: tuple[str, ...] = ()
        self.pool = WorkerPool(self._consume, max_workers=options.max_workers, batch_size=options.consume_batch)
        self._late = 0
        self._instance = instance
        self._group = group
        self._options = options
        self._background = background
        self._subscription_of = context.subscription_of
        self._listen = listen
        self._in_order = options.order != ConsumeOrder.NONE
        self._invisible_s = options.invisible_s
        self._requests = PopRequests(
            instance,
            group,
            PopOptions(
                consume_from=options.consume_from,
                consume_timestamp_ms=options.consume_timestamp_ms,
                order=self._in_order,
                max_attempts=options.max_attempts + 1,
            ),
        )
        self._acks = PopAcks(instance, self._requests, background, retry_s=options.invisible_s)
        self._send_back = SendBack(instance, group, options.max_attempts, options.retry_delay_ms)
        self._loops: dict[MessageQueue, PopLoop] = {}
        self._ending: dict[PopLoop, None] = {}
        self._queues: dict[MessageQueue, PopProcessQueue] = {}
        self._changing = 0
        self._changed = anyio.Event()
        self._closing = False
        self._loop = asyncio.get_running_loop()
        self._driver = DeadlineDriver(self._next_renewal, self._renew)
        background.start_soon(self._driver.run)
        self.pool.start(background)

    @property
    def late(self) -> int:
        """See the class."""
        return self._late + self._acks.late

    @property
    def unfinished(self) -> int:
        """Messages that wait or that listeners have."""
        return sum(len(queue) for queue in self._queues.values())

    # --- brokers -----------------------------------------------------------------------------------------------------

    async def rebalance(self, due: RebalancePass, topics: tuple[str, ...]) -> bool:
        """Pop the topics on every broker that has them, and no others. See `LeasedQueues.rebalance`."""
        self.pop_from(places_to_pop(self._instance.routes, topics))
        return True

    def pop_from(self, queues: Collection[MessageQueue]) -> None:
        """Pop exactly these from now on.

        Args:
            queues: with `pop_requests.ANY_QUEUE` as the id for all queues of a topic on a broker.
        """
        if self._closing:
            return
        for queue in [queue for queue in self._loops if queue not in queues]:
            self._stop(self._loops.pop(queue))
        for queue in queues:
            if queue not in self._loops:
                loop = self._loops[queue] = PopLoop(
                    self._instance,
                    self._requests,
                    queue,
                    self._subscription_of,
                    self._arrived,
                    invisible_s=self._invisible_s,
                    max_unfinished=self._options.max_unacked,
                )
                self._background.start_soon(self._run, loop)
        for queue in [queue for queue, popped in self._queues.items() if not popped and not popped.offered]:
            del self._queues[queue]

    async def _run(self, loop: PopLoop) -> None:
        try:
            await loop.run()
        finally:
            self._ending.pop(loop, None)
            self._note_change()

    def _stop(self, loop: PopLoop) -> None:
        self._ending[loop] = None
        loop.stop()

    def _arrived(self, loop: PopLoop, messages: list[PopMessage], sent_at: float) -> None:
        subscription = self._subscription_of(loop.queue.topic)
        tags = subscription.tags if subscription is not None else None
        by_queue: dict[MessageQueue, list[PopMessage]] = {}
        for message in messages:
            if loop.stopping or subscription is None:
                self._change(message, sent_at + self._invisible_s, 0)
            elif tags is not None and message.queue.topic == loop.queue.topic and message.tags not in tags:
                self._acks.add(handle_of(message))  # the broker compares hashes; two tags may share one
            else:
                by_queue.setdefault(message.queue, []).append(message)
        for queue, mine in by_queue.items():
            popped = self._queues.get(queue)
            if popped is None:
                popped = self._queues[queue] = PopProcessQueue(queue, in_order=self._in_order)
            loop.unfinished += len(mine)
            popped.put(mine, sent_at, self._invisible_s, loop.finished)
            self.pool.offer(popped)
            self._driver.wake_by(popped.next_deadline() or sent_at)

    # --- listeners ---------------------------------------------------------------------------------------------------

    async def _consume(self, queue: PopProcessQueue, messages: list[MessageExt]) -> None:
        result = await self._listen(messages)
        if result in _DONE:
            self._end(queue, messages, self._acknowledge)
        elif self._in_order:
            await self._failed_in_order(queue, messages)
        else:
            self._end(queue, messages, self._later)

    def _end(self, queue: PopProcessQueue, messages: Sequence[MessageExt], act: Callable[[Popped], None]) -> None:
        ended = queue.end(messages)
        self._late += len(messages) - len(ended)
        for popped in ended:
            if popped.busy:
                popped.then = partial(act, popped)  # its only good handle is on its way
            else:
                act(popped)
        self._note_change()

    def _acknowledge(self, popped: Popped) -> None:
        self._acks.add(handle_of(popped.message))

    def _later(self, popped: Popped) -> None:
        message, options = popped.message, self._options
        if message.attempts > options.max_attempts:
            delay_ms = 0  # the broker makes it a dead letter, and nobody has to wait for that
        elif options.retry_delay_ms is not None:
            delay_ms = options.retry_delay_ms
        else:
            delay_ms = retry_delay_ms(message.times_delivered)
        self._change(message, popped.expires_at, min(delay_ms, MAX_INVISIBLE_MS))

    async def _failed_in_order(self, queue: PopProcessQueue, messages: Sequence[MessageExt]) -> None:
        """Try again where it stands: given back, those behind it would count as failed as often as this one."""
        again = []
        for message in messages:
            # All behind it wait meanwhile: they must not overtake a message that no broker has taken.
            if message.times_delivered >= self._options.max_attempts and await self._send_back.send_to_dlq(message):
                self._end(queue, [message], self._acknowledge)
            else:
                again.append(message)
        if again:
            not_before = self._loop.time() + self._options.suspend_s
            queue.give_back(again, not_before)
            self.pool.retry_at(queue, not_before)
            self._note_change()

    # --- invisible time ----------------------------------------------------------------------------------------------

    def _next_renewal(self) -> float | None:
        deadlines = [queue.next_deadline() for queue in self._queues.values()]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def _renew(self, now: float) -> None:
        for queue in self._queues.values():
            for popped in queue.due(now):
                if self._background.running:
                    self._changing += 1
                    self._background.start_soon(self._renew_one, queue, popped)

    async def _renew_one(self, queue: PopProcessQueue, popped: Popped) -> None:
        message, sent_at = popped.message, self._loop.time()
        invisible_ms = int(self._invisible_s * 1000)
        try:
            token, visible_ms = await self._requests.change_invisible(*handle_of(message), invisible_ms)
        except ReceiptHandleDead:
            logger.info("%s: %r is another consumer's by now", self._instance.client_id, message)
            if not queue.lost(popped) and popped.then is not None:
                self._late += 1
                popped.then = None
        except RlabError as error:
            logger.warning("%s: %r could not be kept longer: %s", self._instance.client_id, message, error)
            not_renewed(popped, self._loop.time())
        else:
            renewed(popped, token, visible_ms, sent_at, self._invisible_s)
        finally:
            self._changing -= 1
        if popped.then is not None:
            popped.then()
        self._note_change()
        deadline = queue.next_deadline()
        if deadline is not None:
            self._driver.wake_by(deadline)

    def _change(self, message: PopMessage, until: float, invisible_ms: int) -> None:
        """Make a message that is not here any more invisible for so long; 0 gives it back."""
        if self._background.running:
            self._changing += 1
            self._background.start_soon(self._change_one, message, until, invisible_ms)

    async def _change_one(self, message: PopMessage, until: float, invisible_ms: int) -> None:
        """Ask until its broker answers, or its time is over: then it comes again anyway."""
        unsure = False
        try:
            while True:
                try:
                    await self._requests.change_invisible(*handle_of(message), invisible_ms)
                except ReceiptHandleDead:
                    self._late += not unsure
                    return
                except RlabError as error:
                    logger.debug("%s: %r: %s", self._instance.client_id, message, error)
                    unsure = unsure or not error.definite
                    if not error.retryable or self._loop.time() >= until:
                        return
                else:
                    return
                with anyio.move_on_after(PULL_RETRY_ERROR_S):
                    await self._instance.broker_returned.wait()
        finally:
            self._changing -= 1
            self._note_change()

    # --- the end -----------------------------------------------------------------------------------------------------

    async def close(self, cause: str) -> None:
        """Leave: pop no more, finish what listeners have, acknowledge it, give back what was not begun.

        Args:
            cause: id of the root trigger.

        Cancellation: what is not given back comes again when its time is over.
        """
        self._closing = True
        for loop in self._loops.values():
            self._stop(loop)
        self._loops.clear()
        for queue in self._queues.values():
            self._give_back(queue.take_waiting())
        # Whoever is no member any more is not given messages: brokers answer the pops that they hold.
        await self._instance.heartbeats.leave(self._group, cause)
        with anyio.move_on_after(self._options.shutdown_grace_s):
            await self._wait_until(lambda: not any(queue.in_flight for queue in self._queues.values()))
        for queue in self._queues.values():
            self._give_back(queue.take_all())  # what comes of it is late
        with anyio.move_on_after(self._instance.config.request_timeout_s):
            await self._wait_until(lambda: not self._ending and not self._changing)
            await self._acks.wait_idle()
        for loop in self._ending:
            loop.scope.cancel()

    def _give_back(self, taken: list[Popped]) -> None:
        for popped in taken:
            give_back = partial(self._change, popped.message, popped.expires_at, 0)
            if popped.busy:
                popped.then = give_back
            else:
                give_back()

    def _note_change(self) -> None:
        if self._closing:
            self._changed.set()

    async def _wait_until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            self._changed = anyio.Event()
            await self._changed.wait()

    # --- what other shares do -----------------------------------------------------------------------------------------

    async def persist(self) -> None:
        """Nothing: every acknowledgement is durable once it is answered."""

    def offsets_reset(self, queues: Collection[MessageQueue], token: int, cause: str) -> None:
        """Nothing: brokers kill the handles of what was popped before a reset."""
