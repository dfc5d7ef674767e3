"""Acknowledgements on their way: those of one turn of the loop share one request to each broker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field

import anyio

from client.background import Background
from client.instance import ClientInstance
from client.pop_message import PopMessage
from client.pop_requests import PopRequests
from model.errors import IllegalOperation, ReceiptHandleDead, RlabError
from model.limits import MAX_ACK_BATCH, PULL_RETRY_ERROR_S
from model.message_queue import MessageQueue

logger = logging.getLogger(__name__)

Handle = tuple[MessageQueue, int, int]
"""Queue, offset and token of a delivery."""


def handle_of(message: PopMessage) -> Handle:
    """The handle of a message as it is now."""
    return message.queue, message.offset, message.token


@dataclass(slots=True, eq=False)
class AckBatch:
    """One request.

    Attributes:
        broker_name: to whom.
        by_delivery: (topic, queue id, token) -> offsets.
        tokens: queue -> offset -> token: the answer names the dead ones without it.
        size: how many there are.
        done: set once it was answered, or given up.
        dead: of those that were too late: handle -> how to tell.
        error: why it was given up.
    """

    broker_name: str
    by_delivery: dict[tuple[str, int, int], list[int]] = field(default_factory=dict)
    tokens: dict[MessageQueue, dict[int, int]] = field(default_factory=dict)
    size: int = 0
    done: anyio.Event = field(default_factory=anyio.Event)
    dead: dict[Handle, ReceiptHandleDead] = field(default_factory=dict)
    error: RlabError | None = None


class PopAcks:
    """The acknowledgements of one consumer.

    Args:
        instance: the client instance.
        requests: the requests of the group.
        background: where requests run.
        retry_s: how long a broker that does not answer is asked again; 0 for not at all.

    Attributes:
        late: acknowledgements that were too late; their messages come, or came, again. One of which an earlier request
            may have been carried out is not counted.
    """

    def __init__(self, instance: ClientInstance, requests: PopRequests, background: Background, retry_s: float) -> None:
        self.late = 0
        self._instance = instance
        self._requests = requests
        self._background = background
        self._retry_s = retry_s
        self._loop = asyncio.get_running_loop()
        self._pending: dict[str, AckBatch] = {}
        self._sending: dict[AckBatch, None] = {}

    def add(self, handle: Handle) -> AckBatch:
        """Acknowledge one message with the next request, which leaves at the end of this turn of the loop."""
        [batch] = self.add_all((handle,))
        return batch

    def add_all(self, handles: Iterable[Handle]) -> list[AckBatch]:
        """Acknowledge messages; see `add`. Returns the requests that they are in."""
        batches: dict[AckBatch, None] = {}
        batch, tokens, offsets = AckBatch(""), dict[int, int](), list[int]()
        queue: MessageQueue | None = None
        token = 0
        for handle in handles:
            offset = handle[1]
            # Handles of one pop come together and share the queue's object: to hash it for each of them costs most.
            if (
                handle[0] is not queue
                or handle[2] != token
                or batch.size >= MAX_ACK_BATCH
                or tokens.get(offset, token) != token
            ):
                queue, _, token = handle
                batch = self._batch_for(handle)
                batches[batch] = None
                tokens = batch.tokens.setdefault(queue, {})
                offsets = batch.by_delivery.setdefault((queue.topic, queue.queue_id, token), [])
            if offset not in tokens:  # acknowledged twice in one turn: once is enough, and neither is dead for it
                tokens[offset] = token
                offsets.append(offset)
                batch.size += 1
        return list(batches)

    def _batch_for(self, handle: Handle) -> AckBatch:
        queue, offset, token = handle
        batch = self._pending.get(queue.broker_name)
        if batch is None or batch.size >= MAX_ACK_BATCH or batch.tokens.get(queue, {}).get(offset, token) != token:
            if not self._pending:
                self._loop.call_soon(self._flush)
            elif batch is not None:
                self._start(batch)
            batch = self._pending[queue.broker_name] = AckBatch(queue.broker_name)
        return batch

    async def wait_idle(self) -> None:
        """Wait until everything is answered or given up. Cancellation: harmless."""
        while self._pending or self._sending:
            batch = next(iter(self._sending or self._pending.values()))
            await batch.done.wait()

    def _flush(self) -> None:
        pending, self._pending = self._pending, {}
        for batch in pending.values():
            self._start(batch)

    def _start(self, batch: AckBatch) -> None:
        if self._background.running:
            self._sending[batch] = None
            self._background.start_soon(self._send, batch)
        else:
            batch.error = IllegalOperation("the consumer was shut down; nothing was sent")
            batch.done.set()

    async def _send(self, batch: AckBatch) -> None:
        until, unsure = self._loop.time() + self._retry_s, False
        try:
            while True:
                try:
                    dead = await self._requests.ack(batch.broker_name, batch.by_delivery)
                except RlabError as error:
                    batch.error = error
                    unsure = unsure or not error.definite
                    if not error.retryable or self._loop.time() >= until:
                        logger.log(
                            logging.WARNING if self._retry_s else logging.DEBUG,
                            "%s: %d acknowledgements to %s: %s",
                            *(self._instance.client_id, batch.size, batch.broker_name, error),
                        )
                        return
                else:
                    batch.error = None
                    self._note(batch, dead, unsure=unsure)
                    return
                with anyio.move_on_after(PULL_RETRY_ERROR_S):
                    await self._instance.broker_returned.wait()
        finally:
            del self._sending[batch]
            batch.done.set()

    def _note(self, batch: AckBatch, dead: list[tuple[str, int, int]], *, unsure: bool) -> None:
        if not unsure:
            self.late += len(dead)
        for topic, queue_id, offset in dead:
            queue = MessageQueue(topic, batch.broker_name, queue_id)
            batch.dead[queue, offset, batch.tokens[queue][offset]] = ReceiptHandleDead(
                f"{queue} {offset} was acknowledged before, or its time was over and it comes again: take more time "
                "with invisible_s, or extend it while you work on it"
            )
