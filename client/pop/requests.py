"""The requests of POP to brokers: pop messages, acknowledge them, change their invisible time.

The most frequent requests have two forms: a coroutine, and a `start_` function without a task that calls back with the
answer, because a task costs as much as the rest of the request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from operator import attrgetter
from typing import Any, Generic, NotRequired, TypedDict, TypeVar, Unpack, cast

import msgpack

from client.instance.events import report_undecodable
from client.instance.instance import ClientInstance
from client.instance.routes import RouteCache
from client.options import ConsumerOptions
from client.pop.message import Handle, PopMessage
from model.decode import Undecodable, decode_as
from model.errors import FlowControl, NetworkError, ProtocolError, RequestCodeNotSupported, RlabError
from model.heartbeat import ConsumeFrom
from model.limits import CONNECT_TIMEOUT_S, PULL_TIMEOUT_S
from model.message_queue import MessageQueue
from model.names import is_retry_topic
from model.record import RecordCorrupt
from model.response_code import ResponseCode
from model.subscription import SubscriptionData
from remoting.client import raise_for_code
from remoting.command import Command
from remoting.request_code import RequestCode
from remoting.session import Waiter

T = TypeVar("T")

_NO_DEAD = b"\x90"
_times_delivered_of = attrgetter("times_delivered")

ANY_QUEUE = -1
"""Queue id of a pop from any queue of the broker that has messages."""

Dead = list[tuple[str, int, int]]
"""(topic, queue id, offset) of messages whose handles were dead."""

AckedByDelivery = Mapping[tuple[str, int, int], Sequence[int]]
"""(topic, queue id, token) -> offsets."""

_Ask = tuple[RequestCode, dict[str, Any], bytes | None, float]
"""A request: code, header, body, and the time that it may take in seconds."""


class PopTerms(TypedDict):
    """The numbers of one pop: `suspend_ms` is how long the broker may hold it while it has no message.

    `queue_id` is one queue of the topic; without it the broker chooses any.
    """

    max_n: int
    invisible_ms: int
    suspend_ms: int
    queue_id: NotRequired[int]


class PopRequests:
    """The requests of one group; `pass_over` acknowledges a record that is not a message."""

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        options: ConsumerOptions,
        pass_over: Callable[[Handle], object],
        *,
        order: bool,
    ) -> None:
        self._pass_over = pass_over
        self._instance = instance
        self._group = group
        self._member = {"group": group, "client_id": instance.client_id}
        self._start_offset: dict[str, Any] = {"consume_from": options.consume_from.value}
        if options.consume_from is ConsumeFrom.TIMESTAMP:
            self._start_offset["consume_timestamp_ms"] = options.consume_timestamp_ms
        self._delivery: dict[str, Any] = {"order": True} if order else {}
        self._delivery["max_attempts"] = options.max_attempts + 1  # deliveries, after which the DLQ gets the message

    async def pop(
        self, broker_name: str, subscription: SubscriptionData, **terms: Unpack[PopTerms]
    ) -> list[PopMessage]:
        """Pop messages of a topic from one broker: grouped by queue in offset order, or none.

        NetworkError or a cancellation: the broker may have delivered messages that did not arrive; they are redelivered
        when their invisible time ends. RecordCorrupt: the answer is damaged.
        """
        return self._read_pop(broker_name, await self._request(broker_name, self._pop_ask(subscription, terms)))

    def start_pop(
        self,
        broker_name: str,
        subscription: SubscriptionData,
        answered: Callable[[list[PopMessage] | RlabError], None],
        **terms: Unpack[PopTerms],
    ) -> bool:
        """Like `pop` without a task: starting a task costs as much as the rest of the request.

        `answered` is called once with the result or error of `pop`, and must not raise. Returns whether the request was
        sent; if not, use `pop`, which connects, waits, or raises the reason.
        """
        call = _Call(partial(self._read_pop, broker_name), answered)
        return self._start(broker_name, self._pop_ask(subscription, terms), call)

    def _pop_ask(self, subscription: SubscriptionData, terms: PopTerms) -> _Ask:
        header: dict[str, Any] = {
            "group": self._group,
            "topic": subscription.topic,
            "queue_id": ANY_QUEUE,
            "client_id": self._instance.client_id,
            **terms,
            **self._start_offset,
        }
        header.update(subscription.to_header())
        header.update(self._delivery)
        code = RequestCode.POP_MESSAGE_BY_SQL if subscription.is_sql else RequestCode.POP_MESSAGE
        return code, header, None, terms["suspend_ms"] / 1000 + PULL_TIMEOUT_S / 2

    def _read_pop(self, broker_name: str, answer: Command) -> list[PopMessage]:
        if answer.code == ResponseCode.PULL_NOT_FOUND:
            return []
        passed_over: list[tuple[Undecodable, int]] = []
        messages = decode_batches(broker_name, raise_for_code(answer).body or b"", passed_over)
        if passed_over:
            report_undecodable(self._instance, self._group, [record for record, _ in passed_over])
            for record, token in passed_over:
                self._pass_over((record.queue, record.offset, token))
        return messages

    async def ack(self, broker_name: str, acked: AckedByDelivery) -> Dead:
        """Acknowledge messages on one broker, durably; returns those whose handles were dead.

        After an RlabError that is not `definite`, or a cancellation, any of them may be acknowledged.
        """
        return _read_dead(broker_name, await self._request(broker_name, self._ack_ask(acked), waits=True))

    async def give_back(self, broker_name: str, rows: AckedByDelivery) -> None:
        """Return messages that no consumer has seen: they are visible at once, and the delivery is not counted."""
        _, member, body, timeout_s = self._ack_ask(rows)
        raise_for_code(await self._request(broker_name, (RequestCode.RETURN_MESSAGES, member, body, timeout_s)))

    def cancel(self, broker_name: str) -> None:
        """End the parked pops of this member, if its connection is open; a hint, which a broker of RocketMQ ignores."""
        self._notify(broker_name, RequestCode.CANCEL_POP)

    def keep(self, messages: Sequence[PopMessage]) -> None:
        """Let the brokers of these messages extend their invisible time while this client is connected.

        A hint: if it is lost, they are redelivered when their time ends.
        """
        by_broker: dict[str, dict[tuple[str, int, int], None]] = {}
        for each in messages:
            rows = by_broker.setdefault(each.queue.broker_name, {})
            rows[each.queue.topic, each.queue.queue_id, each.token] = None
        for broker_name, rows in by_broker.items():
            self._notify(broker_name, RequestCode.KEEP_MESSAGES, msgpack.packb(list(rows)))

    def _notify(self, broker_name: str, code: RequestCode, body: bytes | None = None) -> None:
        connection = self._instance.masters.get(broker_name)
        if connection is not None and connection.ready:
            with suppress(RequestCodeNotSupported):
                connection.notify(code, self._member, body)

    def start_ack(self, broker_name: str, acked: AckedByDelivery, answered: Callable[[Dead | RlabError], None]) -> bool:
        """Like `ack` without a task; see `start_pop`."""
        return self._start(broker_name, self._ack_ask(acked), _Call(partial(_read_dead, broker_name), answered))

    def _ack_ask(self, acked: AckedByDelivery) -> _Ask:
        body = msgpack.packb([[*key, offsets] for key, offsets in acked.items()])
        return RequestCode.BATCH_ACK_MESSAGE, self._member, body, self._instance.config.request_timeout_s

    async def change_invisible(
        self, queue: MessageQueue, offset: int, token: int, invisible_ms: int, failed_attempts: int = 0
    ) -> tuple[int, int]:
        """Set the invisible time of one message, counted from now; 0 makes it visible at once.

        With `failed_attempts` a retry delay of its group, if it has any, counts in the place of `invisible_ms`.

        Returns the token of the new handle, and when the message is redelivered, in its broker's wall-clock ms.

        ReceiptHandleDead: it was acknowledged or redelivered before. After another RlabError that is not `definite`, or
        a cancellation, the old handle may be dead and the new one unknown.
        """
        code = RequestCode.CHANGE_MESSAGE_INVISIBLETIME
        fields = {"invisible_ms": invisible_ms, **({"failed_attempts": failed_attempts} if failed_attempts else {})}
        answer = await self._ask_for(code, (queue, offset, token), **fields)
        return answer.header["token"], answer.header["visible_ms"]

    async def dead_letter(self, handle: Handle) -> None:
        """Move a message to the DLQ of the group, durably; raises as `change_invisible` does."""
        await self._ask_for(RequestCode.POP_DEAD_LETTER, handle)

    async def _ask_for(self, code: RequestCode, handle: Handle, **fields: int) -> Command:
        queue, offset, token = handle
        message_fields = {"topic": queue.topic, "queue_id": queue.queue_id, "offset": offset, "token": token}
        # Done twice, the second one finds the handle dead, and then the error of the first one is raised.
        return await self._instance.request_master(
            queue.broker_name, code, {**self._member, **message_fields, **fields}, repeats=True
        )

    async def _request(self, broker_name: str, ask: _Ask, *, waits: bool = False) -> Command:
        instance = self._instance
        connection = instance.masters.get(broker_name)
        if connection is None or not connection.ready:
            connection = await instance.connect_master(broker_name, CONNECT_TIMEOUT_S, waits=waits)
            await connection.wait_writable()
        return await connection.request(*ask)

    def _start(self, broker_name: str, ask: _Ask, call: Waiter) -> bool:
        connection = self._instance.masters.get(broker_name)
        if connection is None or not connection.ready:
            return False
        try:
            connection.request_for(call, *ask)
        except (NetworkError, FlowControl):
            return False
        return True


class _Call(Generic[T]):
    """A request without a task: its answer goes to a callback."""

    __slots__ = ("_answered", "_read")

    def __init__(self, read: Callable[[Command], T], answered: Callable[[T | RlabError], None]) -> None:
        self._read = read
        self._answered = answered

    def done(self) -> bool:
        """See `Waiter`: every answer is taken, however late."""
        return False

    def set_result(self, result: Command, /) -> None:
        """See `Waiter`."""
        try:
            outcome: T | RlabError = self._read(result)
        except RlabError as error:
            outcome = error
        self._answered(outcome)

    def set_exception(self, exception: Exception, /) -> None:
        """See `Waiter`: a lost connection, or no answer in time."""
        assert isinstance(exception, RlabError)
        self._answered(exception)


def targets_to_pop(routes: RouteCache, topics: Iterable[str]) -> dict[MessageQueue, None]:
    """The topics and brokers to pop: each topic of each broker that serves it, with `ANY_QUEUE` as the queue.

    Retry topics are left out: each broker adds the messages of its own retry topic to its answers.
    """
    return {
        MessageQueue(topic, queue.broker_name, ANY_QUEUE): None
        for topic in topics
        if not is_retry_topic(topic)
        for queue in routes.subscribe_queues(topic)
    }


def _read_dead(broker_name: str, answer: Command) -> Dead:
    body = raise_for_code(answer).body or b""
    if body == _NO_DEAD:
        return []
    try:
        return [(topic, queue_id, offset) for topic, queue_id, offset in cast("list[Any]", msgpack.unpackb(body))]
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        text = f"the answer of {broker_name} to an acknowledgement is not a list of dead handles ({error})"
        raise ProtocolError(text) from error


def decode_batches(
    broker_name: str, body: bytes, passed_over: list[tuple[Undecodable, int]] | None = None
) -> list[PopMessage]:
    """Decode the answer of a pop.

    It is a msgpack array of batches [topic, queue id, token, visible ms, [attempts, ...], records]. Records that are
    not messages are added to `passed_over`, each with its token; see `decode_as`.
    RecordCorrupt is raised for a body of another form.
    """
    messages: list[PopMessage] = []
    try:
        for topic, queue_id, token, visible_ms, attempts, records in cast("list[Any]", msgpack.unpackb(body)):
            undecodable: list[Undecodable] = []
            decoded = decode_as(PopMessage, MessageQueue(topic, broker_name, queue_id), records, undecodable)
            if undecodable:
                if passed_over is None:
                    raise ValueError(f"the record at {undecodable[0].offset} is not a message")
                passed_over += [(record, token) for record in undecodable]
                left_out = {record.position for record in undecodable}
                attempts[:] = [n for index, n in enumerate(attempts) if index not in left_out]
            if len(decoded) != len(attempts):
                raise ValueError(f"{len(attempts)} numbers of deliveries for {len(decoded)} messages")
            if any(map(_times_delivered_of, decoded)) or attempts.count(1) != len(attempts):
                decoded = [
                    message._replace(times_delivered=n - 1) for message, n in zip(decoded, attempts, strict=True)
                ]
            for message in decoded:
                message.token = token
                message.visible_ms = visible_ms
            messages += decoded
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise RecordCorrupt(f"what {broker_name} answered to a pop is not whole batches ({error})") from error
    return messages
