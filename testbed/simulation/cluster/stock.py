"""StockMember: a consumer of RocketMQ 5 on a host of its own, which speaks gRPC and does what RocketMQ's clients do.

A push consumer receives from every broker without a pause, and lets the broker extend the invisible times. A simple
consumer receives for a time, from the brokers in turns; it acknowledges several messages in a call, cancels some
receives, asks now and then for more time, and makes some messages dead letters.

As RocketMQ's clients do, a member goes on acknowledging until it is answered that the message is acknowledged, or that
its handle is dead. The messages of one answer are at its consumer as soon as the answer has come.

It needs the extra `grpc`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from random import Random
from typing import Any, Protocol

import anyio

from client.instance.background import BackgroundTasks
from model.errors import RlabError, ServiceNotAvailable
from remoting.address import parse_address
from rocketmq.grpc import proto
from rocketmq.grpc.proto import MESSAGES, duration_ms, to_duration
from testbed.load.grpc import GrpcClientConnection
from testbed.simulation.cluster.stock_link import STEP_S, TIMEOUT_S, StockLink, StockMessage, read_message
from testbed.simulation.kernel.network import Fault
from testbed.simulation.kernel.run import Simulation

HEARTBEAT_S, ROUTES_S = 10.0, 5.0
PUSH_POLL_S, SIMPLE_POLL_S = 20.0, 5.0
AGAIN_S = 1.0
"""Pause before a request that failed is sent again."""
BATCH = 32
MAX_CONSUMING = 64
"""Messages of a push consumer that are being consumed; it receives no more until some are done."""
SLICE_MS, LATE_MS = 10_000, 500
"""Messages that come so late, or whose invisible time ends so soon, are returned. RocketMQ's clients consume them."""
_STARTS = 10
"""Attempts of a start to get a route."""


class StockWork(Protocol):
    """What a member does with its messages, and the record of their ends."""

    def received(self, message: StockMessage) -> None:
        """Record that a message has come."""

    async def consume(self, message: StockMessage) -> bool:
        """Consume a message; returns whether it is done."""

    def acknowledging(self, message: StockMessage) -> None:
        """Record that a message is being acknowledged."""

    def settled(self, message: StockMessage) -> None:
        """Record that a broker confirmed that a message is acknowledged, or a dead letter."""


