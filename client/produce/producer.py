"""Sends messages. RocketMQ: DefaultMQProducer, DefaultMQProducerImpl.

One message: check it -> queues of its topic from the route -> pick one -> encode once -> send -> after an error that
allows it, the same bytes again to another broker, within one timeout for all attempts.

An attempt gets an equal share of the time that is left, as long as the next one can go to a broker that did not fail
just now: a broker that hangs, or that the network has cut off, would use up all of the time otherwise. Where there is
no such broker, or a key or a queue leaves no choice, to wait is better than to send the message to the same one again,
and the attempt gets all the time. RocketMQ: sendMsgMaxTimeoutPerRequest, which is off by default.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import repeat
from typing import Any, TypeVar

import anyio
import msgpack

from client.config import ClientConfig, check_seconds
from client.instance.instance import ClientInstance
from client.instance.member import ClientLifecycle, Resident, ServiceState
from client.instance.registry import acquire_instance, release_instance
from client.instance.user_code import observing
from client.options import check_option_names
from client.produce.batcher import SendBatcher
from client.produce.queue_picker import ELSEWHERE, QueuePicker, check_queue_of, other_brokers, select_by_key
from client.produce.recalling import recalling, send_later
from client.produce.unknown_topics import UnknownTopics
from model.arguments import check_callable
from model.errors import (
    ConfigError,
    ConnectFailed,
    IllegalOperation,
    MessageIllegal,
    RequestTimeout,
    RlabError,
)
from model.events import EventKind
from model.limits import MAX_FRAME_BYTES, SEND_RETRIES, SEND_TIMEOUT_S
from model.message import Message, SendResult, check_batch, check_message, encode_payload, tag_hash
from model.message_queue import MessageQueue
from model.names import check_group, check_topic
from model.recall import parse_recall_handle
from remoting.client import raise_for_code
from remoting.connection import Connection
from remoting.request_code import RequestCode
from remoting.tasks import OwningLoop

_SEND = int(RequestCode.SEND_MESSAGE)
_SLOW_S = 0.55
"""A broker with latencies below it is not avoided (`client/produce/queue_picker.py`), so they are not recorded."""

_pack = msgpack.Packer(autoreset=True).pack
_new_tuple = tuple.__new__
"""The constructor of a named tuple is Python code; this makes the same in a third of the time."""
MAX_RETRIES = 100

Result = TypeVar("Result")
LatencySink = Callable[[float, bool], None]
"""Gets the seconds of a send, and whether it succeeded."""


class Producer(ClientLifecycle, Resident):
    """Sends messages of any topic.

    Args:
        name_servers: addresses, a string separated by commas or a list.
        group: producer group.
        retries: further attempts of a send whose error allows one, 0 to 100; after one without an answer, the message
            may be stored twice.
        timeout_s: seconds for a send with all its attempts.
        avoid_slow_brokers: whether a broker that was slow is avoided for a while.
        latency_sink: called at the end of each `send` with its seconds, all attempts included, and whether it was sent.
        **options: `ClientConfig` by name. Producers of one process share a client instance unless `instance_name` says
            otherwise.

    Raises:
        ConfigError, InvalidParameter: an option or name is wrong.

    Use:
        async with Producer("127.0.0.1:9876", group="p") as producer:
            result = await producer.send(Message("orders", b"..."))
    """

    def __init__(
        self,
        name_servers: str | Sequence[str],
        group: str = "DEFAULT_PRODUCER",
        *,
        retries: int = SEND_RETRIES,
        timeout_s: float = SEND_TIMEOUT_S,
        avoid_slow_brokers: bool = True,
        latency_sink: LatencySink | None = None,
        **options: Any,
    ) -> None:
        self.group = check_group(group)
        check_option_names(options, ClientConfig)
        options.setdefault("instance_name", "PRODUCER")
        self.config = ClientConfig(name_servers=name_servers, **options)
        if not isinstance(retries, int) or isinstance(retries, bool) or not 0 <= retries <= MAX_RETRIES:
            raise ConfigError(f"retries must be 0 to {MAX_RETRIES}, got {retries!r}")
        check_seconds("timeout_s", timeout_s)
        if latency_sink is not None:
            check_callable("latency_sink", latency_sink)
        self._attempts, self._timeout_s = 1 + retries, timeout_s
        self._picker = QueuePicker(self.config.rng, avoid_slow_brokers=avoid_slow_brokers)
        self._latency_sink = observing(latency_sink or (lambda *_: None), "latency_sink")
        self._noted_from_s = _SLOW_S if latency_sink is None else 0.0  # faster sends cost no call
        self._topics, self._unknown = dict[str, None](), UnknownTopics()
        self._instance: ClientInstance | None = None
        # One attribute away for each send. The first one refuses before the start, after the shutdown and in a fork.
        self._publish_queues: Callable[[str], tuple[MessageQueue, ...]] = self._not_running
        self._masters: Mapping[str, Connection] = {}
        self._time: Callable[[], float] = lambda: 0.0
        self._clock_ms = self.config.clock_ms
        self._id_prefix, self._sent = "", 0  # drawn by the start, because a fork may lie before it

    # --- lifecycle ---------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the producer.

        Raises:
            ConnectFailed: no name server answers.
            IllegalOperation: started before.

        Cancellation: nothing is left running.
        """
        self._begin_start("producer")
        await self._connect()

    async def _connect(self) -> None:
        self._id_prefix = f"{self.config.rng.getrandbits(64):016x}"
        self._instance = await acquire_instance(self.config)
        self._time = asyncio.get_running_loop().time
        self._publish_queues = OwningLoop().guard(self._instance.routes.publish_queues)
        self._masters = self._instance.masters
        self._batcher = SendBatcher(asyncio.get_running_loop(), self._masters)
        self._instance.register(self)
        self._instance.events.emit(EventKind.CLIENT_START, group=self.group, client=self._instance.client_id)
        self._state = ServiceState.RUNNING

    async def shutdown(self) -> None:
        """Close. Outstanding sends fail with ConnectionLost. Idempotent. Cancellation: it is closed all the same."""
        if self._state is not ServiceState.RUNNING:
            return
        self._check_loop()
        instance = self._running()
        self._state = ServiceState.SHUTDOWN_ALREADY
        self._publish_queues = self._not_running
        instance.events.emit(EventKind.CLIENT_STOP, group=self.group, client=instance.client_id)
        instance.unregister(self)
        await release_instance(instance)

    def topics(self) -> tuple[str, ...]:
        """See `Resident`: the topics that it has resolved."""
        return tuple(sorted(self._topics))

    # --- sending -----------------------------------------------------------------------------------------------------

    async def send(
        self,
        message: Message,
        *,
        key: str | None = None,
        queue: MessageQueue | None = None,
        delay_ms: int | None = None,
    ) -> SendResult:
        """Send a message and wait until its broker has it; returns its queue, offset and id.

        Args:
            message: what to send.
            key: messages with equal keys go to the same queue, as long as the topic has the same queues.
            queue: exactly this one of the topic. With a key or a queue no other broker is tried, only the same again.
            delay_ms: deliver it later by this, up to 40 days; its offset is -1 until then.

        Raises:
            RlabError: after the last attempt. With `definite` False the message may be stored nevertheless.

        Cancellation: the message may or may not be stored.
        """
        check_message(message)
        topic = message.topic
        queues = self._publish_queues(topic) or await self._resolve(topic)
        now = self._time()
        deadline = now + self._timeout_s
        self._sent += 1
        message_id = f"{self._id_prefix}{self._sent:08x}"
        payload = encode_payload(message, int(self._clock_ms()), message_id)
        hashed = tag_hash(message.tags) if message.tags else 0
        avoid: str | None = None
        doubt: RlabError | None = None  # the error of an attempt that may have been carried out
        pick, is_free = self._picker.pick, queue is None and key is None
        attempt, several = 1, is_free and queues[0].broker_name != queues[-1].broker_name
        while True:
            chosen = pick(topic, queues, avoid, now=now) if is_free else self._checked(topic, queues, key or "", queue)
            until = deadline
            if several and (avoid is None or other_brokers(queues, chosen.broker_name, avoid)):
                until = now + (deadline - now) / (self._attempts - attempt + 1)
            try:
                connection = self._masters.get(chosen.broker_name)
                if connection is None or not connection.ready:
                    connection = await self._connection_to(chosen.broker_name, until - now, waits=until == deadline)
                if delay_ms is None:
                    offset, handle = await self._batcher.add(chosen, payload, hashed, until), ""
                else:
                    offset, handle = await send_later(connection, chosen, message_id, payload, hashed, delay_ms, until)
            except RlabError as error:
                self._picker.record_failure(chosen, error, self._time())
                doubt = doubt if error.definite else error
                other_queues = queues if several else ()
                if not (attempt := await self._next_attempt(attempt, error, chosen, other_queues, deadline)):
                    raise self._noted(doubt or error, self._time(), deadline) from None
                now, avoid = self._time(), chosen.broker_name
                if error.code in ELSEWHERE:
                    queues = await self._new_queues(topic, queues)
            else:
                if (latency_s := self._time() - now) >= self._noted_from_s:
                    self._note(chosen.broker_name, latency_s, now + latency_s, deadline)
                return _new_tuple(SendResult, (chosen, offset, message_id, handle))

    async def send_oneway(self, message: Message, *, key: str | None = None) -> None:
        """Send a message without waiting for an answer: it may be lost unnoticed.

        Raises:
            RlabError: there is no queue or no connection to send it over.

        Cancellation: the message may or may not be sent.
        """
        check_message(message)
        topic = message.topic
        queue = self._choose(topic, self._publish_queues(topic) or await self._resolve(topic), key, None, self._time())
        connection = await self._connection_to(queue.broker_name, self._timeout_s)
        header = {"topic": queue.topic, "queue_id": queue.queue_id, "tag_hash": tag_hash(message.tags)}
        connection.notify(_SEND, header, self._encode(message)[1])

    async def send_batch(self, messages: Sequence[Message], *, key: str | None = None) -> list[SendResult]:
        """Send messages of one topic to one queue in one request: all are stored, or none.

        Raises:
            MessageIllegal: none or too many, of different topics, or together larger than a frame.
            RlabError: as `send`; an attempt is one of the whole batch.

        Cancellation: all or none may be stored.
        """
        topic = check_batch(messages)
        queues = self._publish_queues(topic) or await self._resolve(topic)
        first_id, born_ms, prefix = self._sent + 1, int(self._clock_ms()), self._id_prefix
        self._sent += len(messages)
        ids = [f"{prefix}{number:08x}" for number in range(first_id, self._sent + 1)]
        payloads = map(encode_payload, messages, repeat(born_ms), ids)
        body: bytes = _pack([(tag_hash(each.tags), payload) for each, payload in zip(messages, payloads, strict=True)])
        if len(body) > MAX_FRAME_BYTES - 1024:
            raise MessageIllegal(f"the batch has {len(body)} bytes, more than fits one frame: send it in parts")

        async def send(queue: MessageQueue, connection: Connection, timeout_s: float) -> int:
            header = {"topic": topic, "queue_id": queue.queue_id}
            answer = await connection.request(RequestCode.SEND_BATCH_MESSAGE, header, body, timeout_s)
            return int(raise_for_code(answer).header["offset"])

        queue, first = await self._attempted(queues, key, send)
        return [_new_tuple(SendResult, (queue, first + n, message_id, "")) for n, message_id in enumerate(ids)]

    async def recall(self, topic: str, handle: str) -> str:
        """Recall a delayed message that is not due yet, by the `recall_handle` of its send; returns its id. Idempotent.

        QueryNotFound: it was delivered, or is not known. InvalidParameter: the handle is wrong, or of another topic.
        RlabError: as `send`; with `definite` False it may be recalled. Cancellation: it may or may not be recalled.
        """
        if not self._publish_queues(check_topic(topic)):
            await self._running().update_routes((topic,))
        queue = MessageQueue(topic, parse_recall_handle(handle).broker, 0)
        return (await self._attempted((queue,), "", recalling(handle), is_fixed=True))[1]

    async def queues(self, topic: str) -> list[MessageQueue]:
        """The queues that a message of the topic may go to now, sorted: for `send(..., queue=...)`.

        InvalidParameter: an illegal name. TopicNotExist, NoPermission: no such topic, or it takes no messages now.
        ConnectFailed: no name server answers. Cancellation: harmless.
        """
        check_topic(topic)
        return list(self._publish_queues(topic) or await self._resolve(topic))

    # --- details -----------------------------------------------------------------------------------------------------

    def _note(self, broker_name: str, latency_s: float, now: float, deadline: float) -> None:
        if latency_s >= _SLOW_S:
            self._picker.record(broker_name, latency_s, now)
        self._latency_sink(now - deadline + self._timeout_s, True)

    def _noted(self, error: RlabError, now: float, deadline: float) -> RlabError:
        self._latency_sink(now - deadline + self._timeout_s, False)
        return error

    def _encode(self, message: Message) -> tuple[str, bytes]:
        self._sent += 1
        message_id = f"{self._id_prefix}{self._sent:08x}"
        return message_id, encode_payload(message, int(self._clock_ms()), message_id)

    async def _attempted(
        self,
        queues: tuple[MessageQueue, ...],
        key: str | None,
        act: Callable[[MessageQueue, Connection, float], Awaitable[Result]],
        *,
        is_fixed: bool = False,
    ) -> tuple[MessageQueue, Result]:
        """Call `act` with a queue and a connection, with the attempts of `send`; returns the queue and the result.

        With `is_fixed` no attempt looks for other queues.
        """
        topic, now = queues[0].topic, self._time()
        deadline, attempt = now + self._timeout_s, 1
        avoid: str | None = None
        doubt: RlabError | None = None
        while True:
            chosen, until = self._choose(topic, queues, key, avoid, now), deadline
            other_queues = queues if key is None else ()
            if other_brokers(other_queues, chosen.broker_name, avoid or ""):
                until = now + (deadline - now) / (self._attempts - attempt + 1)
            try:
                connection = await self._connection_to(chosen.broker_name, until - now, waits=until == deadline)
                return chosen, await act(chosen, connection, until - self._time())
            except RlabError as error:
                self._picker.record_failure(chosen, error, self._time())
                doubt = doubt or (None if error.definite else error)
                if not (attempt := await self._next_attempt(attempt, error, chosen, other_queues, deadline)):
                    raise doubt or error from None
                now, avoid = self._time(), chosen.broker_name
                if error.code in ELSEWHERE and not is_fixed:
                    queues = await self._new_queues(topic, queues)

    async def _connection_to(self, broker_name: str, timeout_s: float, *, waits: bool = True) -> Connection:
        connection = await self._running().connect_master(broker_name, timeout_s, waits=waits)
        if not connection.ready:
            with anyio.move_on_after(timeout_s) as scope:
                await connection.wait_writable()
            if scope.cancelled_caught:
                raise ConnectFailed(f"broker {broker_name!r} reads nothing for {timeout_s:.1f} s; nothing was sent")
        return connection

    async def _resolve(self, topic: str) -> tuple[MessageQueue, ...]:
        """Queues of a topic that is not in the route table; see `UnknownTopics.queues`."""
        return await self._unknown.queues(self._running(), topic, self._topics, self._time())

    async def _new_queues(self, topic: str, queues: tuple[MessageQueue, ...]) -> tuple[MessageQueue, ...]:
        """New queues for the next attempt, after a refusal that shows that the known ones are out of date."""
        instance = self._running()
        await instance.update_routes((topic,))
        return instance.routes.publish_queues(topic) or queues

    def _checked(
        self, topic: str, queues: Sequence[MessageQueue], key: str, queue: MessageQueue | None
    ) -> MessageQueue:
        return select_by_key(queues, key) if queue is None else check_queue_of(topic, queue)

    def _choose(
        self, topic: str, queues: tuple[MessageQueue, ...], key: str | None, avoid: str | None, now: float
    ) -> MessageQueue:
        if key is not None:
            return select_by_key(queues, key)
        return self._picker.pick(topic, queues, avoid, now=now)

    async def _next_attempt(
        self, attempt: int, error: RlabError, failed: MessageQueue, others: Sequence[MessageQueue], deadline: float
    ) -> int:
        """The number of the next attempt, which may succeed and is in time; 0 for none. Cancellation: harmless.

        If the attempt cannot go to another broker of `others`, this waits: as long as a late broker has asked; or for
        the next master of a set, and then the failed attempt does not count.
        """
        if not (error.retryable or isinstance(error, RequestTimeout) or error.code in ELSEWHERE):
            return 0
        instance, name, elsewhere = self._running(), failed.broker_name, other_brokers(others, failed.broker_name)
        if not elsewhere and instance.is_worth_waiting(name, error):
            return attempt if await instance.wait_for_master(name, deadline) else 0
        wait_s = 0.0 if elsewhere else instance.busy_wait_s(name, error)
        if attempt >= self._attempts or self._time() + wait_s >= deadline:
            return 0
        if wait_s:
            await anyio.sleep(wait_s)
        return attempt + 1

    def instance_failed(self, reason: BaseException) -> None:
        """See `Resident`: without routes, sends are refused."""
        self._publish_queues = self._not_running

    def _not_running(self, topic: str) -> tuple[MessageQueue, ...]:
        if self._state is ServiceState.RUNNING:
            self._running().background.check()
        raise IllegalOperation(f"this producer is {self._state}: use it inside 'async with', or call start()")

    def _running(self) -> ClientInstance:
        assert self._instance is not None, "a send begins with `_publish_queues`, which refuses before the start"
        return self._instance
