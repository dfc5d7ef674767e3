"""A scenario with everything that clients ask of a cluster, for the commit that is recorded and for this one.

It uses what both have under the same names: `client`, `remoting.client` and the numbers of requests. The cluster has
one name server and one broker. It returns what its clients saw, which is the same with servers of either commit.

    topic orders, 2 queues -> sends of all kinds -> push consumers come and go -> lite pull -> pop -> broker assignment
    -> questions of operators -> sink of Spark -> the topic and its groups are deleted
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING, Any

import anyio
import msgpack

from client import (
    Admin,
    ConsumeFrom,
    ConsumeResult,
    LitePullConsumer,
    Message,
    MessageExt,
    PopConsumer,
    Producer,
    PushConsumer,
)
from model.offset_reset import ResetTo
from remoting.client import RemotingClient
from remoting.request_code import RequestCode

if TYPE_CHECKING:  # the other commit has it elsewhere
    from testbed.simulation.kernel.run import Simulation

NAME_SERVERS = ["namesrv-1:9876"]
BROKER = "broker-a:10911"
WITHIN_S = 60.0


class Scenario:
    """The clients and what they have seen so far, by title."""

    def __init__(self, simulation: Simulation) -> None:
        self.seen: dict[str, Any] = {}
        self._simulation = simulation
        self._clients = 0

    async def run(self) -> dict[str, Any]:
        """Go through all parts in order; returns what was seen."""
        with self._simulation.on_host("admin"):
            await self._run_all()
        return self.seen

    async def _run_all(self) -> None:
        admin = Admin(NAME_SERVERS)
        await admin.start()
        await admin.create_topic("orders", queues=2)
        parts = (self._send, self._push, self._fail, self._lite_pull, self._pop, self._assigned)
        for part in parts:
            await part()
            await anyio.sleep(1)
        await self._operate(admin)
        await self._sink()
        await admin.shutdown()

    def _client(self, make: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Make a client on a host of its own."""
        self._clients += 1
        host = f"h{self._clients}"
        made = {"clock_ms": self._simulation.clock_ms, "rng": Random(host), "trace": False, "instance_name": host}
        with self._simulation.on_host(host):
            return make(NAME_SERVERS, *arguments, **made, **options)

    async def _start(self, client: Any) -> Any:
        with self._simulation.on_host(f"h{self._clients}"):
            await client.start()
        return client

    # --- producers and consumers -------------------------------------------------------------------------------------

    async def _send(self) -> None:
        producer = await self._start(self._client(Producer, group="makers"))
        result = await producer.send(Message("orders", b"first", ("k1",), "red"), key="k1")
        self.seen["message id"] = result.message_id
        await producer.send_batch([Message("orders", b"batch%d" % n) for n in range(4)], key="b")
        await producer.send_oneway(Message("orders", b"one-way"), key="k1")
        async with anyio.create_task_group() as sends:
            for n in range(6):
                sends.start_soon(producer.send, Message("orders", b"%d" % n))
        await producer.shutdown()

    async def _push(self) -> None:
        got: list[bytes] = []

        async def listener(messages: Sequence[MessageExt]) -> None:
            got.extend(message.body for message in messages)

        first = self._client(PushConsumer, "billing", consume_from=ConsumeFrom.FIRST_OFFSET)
        await first.subscribe("orders", listener)
        await self._start(first)
        await until(lambda: len(got) >= 12)
        second = self._client(PushConsumer, "billing", consume_from=ConsumeFrom.FIRST_OFFSET)
        await second.subscribe("orders", listener)
        await self._start(second)
        await anyio.sleep(10)
        producer = await self._start(self._client(Producer))
        for n in range(8):
            await producer.send(Message("orders", b"later%d" % n), key=str(n))
        await until(lambda: len(got) >= 20)
        await second.shutdown()
        await anyio.sleep(10)
        await first.shutdown()
        await producer.shutdown()
        self.seen["pushed"] = sorted(got)

    async def _fail(self) -> None:
        got: list[bytes] = []

        async def listener(messages: Sequence[MessageExt]) -> ConsumeResult:
            got.extend(message.body for message in messages)
            return ConsumeResult.RECONSUME_LATER

        # Without further attempts it is a dead-letter message at once.
        consumer = self._client(PushConsumer, "failing", max_attempts=0)
        await consumer.subscribe("orders", listener, "bad")
        await self._start(consumer)
        await anyio.sleep(5)
        producer = await self._start(self._client(Producer))
        await producer.send(Message("orders", b"bad", (), "bad"), key="bad")
        await until(lambda: bool(got))
        await anyio.sleep(2)
        await consumer.shutdown()
        await producer.shutdown()
        self.seen["failed"] = got

    async def _lite_pull(self) -> None:
        consumer = self._client(LitePullConsumer, "readers", consume_from=ConsumeFrom.FIRST_OFFSET)
        await consumer.subscribe("orders")
        await self._start(consumer)
        got = await self._poll(consumer, 21)
        await consumer.commit()
        queue = sorted(await consumer.fetch_message_queues("orders"))[0]
        await consumer.seek_to_begin(queue)
        again = await consumer.poll(5.0)
        await consumer.seek_to_end(queue)
        self.seen["polled"] = sorted(message.body for message in got)
        self.seen["polled again"] = bool(again)
        self.seen["offset at a time"] = await consumer.offset_for_timestamp(queue, 0)
        self.seen["committed"] = await consumer.committed(queue) is not None
        await consumer.shutdown()

    async def _poll(self, consumer: LitePullConsumer, n: int) -> list[MessageExt]:
        got: list[MessageExt] = []
        with anyio.fail_after(WITHIN_S):
            while len(got) < n:
                got += await consumer.poll(5.0)
        return got

    async def _pop(self) -> None:
        popper = self._client(PopConsumer, "poppers", consume_from=ConsumeFrom.FIRST_OFFSET)
        await popper.subscribe("orders")
        await self._start(popper)
        messages: list[Any] = []
        with anyio.fail_after(WITHIN_S):
            while len(messages) < 21:
                messages += await popper.receive(16, invisible_s=60, wait_s=5)
        await popper.extend(messages[0], 90)
        await popper.ack(messages[0])
        self.seen["dead handles"] = await popper.ack(messages[1:])
        self.seen["popped"] = sorted(message.body for message in messages)
        await popper.shutdown()

    async def _assigned(self) -> None:
        """A group whose queues the broker assigns, and one whose members pop."""
        got: list[bytes] = []

        async def listener(messages: Sequence[MessageExt]) -> None:
            got.extend(message.body for message in messages)

        for group, options in (("by-broker", {"assignment": "broker"}), ("pushed-pops", {"mode": "pop"})):
            consumer = self._client(PushConsumer, group, consume_from=ConsumeFrom.FIRST_OFFSET, **options)
            await consumer.subscribe("orders", listener)
            await self._start(consumer)
            await until(lambda: len(got) >= 21)
            await anyio.sleep(2)
            await consumer.shutdown()
            self.seen[f"consumed by {group}"] = sorted(got)
            got.clear()

    # --- operators and Spark -----------------------------------------------------------------------------------------

    async def _operate(self, admin: Admin) -> None:
        seen = self.seen
        seen["brokers"] = len(await admin.brokers())
        seen["queues"] = len((await admin.broker_info("broker-a")).topics)
        seen["topics"] = list(await admin.topics())
        seen["groups"] = sorted(summary.group for summary in await admin.groups())
        seen["lag"] = (await admin.group("billing")).lag
        found = await admin.query_message("orders", "k1")
        seen["by key"] = [each.message.body for each in found.messages]
        found = await admin.view_message(seen["message id"])
        seen["by id"] = [each.message.body for each in found.messages]
        letters = admin.dead_letters("failing")
        seen["dead letters"] = [letter.message.body async for letter in letters.letters()]
        seen["sent again"] = await letters.resend_all()
        await self._operate_with_a_member(admin)
        await admin.scale_topic("orders", read=3, write=3)
        await admin.delete_group("readers")
        await admin.delete_topic("orders")
        seen["topics at the end"] = list(await admin.topics())

    async def _operate_with_a_member(self, admin: Admin) -> None:
        """What operators ask about groups with members; they hear of a reset, and of another mode."""
        got: list[bytes] = []

        async def listener(messages: Sequence[MessageExt]) -> None:
            got.extend(message.body for message in messages)

        consumer = self._client(PushConsumer, "by-broker", assignment="broker")
        await consumer.subscribe("orders", listener)
        await self._start(consumer)
        await anyio.sleep(3)
        group = await admin.group("by-broker")
        self.seen["members"] = len(group.members)
        self.seen["assigned by"] = (await admin.assignment("by-broker")).coordinator
        await admin.set_request_mode("by-broker", "orders", "POP")
        await anyio.sleep(3)
        await consumer.shutdown()
        other = self._client(PushConsumer, "billing")
        await other.subscribe("orders", listener)
        await self._start(other)
        await anyio.sleep(3)
        await admin.reset_offsets("billing", "orders", ResetTo.earliest())
        await until(lambda: len(got) >= 21)
        await other.shutdown()
        self.seen["again after the reset"] = sorted(set(got))

    async def _sink(self) -> None:
        """The requests of the sink, which its own client sends without an event loop."""
        with self._simulation.on_host("spark"):
            remoting = RemotingClient(rng=Random("spark"))
        query = {"query_id": "q", "batch_id": 0}

        async def ask(code: RequestCode, header: dict[str, Any], body: Any = None) -> None:
            with self._simulation.on_host("spark"):
                await remoting.request(BROKER, code, header, None if body is None else msgpack.packb(body), 5.0)

        await ask(
            RequestCode.UPDATE_AND_CREATE_TOPIC,
            {"topic": "out", "read_queue_nums": 1, "write_queue_nums": 1, "perm": 6},
        )
        await ask(RequestCode.SINK_SPREAD, {**query, "topic": "out"}, ["broker-a"])
        payload = msgpack.packb(["out", b"row", "", [], 0, 0, "id1"])
        await ask(RequestCode.SINK_STAGE, {**query, "partition": 0, "attempt": 7, "seq": 0}, [["out", 0, 0, payload]])
        await ask(RequestCode.SINK_COMMIT, {**query, "is_only": False}, [[0, 7, 1]])
        await ask(RequestCode.SINK_ABORT, {**query, "batch_id": 1})
        await remoting.aclose()


async def until(done: Callable[[], bool]) -> None:
    """Wait in virtual time for a condition that nothing announces."""
    with anyio.fail_after(WITHIN_S):
        while not done():  # noqa: ASYNC110
            await anyio.sleep(0.05)


async def act(simulation: Simulation) -> dict[str, Any]:
    """Run the scenario; returns what its clients saw."""
    return await Scenario(simulation).run()
