"""Batches acknowledgements of POP: those that one event-loop iteration adds share one request to each broker.

    add(a:0 offset 7), add(a:0 offset 8), add(b:0 offset 3)     two requests at the end of the iteration: to a, and to b

A request that fails is repeated for some time. An earlier attempt may have been executed although its answer was lost;
then the broker answers the repetition that the handles are dead, although the acknowledgements were in time.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from functools import partial

from client.instance.background import BackgroundTasks
from client.instance.instance import ClientInstance
from client.pop.message import AckedOffsets, Handle
from client.pop.requests import Dead, PopRequests
from model.errors import IllegalOperation, ReceiptHandleDead, RequestTimeout, RlabError
from model.limits import MAX_ACK_BATCH
from model.message_queue import MessageQueue

logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class AckBatch:
    """The acknowledgements in one request to one broker."""

    broker_name: str
    # (topic, queue id, token) -> offsets
    by_delivery: dict[tuple[str, int, int], list[int]] = field(default_factory=dict)
    # queue -> offset -> token, because the answer lists dead handles without their tokens
    tokens: dict[MessageQueue, dict[int, int]] = field(default_factory=dict)
    size: int = 0
    began: float = 0.0  # loop time in seconds of the first attempt
    until: float = 0.0  # loop time in seconds after which it is not sent again
    may_have_been_executed: bool = False  # an earlier attempt failed without a definite answer
    done: asyncio.Event = field(default_factory=asyncio.Event)  # set when it was answered, or failed with an `error`
    dead: dict[Handle, ReceiptHandleDead] = field(default_factory=dict)  # of acknowledgements that were too late
    error: RlabError | None = None


class PopAcks:
    """The acknowledgements of one consumer; a request to a broker that does not answer is repeated for `retry_s`.

    To a set of replicas it is repeated for at least one request timeout, because the next master may need this time.

    `late` counts acknowledgements that came too late, so that their messages are redelivered. It leaves out those that
    an earlier attempt may have executed.
    """

    def __init__(
        self, instance: ClientInstance, requests: PopRequests, background: BackgroundTasks, retry_s: float
    ) -> None:
        self.late = 0
        self._instance = instance
        self._requests = requests
        self._background = background
        self._retry_s = retry_s
        self._loop = asyncio.get_running_loop()
        self._pending: dict[str, AckBatch] = {}
        self._sending: dict[AckBatch, None] = {}

    def add(self, handle: Handle) -> AckBatch:
        """Acknowledge one message with the next request, sent at the end of this event-loop iteration."""
        queue, offset, token = handle
        # A batch has one token for each offset: a second delivery of the same message needs another request.
        batch = self._pending.get(queue.broker_name)
        if batch is None or batch.size >= MAX_ACK_BATCH or batch.tokens.get(queue, {}).get(offset, token) != token:
            batch = self._begin(queue.broker_name)
        tokens = batch.tokens.setdefault(queue, {})
        if offset not in tokens:  # a second one in this iteration is not sent: the broker would answer that it is dead
            tokens[offset] = token
            batch.by_delivery.setdefault((queue.topic, queue.queue_id, token), []).append(offset)
            batch.size += 1
        return batch

    def add_offsets(self, run: AckedOffsets) -> list[AckBatch]:
        """Acknowledge messages of one delivery; see `add`. Returns their batches."""
        queue, token, offsets = run
        batch = self._pending.get(queue.broker_name) or self._begin(queue.broker_name)
        new_tokens = dict.fromkeys(offsets, token)
        # The fast path: the whole run fits into the batch, and the batch has none of its offsets.
        tokens = batch.tokens.setdefault(queue, {})
        is_new = len(new_tokens) == len(offsets) and (not tokens or tokens.keys().isdisjoint(new_tokens))
        if not is_new or batch.size + len(offsets) > MAX_ACK_BATCH:
            return list(dict.fromkeys(self.add((queue, offset, token)) for offset in offsets))
        tokens.update(new_tokens)
        batch.by_delivery.setdefault((queue.topic, queue.queue_id, token), []).extend(offsets)
        batch.size += len(offsets)
        return [batch]

    def _begin(self, broker_name: str) -> AckBatch:
        if not self._pending:
            self._loop.call_soon(self._flush)
        elif broker_name in self._pending:
            self._start(self._pending[broker_name])
        batch = self._pending[broker_name] = AckBatch(broker_name)
        return batch

    async def wait_idle(self) -> None:
        """Wait until every request is answered or has failed. Cancellation: harmless."""
        while self._pending or self._sending:
            batch = next(iter(self._sending or self._pending.values()))
            await batch.done.wait()

    def _flush(self) -> None:
        pending, self._pending = self._pending, {}
        for batch in pending.values():
            self._start(batch)

    def _start(self, batch: AckBatch) -> None:
        self._sending[batch] = None
        batch.began = self._loop.time()
        batch.until = batch.began + self._retry_s
        # Only a request that cannot be sent at once gets a task: a task costs more than the rest of the request.
        if not self._background.running:
            self._finish(batch, IllegalOperation("the consumer was shut down; nothing was sent"))
        elif not self._requests.start_ack(batch.broker_name, batch.by_delivery, partial(self._answered, batch)):
            self._background.start_soon(self._send, batch, None)

    def _answered(self, batch: AckBatch, outcome: Dead | RlabError) -> None:
        if self._should_retry(batch, outcome):
            self._background.start_soon(self._send, batch, outcome)
        else:
            self._finish(batch, outcome)

    async def _send(self, batch: AckBatch, outcome: Dead | RlabError | None) -> None:
        try:
            while outcome is None or self._should_retry(batch, outcome):
                if outcome is not None:
                    await self._pause(batch, outcome)
                try:
                    outcome = await self._requests.ack(batch.broker_name, batch.by_delivery)
                except RlabError as error:
                    outcome = error
        except BaseException:  # also a cancellation: waiting callers must not believe that it was answered
            self._finish(batch, RequestTimeout("the consumer was shut down before the answer came"))
            raise
        self._finish(batch, outcome)

    def _should_retry(self, batch: AckBatch, outcome: Dead | RlabError) -> bool:
        if not isinstance(outcome, RlabError):
            return False
        batch.may_have_been_executed = batch.may_have_been_executed or not outcome.definite
        if self._instance.is_worth_waiting(batch.broker_name, outcome, repeats=True):
            batch.until = max(batch.until, batch.began + self._instance.config.request_timeout_s)
        return outcome.retryable and self._loop.time() < batch.until and self._background.running

    async def _pause(self, batch: AckBatch, outcome: Dead | RlabError) -> None:
        instance, name = self._instance, batch.broker_name
        if isinstance(outcome, RlabError) and instance.is_worth_waiting(name, outcome, repeats=True):
            await instance.wait_for_master(name, batch.until)
        else:
            await instance.pause(name)

    def _finish(self, batch: AckBatch, outcome: Dead | RlabError) -> None:
        if isinstance(outcome, RlabError):
            batch.error = outcome
            logger.log(
                logging.WARNING if self._retry_s else logging.DEBUG,
                "%s: %d acknowledgements to %s: %s",
                *(self._instance.client_id, batch.size, batch.broker_name, outcome),
            )
            outcome = []
        if not batch.may_have_been_executed:
            self.late += len(outcome)
        for topic, queue_id, offset in outcome:
            queue = MessageQueue(topic, batch.broker_name, queue_id)
            batch.dead[queue, offset, batch.tokens[queue][offset]] = ReceiptHandleDead(
                f"{queue} {offset} was acknowledged before, or its invisible time ended and it is redelivered: use a "
                "longer invisible_s, or extend it while you work on it"
            )
        del self._sending[batch]
        batch.done.set()