class StockMember:
    """See the module header.

    Attributes:
        live: whether it runs and can be reached.
    """

    def __init__(
        self,
        simulation: Simulation,
        host: str,
        group: str,
        topic: str,
        addresses: Sequence[str],
        work: StockWork,
        *,
        is_push: bool,
        invisible_s: float,
        grace_s: float,
        number: int,
    ) -> None:
        self.simulation, self.host, self.group = simulation, host, group
        self._client_id = f"{host}@{number}"
        self.live = False
        self._topic, self._addresses, self._work = topic, addresses, work
        self._is_push, self._invisible_s, self._grace_s = is_push, invisible_s, grace_s
        self._random = Random(f"{self.client_id} {simulation.seed}")
        self._background = BackgroundTasks(f"stock member {self.client_id}")
        self._receiving = BackgroundTasks(f"receives of {self.client_id}")
        self._links: dict[str, StockLink] = {}  # broker name -> link
        self._addresses_of: dict[str, str] = {}
        self._consuming = 0

    @property
    def client_id(self) -> str:
        """`host@number`."""
        return self._client_id

    def _settings(self) -> Any:
        """The settings that it sends."""
        entry = MESSAGES["SubscriptionEntry"](
            topic=MESSAGES["Resource"](name=self._topic),
            expression=MESSAGES["FilterExpression"](type=proto.TAG, expression="*"),
        )
        subscription = MESSAGES["Subscription"](group=MESSAGES["Resource"](name=self.group), subscriptions=[entry])
        return MESSAGES["TelemetryCommand"](
            settings=MESSAGES["Settings"](client_type=self._client_type, subscription=subscription)
        )

    @property
    def _client_type(self) -> int:
        return proto.PUSH_CONSUMER if self._is_push else proto.SIMPLE_CONSUMER

    # --- life --------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start it, from its host. Raises: RlabError. Cancellation: it is not started."""
        with self.simulation.on_host(self.host):
            await self._find_route()
            await self._background.start()
            await self._receiving.start()
            self._background.start_soon(self._query_routes)
            self._background.start_soon(self._send_heartbeats)
            if not self._is_push:
                self._receiving.start_soon(self._receive_in_turns)
        self.live = True

    async def stop(self) -> None:
        """Shut it down: finish its messages, send NotifyClientTermination. Cancellation: only after that."""
        self.live = False
        with self.simulation.on_host(self.host), anyio.CancelScope(shield=True):
            await self._receiving.stop()
            with anyio.move_on_after(self._grace_s):
                while self._consuming:  # noqa: ASYNC110 - virtual time
                    await anyio.sleep(STEP_S)
            await self._background.stop()
            request = MESSAGES["NotifyClientTerminationRequest"](group=MESSAGES["Resource"](name=self.group))
            for link in self._links.values():
                with suppress(RlabError):
                    await link.ask("NotifyClientTermination", request)
                link.close()

    async def crash(self) -> None:
        """Kill its process: its connections are reset. Cancellation: only after that."""
        self.live = False
        with self.simulation.network.stall(self.host):
            self.simulation.network.cut(self.host)
            await self.end()

    async def end(self) -> None:
        """End its tasks, and send nothing more. Cancellation: only after that."""
        with anyio.CancelScope(shield=True):
            for link in self._links.values():
                link.close()
            await self._receiving.stop()
            await self._background.stop()
            for link in self._links.values():
                link.close()

    def hang(self) -> Fault:
        """See `SimulatedMember.hang`."""
        self.live = False
        return self.simulation.network.stall(self.host)

    # --- routes and heartbeats ---------------------------------------------------------------------------------------

    async def _find_route(self) -> None:
        """Query the route until a name server has it, which may have started just now."""
        for _ in range(_STARTS):
            with suppress(RlabError):
                return await self._query_route()
            await anyio.sleep(AGAIN_S)
        await self._query_route()

    async def _query_route(self) -> None:
        address = self._random.choice(self._addresses)
        host, port = parse_address(address)
        connection = await GrpcClientConnection.to_server(host, port)
        try:
            request = MESSAGES["QueryRouteRequest"](topic=MESSAGES["Resource"](name=self._topic))
            [route] = await connection.ask("QueryRoute", request, self.client_id, TIMEOUT_S)
        finally:
            connection.close()
        if route.status.code != proto.OK:
            raise ServiceNotAvailable(f"no route of {self._topic}: {route.status.message}")
        for queue in route.message_queues:
            [endpoint] = queue.broker.endpoints.addresses
            self._addresses_of[queue.broker.name] = f"{endpoint.host}:{endpoint.port}"

    async def _query_routes(self) -> None:
        while True:
            for name, address in self._addresses_of.items():
                if name not in self._links:
                    self._links[name] = StockLink(address, self.client_id, self._settings())
                    if self._is_push and self._receiving.running:
                        self._receiving.start_soon(self._receive_from, name)
            await anyio.sleep(ROUTES_S)
            with suppress(RlabError):
                await self._query_route()

    async def _send_heartbeats(self) -> None:
        request = MESSAGES["HeartbeatRequest"](
            group=MESSAGES["Resource"](name=self.group), client_type=self._client_type
        )
        await anyio.sleep(1.0)
        while True:
            for link in list(self._links.values()):
                with suppress(RlabError):
                    await link.ask("Heartbeat", request)
            await anyio.sleep(HEARTBEAT_S)

    # --- receiving ---------------------------------------------------------------------------------------------------

    async def _receive(self, broker: str, n: int, poll_s: float) -> list[StockMessage]:
        """One receive. Raises: RlabError. Cancellation: the call is reset."""
        how: dict[str, Any] = {"auto_renew": True}
        if not self._is_push:
            how = {"invisible_duration": to_duration(int(self._invisible_s * 1000))}
        request = MESSAGES["ReceiveMessageRequest"](
            group=MESSAGES["Resource"](name=self.group),
            message_queue=MESSAGES["MessageQueue"](topic=MESSAGES["Resource"](name=self._topic), id=-1),
            filter_expression=MESSAGES["FilterExpression"](type=proto.TAG, expression="*"),
            batch_size=n,
            long_polling_timeout=to_duration(int(poll_s * 1000)),
            **how,
        )
        answers = await self._links[broker].ask("ReceiveMessage", request, poll_s + TIMEOUT_S)
        status = answers[0].status
        if status.code == proto.MESSAGE_NOT_FOUND:
            return []
        if status.code != proto.OK:
            raise ServiceNotAvailable(f"a receive was refused: {status.code} {status.message}")
        late_ms = self.simulation.clock_ms() - duration_ms(answers[-1].delivery_timestamp)
        messages = [read_message(broker, answer.message) for answer in answers[1:-1]]
        if late_ms >= (SLICE_MS if self._is_push else self._invisible_s * 1000) - LATE_MS:
            for message in messages:  # the broker may have redelivered it
                self._background.start_soon(self._change_until_done, broker, message, 0.0)
            return []
        for message in messages:
            self._work.received(message)
        return messages

    async def _receive_from(self, broker: str) -> None:
        """Receive for a push consumer, and consume in tasks of their own; in order if the settings say so."""
        while True:
            try:
                messages = await self._receive(broker, BATCH, PUSH_POLL_S)
                self._consuming += len(messages)
                if messages and (await self._settings_of(broker)).subscription.fifo:
                    self._background.start_soon(self._consume_in_order, broker, messages)
                    messages = []
                for message in messages:
                    self._background.start_soon(self._consume, broker, message)
                while self._consuming >= MAX_CONSUMING:  # noqa: ASYNC110 - virtual time
                    await anyio.sleep(STEP_S)
            except RlabError:
                await anyio.sleep(AGAIN_S)

    async def _consume(self, broker: str, message: StockMessage) -> None:
        try:
            if await self._work.consume(message):
                await self._acknowledge(broker, [message])
            else:
                await self._fail(broker, message)
        finally:
            self._consuming -= 1

    async def _consume_in_order(self, broker: str, messages: list[StockMessage]) -> None:
        """Consume messages one after another, and a failed one here again, as often as the settings say."""
        for message in messages:
            policy = (await self._settings_of(broker)).backoff_policy
            for attempt in range(message.attempt, policy.max_attempts + 1):
                if await self._work.consume(message):
                    await self._acknowledge(broker, [message])
                    break
                await anyio.sleep(_pause_s(policy, attempt))
            else:
                await self._make_dead_letter(broker, message)
            self._consuming -= 1

    async def _receive_in_turns(self) -> None:
        """Receive for a simple consumer."""
        chance = self._random
        while True:
            await anyio.sleep(STEP_S)
            for broker in list(self._links):
                messages: list[StockMessage] = []
                try:
                    with anyio.move_on_after(chance.choice((0.3, 60.0))):
                        messages = await self._receive(broker, chance.choice((1, 4, BATCH)), SIMPLE_POLL_S)
                except RlabError:
                    await anyio.sleep(STEP_S)
                self._consuming += len(messages)
                try:
                    await self._consume_all(broker, messages)
                finally:
                    self._consuming -= len(messages)

    async def _consume_all(self, broker: str, messages: list[StockMessage]) -> None:
        chance, done = self._random, list[StockMessage]()
        for message in messages:
            is_dead = chance.random() < 0.05
            extended = message
            if chance.random() < 0.1:
                _, extended = await self._change(broker, message, chance.choice((1.0, 10.0)))
            if is_dead:
                await self._make_dead_letter(broker, extended)
            elif await self._work.consume(extended):
                done.append(extended)
        await self._acknowledge(broker, done)

    # --- ends of messages --------------------------------------------------------------------------------------------

    async def _ask(self, broker: str, rpc: str, **fields: Any) -> list[Any]:
        """Send a request about messages. Raises: RlabError. Cancellation: the call is reset."""
        resources = {"group": MESSAGES["Resource"](name=self.group), "topic": MESSAGES["Resource"](name=self._topic)}
        return await self._links[broker].ask(rpc, MESSAGES[f"{rpc}Request"](**resources, **fields))

    async def _acknowledge(self, broker: str, messages: list[StockMessage]) -> None:
        """Acknowledge messages until all are, or their handles are dead."""
        while messages:
            entries = [
                MESSAGES["AckMessageEntry"](message_id=each.message_id, receipt_handle=each.handle) for each in messages
            ]
            for message in messages:
                self._work.acknowledging(message)
            results: Any = ()
            with suppress(RlabError):
                [answer] = await self._ask(broker, "AckMessage", entries=entries)
                results = answer.entries
            left = dict(enumerate(messages))
            for number, result in enumerate(results):
                if result.status.code == proto.OK:
                    self._work.settled(left.pop(number))
                elif result.status.code == proto.INVALID_RECEIPT_HANDLE:
                    del left[number]
            messages = list(left.values())
            if messages:
                await anyio.sleep(AGAIN_S)

    async def _change(self, broker: str, message: StockMessage, invisible_s: float) -> tuple[int, StockMessage]:
        """Ask once for another invisible time; returns the result, 0 for none, and the message with its new handle."""
        duration = to_duration(int(invisible_s * 1000))
        message_fields = {"receipt_handle": message.handle, "message_id": message.message_id}
        try:
            [answer] = await self._ask(broker, "ChangeInvisibleDuration", invisible_duration=duration, **message_fields)
        except RlabError:
            return 0, message
        return answer.status.code, message._replace(handle=answer.receipt_handle)

    async def _settings_of(self, broker: str) -> Any:
        """The settings of the server, however long that takes."""
        while True:
            with suppress(RlabError):
                return await self._links[broker].settings()
            await anyio.sleep(AGAIN_S)

    async def _fail(self, broker: str, message: StockMessage) -> None:
        """Have a failed message delivered again after the pause of the settings, or make it a dead letter."""
        policy = (await self._settings_of(broker)).backoff_policy
        if message.attempt >= policy.max_attempts:
            await self._make_dead_letter(broker, message)
            return
        await self._change_until_done(broker, message, _pause_s(policy, message.attempt))

    async def _change_until_done(self, broker: str, message: StockMessage, invisible_s: float) -> None:
        while True:
            code, _ = await self._change(broker, message, invisible_s)
            if code in (proto.OK, proto.INVALID_RECEIPT_HANDLE):
                return
            await anyio.sleep(AGAIN_S)

    async def _make_dead_letter(self, broker: str, message: StockMessage) -> None:
        message_fields = {"receipt_handle": message.handle, "message_id": message.message_id}
        while True:
            with suppress(RlabError):
                [answer] = await self._ask(broker, "ForwardMessageToDeadLetterQueue", **message_fields)
                if answer.status.code == proto.OK:
                    if answer.status.message == "OK":  # else the handle was dead
                        self._work.settled(message)
                    return
                if answer.status.code == proto.INVALID_RECEIPT_HANDLE:
                    return
            await anyio.sleep(AGAIN_S)


def _pause_s(policy: Any, attempt: int) -> float:
    pauses = policy.customized_backoff.next
    return duration_ms(pauses[min(attempt, len(pauses)) - 1]) / 1000
