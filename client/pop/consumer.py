"""PopConsumer: asks for messages when it wants some, and ends each of them for itself. RocketMQ: SimpleConsumer.

There are no queues to share out, so there is no rebalance: every member of the group may get every message, more
members than queues all get work, and a slow one slows nobody. In return there is no order, unless it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any, overload

from client.options import ConsumeOrder, ConsumerOptions, split_options
from client.pop.acks import AckBatch
from client.pop.message import Handle, PopMessage, decode_handle, encode_handle, handle_of, runs_of
from client.pop.receiver import PopReceiver
from client.pop.requests import PopOptions, PopRequests
from client.rebalance.member import GroupConsumer
from client.rebalance.ownership import MemberContext, QueueOwnership
from model.errors import ConfigError, IllegalOperation, InvalidParameter, ReceiptHandleDead
from model.heartbeat import ConsumeType
from model.limits import MAX_INVISIBLE_MS, MAX_POP_BATCH, MIN_INVISIBLE_MS, POP_INVISIBLE_S, PULL_SUSPEND_S
from model.names import is_retry_topic

_OPTIONS = ("consume_from", "consume_timestamp_ms", "max_attempts", "session_timeout_s", "rebalance_interval_s")
_MAX_WAIT_S = 60.0


class PopConsumer(GroupConsumer):
    """A consumer that receives, acknowledges and extends messages one by one.

    Args:
        name_servers: addresses, a string separated by commas or a list.
        group: consumer group.
        order: whether a queue gives messages only while the group has none of it in flight, lowest first.
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
        config, own = split_options(ConsumerOptions, name_servers, options)
        for name in options:
            if name in ConsumerOptions.__dataclass_fields__ and name not in _OPTIONS:
                near = get_close_matches(name, _OPTIONS, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(_OPTIONS)}"
                raise ConfigError(f"{name!r} is an option of PushConsumer and not of PopConsumer: {hint}")
        super().__init__(group, None, None, config, own)
        self._order = ConsumeOrder.QUEUE if order else ConsumeOrder.NONE
        self._receiver: PopReceiver | None = None
        self._requests: PopRequests | None = None

    async def subscribe(self, topic: str, expression: str = "*") -> None:
        """Subscribe to a topic, or change the expression of one; before or after the start.

        Args:
            topic: the topic; one that does not exist yet is waited for.
            expression: `*`, or tags as `tagA || tagB`. Messages with other tags are done with for the whole group.

        Raises:
            InvalidParameter: an illegal topic or expression.
            ConnectFailed: no name server answers; the subscription stays and takes effect when one does.

        Cancellation: the subscription stays.
        """
        self._note_subscription(topic, expression, with_retry=True)
        await self._apply_subscriptions()

    async def receive(
        self, max_n: int = MAX_POP_BATCH, *, invisible_s: float = POP_INVISIBLE_S, wait_s: float = PULL_SUSPEND_S
    ) -> list[PopMessage]:
        """Get messages that nobody else gets for a time. RocketMQ: SimpleConsumer.receive.

        Args:
            max_n: so many at the most, 1 to 32.
            invisible_s: how long others do not get them, 0.1 s to 12 h. Those that are not acknowledged by then come
                again, here or elsewhere.
            wait_s: how long to wait for some, 0 to 60 s.

        Returns:
            The messages; none if none came in time.

        Raises:
            InvalidParameter: a number is out of its range.
            IllegalOperation: not started, shut down, or nothing is subscribed to.
            RlabError: no broker of the topics could be asked. Messages of an answer that was lost come again when their
                time is over.

        Cancellation: nothing is lost: what comes is kept for the next call, and given back if there is none.
        """
        _check("max_n", max_n, 1, MAX_POP_BATCH)
        _check("invisible_s", invisible_s, MIN_INVISIBLE_MS / 1000, MAX_INVISIBLE_MS / 1000)
        _check("wait_s", wait_s, 0, _MAX_WAIT_S)
        receiver, _ = self._running()
        if all(is_retry_topic(topic) for topic in self._subscriptions):
            raise IllegalOperation("this consumer subscribes to nothing: call `subscribe` first")
        return await receiver.receive(max_n, invisible_s, wait_s)

    @overload
    async def ack(self, messages: PopMessage | str) -> None: ...  # type: ignore[overload-overlap] # a string iterates

    @overload
    async def ack(self, messages: Iterable[PopMessage | str]) -> list[PopMessage | str]: ...

    async def ack(self, messages: PopMessage | str | Iterable[PopMessage | str]) -> list[PopMessage | str] | None:
        """End messages: the group never gets them again. RocketMQ: SimpleConsumer.ack.

        Calls of the same turn of the loop share one request to each broker. It is answered once it is durable.

        Args:
            messages: a message or a receipt handle, or several.

        Returns:
            For several: those whose handles were dead. The others are done with. For one: None.

        Raises:
            ReceiptHandleDead: for one: it was acknowledged before, or its time was over and it was delivered again.
            InvalidParameter: a string is no receipt handle.
            IllegalOperation: not started, or shut down.
            RlabError: a broker could not be asked; acknowledge all of them again.

        Cancellation: they may be done with.
        """
        receiver, _ = self._running()
        if isinstance(messages, (PopMessage, str)):
            handle = _handle(messages)
            batch = receiver.acks.add(handle)
            await _answered(batch)
            if (cause := batch.dead.get(handle)) is not None:
                raise cause
            return None
        several = list(messages)
        runs = runs_of(several)
        dead: dict[Handle, ReceiptHandleDead] = {}
        for batch in dict.fromkeys(batch for run in runs for batch in receiver.acks.add_run(run)):
            await _answered(batch)
            dead.update(batch.dead)
        if not dead:
            return []
        # The handles that were acknowledged: a message that was extended meanwhile has another one.
        handles = [(run.queue, offset, run.token) for run in runs for offset in run.offsets]
        return [each for each, handle in zip(several, handles, strict=True) if handle in dead]

    async def extend(self, message: PopMessage | str, invisible_s: float) -> str:
        """Take more time for a message, or give it back. RocketMQ: SimpleConsumer.changeInvisibleDuration.

        Args:
            message: the message, which has the new handle then, or its receipt handle, which is dead then.
            invisible_s: how long from now on others do not get it, up to 12 h; 0 gives it back at once.

        Returns:
            The new receipt handle.

        Raises:
            ReceiptHandleDead: it was acknowledged, or its time was over and it was delivered again.
            InvalidParameter: `invisible_s` is out of its range, or the string is no receipt handle.
            IllegalOperation: not started, or shut down.
            RlabError: the broker could not be asked. If that is not `definite` the handle may be dead, and the message
                comes again when its time is over.

        Cancellation: the handle may be dead.
        """
        _check("invisible_s", invisible_s, 0, MAX_INVISIBLE_MS / 1000)
        _, requests = self._running()
        queue, offset, token = _handle(message)
        new, visible_ms = await requests.change_invisible(queue, offset, token, round(invisible_s * 1000))
        if isinstance(message, PopMessage):
            message.renewed(new, visible_ms)
        return encode_handle(queue, offset, new)

    # --- GroupConsumer -----------------------------------------------------------------------------------------------

    async def _make_ownership(self, context: MemberContext) -> QueueOwnership:
        options = self.options
        self._requests = PopRequests(
            context.instance,
            self.group,
            PopOptions(
                consume_from=options.consume_from,
                consume_timestamp_ms=options.consume_timestamp_ms,
                order=self._order != ConsumeOrder.NONE,
                max_attempts=options.max_attempts + 1,
            ),
        )
        self._receiver = PopReceiver(context, self._requests)
        return self._receiver

    def _begin(self, context: MemberContext) -> MemberContext:
        return context

    def _prepare_shutdown(self) -> None:
        pass

    def _running(self) -> tuple[PopReceiver, PopRequests]:
        if self._receiver is None or self._requests is None or not self._background.running:
            raise IllegalOperation("this consumer does not run: start it, or use it as `async with PopConsumer(...)`")
        return self._receiver, self._requests


def _check(name: str, value: float, low: float, high: float) -> None:
    if not isinstance(value, (int, float)) or not low <= value <= high:
        raise InvalidParameter(f"{name} must be {low:g} to {high:g}, got {value!r}")


def _handle(message: PopMessage | str) -> Handle:
    return handle_of(message) if isinstance(message, PopMessage) else decode_handle(message)


async def _answered(batch: AckBatch) -> None:
    await batch.done.wait()
    if batch.error is not None:
        raise batch.error
