"""PopConsumer: receives messages when its user asks, and acknowledges each one individually. RocketMQ: SimpleConsumer.

No queue is assigned, so there is no rebalance: any member of the group may receive any message, more members than
queues all get work, and a slow member delays no other. In return there is no order, unless the option `order` is set.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from difflib import get_close_matches
from typing import Any, overload

from client.options import ConsumerOptions, split_options
from client.pop.acks import AckBatch
from client.pop.message import Handle, PopMessage, decode_handle, encode_handle, group_by_delivery, handle_of
from client.pop.receiver import PopReceiver
from client.rebalance.member import GroupConsumer
from client.rebalance.ownership import MemberContext, QueueOwnership
from model.arguments import check_iterable, check_number, check_whole
from model.errors import ConfigError, IllegalOperation, ReceiptHandleDead
from model.heartbeat import ConsumeType
from model.limits import MAX_INVISIBLE_MS, MAX_POP_BATCH, MIN_INVISIBLE_MS, POP_INVISIBLE_S, PULL_SUSPEND_S
from model.names import is_retry_topic
from model.subscription import Expression

_OPTIONS = ("consume_from", "consume_timestamp_ms", "max_attempts", "session_timeout_s", "rebalance_interval_s")
_MAX_WAIT_S = 60.0


class PopConsumer(GroupConsumer):
    """A consumer that receives, acknowledges and extends messages one by one.

    Args:
        name_servers: addresses, a string separated by commas or a list.
        group: consumer group.
        order: whether a queue delivers only while none of its messages is invisible, lowest offset first.
        **options: `ClientConfig` by name, and of `ConsumerOptions` consume_from, consume_timestamp_ms, max_attempts,
            session_timeout_s.

    Raises:
        ConfigError, InvalidParameter: an option or name is wrong.

    Use:
        async with PopConsumer("127.0.0.1:9876", group="g") as consumer:
            await consumer.subscribe("orders")
            while True:
                for message in await consumer.receive(invisible_s=60):
                    ...
                    await consumer.ack(message)
    """

    _consume_type = ConsumeType.POP

    def __init__(self, name_servers: str | Sequence[str], group: str, *, order: bool = False, **options: Any) -> None:
        config, member_options = split_options(ConsumerOptions, name_servers, options)
        for name in options:
            if name in ConsumerOptions.__dataclass_fields__ and name not in _OPTIONS:
                near = get_close_matches(name, _OPTIONS, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(_OPTIONS)}"
                raise ConfigError(f"{name!r} is an option of PushConsumer and not of PopConsumer: {hint}")
        super().__init__(group, None, None, config, member_options)
        self._order = order
        self._receiver: PopReceiver | None = None

    async def subscribe(self, topic: str, expression: Expression = "*") -> None:
        """Subscribe to a topic, or change the expression of one; before or after the start.

        Args:
            topic: its name; it need not exist yet.
            expression: `*`, tags as `tagA || tagB`, or `Sql("price > 10")`. Other messages count as acknowledged for
                the whole group.

        Raises:
            InvalidParameter: an illegal topic or expression, or a topic too many.
            UsageError: a broker refuses the subscription, which is withdrawn.
            ConnectFailed: no name server answers; the subscription stays and takes effect when one does.

        Cancellation: the subscription stays.
        """
        await self._subscribe(topic, expression, with_retry=True)

    async def receive(
        self,
        max_n: int = MAX_POP_BATCH,
        *,
        invisible_s: float = POP_INVISIBLE_S,
        wait_s: float = PULL_SUSPEND_S,
        renew: bool = False,
    ) -> list[PopMessage]:
        """Get messages that no other consumer gets for a time. RocketMQ: SimpleConsumer.receive.

        Args:
            max_n: most messages, 1 to 32.
            invisible_s: their invisible time, 0.1 s to 12 h. Messages that are not acknowledged within it
                are redelivered, here or elsewhere.
            wait_s: how long to wait while there is none, 0 to 60 s.
            renew: whether the broker extends the invisible time again and again, under the same handles, while this
                consumer is connected, for up to 3 h. If it is killed, its messages are redelivered within
                `invisible_s`, which may be short then; at its shutdown, at once. A message that failed has to be
                returned: `extend(message, 0)`.

        Returns:
            The messages; empty if none came in time.

        Raises:
            InvalidParameter: a number is out of its range.
            IllegalOperation: not started, shut down, or nothing is subscribed to.
            ClientFailed: the consumer has ended without a shutdown; see `join`.
            RequestCodeNotSupported: `renew` at servers of RocketMQ.
            RlabError: no broker of the topics could be asked. Messages of a lost answer are redelivered when their
                invisible time ends.

        Cancellation: nothing is lost: messages that arrive all the same go to another call that waits, or are returned
        to the broker at once, and that delivery is not counted.
        """
        check_whole("max_n", max_n, 1, MAX_POP_BATCH)
        check_number("invisible_s", invisible_s, MIN_INVISIBLE_MS / 1000, MAX_INVISIBLE_MS / 1000)
        check_number("wait_s", wait_s, 0, _MAX_WAIT_S)
        receiver = self._running()
        if all(is_retry_topic(topic) for topic in self._subscriptions):
            raise IllegalOperation("this consumer subscribes to nothing: call `subscribe` first")
        try:
            return await receiver.receive(max_n, invisible_s, wait_s, renew=renew)
        except IllegalOperation:  # it ended during the wait
            self._background.check()
            raise

    @overload
    async def ack(self, messages: PopMessage | str) -> None: ...  # type: ignore[overload-overlap] # a string iterates

    @overload
    async def ack(self, messages: Iterable[PopMessage | str]) -> list[PopMessage | str]: ...

    async def ack(self, messages: PopMessage | str | Iterable[PopMessage | str]) -> list[PopMessage | str] | None:
        """Acknowledge messages: the group never gets them again. RocketMQ: SimpleConsumer.ack.

        Calls in the same event-loop iteration share one request to each broker. It is answered when it is durable.

        Args:
            messages: a message or a receipt handle, or several.

        Returns:
            For several: those whose handles were dead. The others are acknowledged. For one: None.

        Raises:
            ReceiptHandleDead: for one: it was acknowledged before, or its invisible time ended and it was redelivered.
            InvalidParameter: neither a message nor a receipt handle; nothing was acknowledged.
            IllegalOperation: not started, or shut down.
            RlabError: a broker could not be asked; acknowledge all of them again.

        Cancellation: they may be acknowledged.
        """
        receiver = self._running()
        if isinstance(messages, (PopMessage, str)):
            handle = _handle(messages)
            batch = receiver.acks.add(handle)
            await _answered(batch)
            if (cause := batch.dead.get(handle)) is not None:
                raise copy(cause)
            return None
        check_iterable("the messages to acknowledge", messages)
        several = list(messages)
        runs = group_by_delivery(several)
        dead_handles: dict[Handle, ReceiptHandleDead] = {}
        for batch in dict.fromkeys(batch for run in runs for batch in receiver.acks.add_offsets(run)):
            await _answered(batch)
            dead_handles.update(batch.dead)
        if not dead_handles:
            return []
        # The handles at the time of the call: `extend` may have replaced the handle of a message since then.
        handles = [(run.queue, offset, run.token) for run in runs for offset in run.offsets]
        return [each for each, handle in zip(several, handles, strict=True) if handle in dead_handles]

    async def extend(self, message: PopMessage | str, invisible_s: float) -> str:
        """Set the invisible time of a message, counted from now. RocketMQ: SimpleConsumer.changeInvisibleDuration.

        Args:
            message: the message, which gets the new handle, or its receipt handle, which is dead afterwards.
            invisible_s: up to 12 h; 0 makes it visible to all members at once.

        Returns:
            The new receipt handle.

        Raises:
            ReceiptHandleDead: it was acknowledged, or its invisible time ended and it was redelivered.
            InvalidParameter: `invisible_s` is out of its range, or the string is not a receipt handle.
            IllegalOperation: not started, or shut down.
            RlabError: the broker could not be asked. If the error is not `definite`, the handle may be dead, and the
                message is redelivered when its time ends.

        Cancellation: the handle may be dead.
        """
        check_number("invisible_s", invisible_s, 0, MAX_INVISIBLE_MS / 1000)
        requests = self._running().requests
        queue, offset, token = _handle(message)
        new, visible_ms = await requests.change_invisible(queue, offset, token, round(invisible_s * 1000))
        if isinstance(message, PopMessage):
            message.renewed(new, visible_ms)
        return encode_handle(queue, offset, new)

    async def dead_letter(self, message: PopMessage | str) -> None:
        """Move a message to the dead-letter queue of the group, where operators find it; it is acknowledged by that.

        For a message that no retry can help. RocketMQ: ForwardMessageToDeadLetterQueue.

        Args:
            message: the message or its receipt handle, which is dead afterwards.

        Raises:
            ReceiptHandleDead: it was acknowledged, or its invisible time ended and it was redelivered.
            InvalidParameter: the string is not a receipt handle.
            IllegalOperation: not started, or shut down.
            RequestCodeNotSupported: the broker is one of RocketMQ, which has no such request outside of gRPC.
            RlabError: the broker could not be asked. If the error is not `definite`, it may have been moved.

        Cancellation: it may have been moved.
        """
        await self._running().requests.dead_letter(_handle(message))

    # --- GroupConsumer -----------------------------------------------------------------------------------------------

    async def _make_ownership(self, context: MemberContext) -> QueueOwnership:
        self._receiver = PopReceiver(context, order=self._order)
        return self._receiver

    def _running(self) -> PopReceiver:
        self._check_loop()
        self._background.check()
        if self._receiver is None or not self._background.running:
            raise IllegalOperation("this consumer does not run: start it, or use it as `async with PopConsumer(...)`")
        return self._receiver


def _handle(message: PopMessage | str) -> Handle:
    return handle_of(message) if isinstance(message, PopMessage) else decode_handle(message)


async def _answered(batch: AckBatch) -> None:
    await batch.done.wait()
    if batch.error is not None:
        raise copy(batch.error)  # each caller's own: a shared one would collect all their tracebacks
