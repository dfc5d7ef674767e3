"""The background of a consumer ends, and not by a shutdown: it is logged, `join` raises it, and the member leaves.

Each kind of consumer loses each of its background tasks once, as by other code that cancels it; and `KeyboardInterrupt`
and `SystemExit` of user code end the process, but only after the consumer has left its group.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

import anyio
import pytest

from client.admin.admin import Admin
from client.allocate import AllocateMessageQueueAveragely
from client.instance.member import ServiceState
from client.lite_pull.consumer import LitePullConsumer
from client.pop.consumer import PopConsumer
from client.produce.producer import Producer
from client.push.consumer import PushConsumer
from client.rebalance.member import GroupConsumer
from model.assignment import RequestMode
from model.errors import ClientFailed
from model.heartbeat import ConsumeFrom, MessageModel
from model.message import Message, MessageExt
from model.message_queue import MessageQueue
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate
from tests.simulation.lite import Lite
from tests.simulation.test_transactions import UNKNOWN, transact

pytestmark = pytest.mark.simulation

GRACE_S = 2.0


async def slow(messages: Sequence[MessageExt]) -> None:
    await anyio.sleep(0.5)


def in_a_thread(messages: Sequence[MessageExt]) -> None:
    """So that there are threads, which a task of the background holds."""


KINDS: dict[str, tuple[type[Any], dict[str, Any]]] = {
    "pull": (PushConsumer, {}),
    "order by queue": (PushConsumer, {"order": "queue"}),
    "order by key": (PushConsumer, {"order": "key"}),
    "pop": (PushConsumer, {"mode": "pop"}),
    "pop in order": (PushConsumer, {"mode": "pop", "order": "queue"}),
    "broadcasting": (PushConsumer, {"model": MessageModel.BROADCASTING}),
    "assigned by a broker": (PushConsumer, {"assignment": "broker"}),
    "popping as assigned": (PushConsumer, {"assignment": "broker"}),
    "lite pull": (LitePullConsumer, {}),
    "assigned queues": (LitePullConsumer, {}),
    "pop consumer": (PopConsumer, {}),
}


class Member:
    """One consumer of a kind on a host of its own, which shares its client instance with a witness of another group."""

    def __init__(self, cluster: SimulatedCluster, kind: str, number: int, tmp_path: Any, **more: Any) -> None:
        self.cluster, self.kind, self.host = cluster, kind, f"c{number}"
        make, options = KINDS[kind]
        options = {"consume_from": ConsumeFrom.FIRST_OFFSET, **options, **more}
        if make is not PopConsumer:
            options |= {"shutdown_grace_s": GRACE_S, "offsets_dir": tmp_path}
        base = {"clock_ms": cluster.simulation.clock_ms, "trace": False, "instance_name": "shared"}
        self.consumer: Any = make(cluster.addresses, f"g{number}", **base, **options)
        self.witness = PushConsumer(cluster.addresses, "witness", **base)  # type: ignore[arg-type]
        self.seen_by_witness: list[bytes] = []

    async def start(self) -> None:
        async def witnessed(messages: Sequence[MessageExt]) -> None:
            self.seen_by_witness.extend(message.body for message in messages)

        with self.cluster.simulation.on_host(self.host):
            await self.witness.subscribe("t", witnessed)
            await self.witness.start()
            await self.consumer.start()
            if self.kind == "assigned queues":
                await self.consumer.assign([MessageQueue("t", "broker-a", n) for n in range(2)])
            elif isinstance(self.consumer, PushConsumer):
                await self.consumer.subscribe("t", slow)
                await self.consumer.subscribe("t2", in_a_thread)
            else:
                await self.consumer.subscribe("t")

    def tasks(self) -> dict[str, asyncio.Task[Any]]:
        """One task of each name."""
        prefix = f"consumer of {self.consumer.group}: "
        named = {task.get_name(): task for task in asyncio.all_tasks()}
        return {name.removeprefix(prefix): task for name, task in sorted(named.items()) if name.startswith(prefix)}

    def is_member(self) -> bool:
        info = self.cluster.brokers["broker-a"].running.broker.groups.table.get(self.consumer.group)
        return info is not None and len(info.members) > 0

    async def stop(self) -> None:
        with self.cluster.simulation.on_host(self.host):
            await self.consumer.shutdown()
            await self.witness.shutdown()


async def outcome_of(join: Callable[[], Any], outcomes: list[BaseException | None]) -> None:
    try:
        await join()
    except ClientFailed as error:
        outcomes.append(error)
    else:
        outcomes.append(None)


async def lose(member: Member, name: str, end: Callable[[], Any], caplog: pytest.LogCaptureFixture) -> None:
    """End a part of a member, and check what becomes of it, and that the witness goes on."""
    consumer: GroupConsumer = member.consumer
    caplog.clear()
    outcomes: list[BaseException | None] = []
    async with anyio.create_task_group() as joining:
        joining.start_soon(outcome_of, consumer.join, outcomes)
        await anyio.sleep(0.1)
        end()
        await anyio.sleep(0.1)
        (error,) = outcomes
    assert isinstance(error, ClientFailed), name
    assert name in str(error)
    (record,) = [record for record in caplog.records if record.levelno == logging.CRITICAL]
    assert f"consumer of {consumer.group} has ended without a shutdown()" in record.getMessage()
    await anyio.sleep(GRACE_S + 0.5)
    assert not member.is_member(), name
    assert consumer._state is ServiceState.SHUTDOWN_ALREADY
    with pytest.raises(ClientFailed):
        await consumer.join()
    if isinstance(consumer, LitePullConsumer):
        with pytest.raises(ClientFailed):
            await consumer.poll()
    if isinstance(consumer, PopConsumer):
        with pytest.raises(ClientFailed):
            await consumer.receive()
    before = len(member.seen_by_witness)
    await member.cluster.producers[0].send("t", b"afterwards")
    await anyio.sleep(1)
    assert member.seen_by_witness[before:] == [b"afterwards"], "the other consumer of the instance goes on"
    await member.stop()


@pytest.mark.parametrize("kind", KINDS)
def test_a_consumer_that_loses_any_of_its_tasks_says_so_and_leaves_and_others_of_its_instance_go_on(
    simulate: Simulate, tmp_path: Any, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        for topic in ("t", "t2"):
            await cluster.create_topic(topic, queues=2)
        producer = await cluster.start_producer()
        lost: list[str] = []
        for number in range(1, 20):
            member = Member(cluster, kind, number, tmp_path)
            if kind == "popping as assigned":
                with cluster.simulation.on_host("admin"):
                    async with Admin(cluster.addresses) as admin:
                        await admin.set_request_mode(member.consumer.group, "t", RequestMode.POP)
            await member.start()
            await anyio.sleep(3)
            assert member.is_member() == (kind not in ("assigned queues",))
            for n in range(4):
                await producer.send("t", b"%d" % n)
                await producer.send("t2", b"%d" % n)
            await anyio.sleep(0.2)
            tasks = member.tasks()
            left = [name for name in tasks if name not in lost]
            if not left:
                await member.stop()
                break
            lost.append(left[0])
            await lose(member, left[0], tasks[left[0]].cancel, caplog)
        assert len(lost) >= (1 if kind == "pop consumer" else 3), lost

    simulate(scenario, brokers=1)


def test_a_consumer_whose_tasks_all_are_cancelled_as_at_the_end_of_an_event_loop_leaves_at_once(
    simulate: Simulate, tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        for topic in ("t", "t2"):
            await cluster.create_topic(topic, queues=2)
        producer = await cluster.start_producer()
        member = Member(cluster, "pull", 1, tmp_path, consume_batch=1)
        await member.start()
        await anyio.sleep(1)
        await producer.send("t", b"x")
        await anyio.sleep(0.1)
        assert member.is_member()
        ours = ("consumer of g1", "consumer of witness", "client instance")
        for task in asyncio.all_tasks():
            if task.get_name().startswith(ours):
                task.cancel()
        await anyio.sleep(1.5)
        assert not member.is_member()
        with pytest.raises(ClientFailed):
            await member.consumer.join()
        await member.stop()

    simulate(scenario, brokers=1)


def test_a_client_instance_that_loses_any_of_its_tasks_ends_all_its_consumers_which_leave(
    simulate: Simulate, tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        left, lost, number = [""], list[str](), 0
        while left:
            number += 1
            member = Member(cluster, "pull", number, tmp_path)
            await member.start()
            producer = Producer(cluster.addresses, instance_name="shared", trace=False)
            with cluster.simulation.on_host(member.host):
                await producer.start()
            await anyio.sleep(1)
            named = {task.get_name(): task for task in asyncio.all_tasks()}
            left = [name for name in sorted(named) if name.startswith("client instance: ") and name not in lost]
            if left:
                lost.append(left[0])
                caplog.clear()
                own = [task for task in asyncio.all_tasks() if task.get_name() == left[0]]
                for task in own:
                    task.cancel()
                await anyio.sleep(GRACE_S + 1)
                for consumer in (member.consumer, member.witness):
                    with pytest.raises(ClientFailed, match="its client instance was cancelled by other code"):
                        await consumer.join()
                with pytest.raises(ClientFailed, match="client instance has ended"):
                    await producer.send(Message("t", b"x"))
                assert not member.is_member()
                failed = [record.getMessage() for record in caplog.records if record.levelno == logging.CRITICAL]
                assert sorted(text.split(" has ended")[0] for text in failed) == [
                    "client instance",
                    f"consumer of g{number}",
                    "consumer of witness",
                ]
            with cluster.simulation.on_host(member.host):
                await producer.shutdown()
            await member.stop()
        assert len(lost) >= 3

    simulate(scenario, brokers=1)


# -------------------------------------------------------------------------------------------------- ends of the process


def exits(style: str, error: BaseException) -> Callable[..., Any]:
    def plain(*args: Any) -> None:
        raise error

    async def at_once(*args: Any) -> None:
        raise error

    async def waiting(*args: Any) -> None:
        await anyio.sleep(0.01)
        raise error

    return {"plain": plain, "async": at_once, "waiting": waiting}[style]


@pytest.mark.parametrize("joins", [True, False])
@pytest.mark.parametrize("style", ["plain", "async", "waiting"])
@pytest.mark.parametrize(("kind", "error"), [("pull", SystemExit(3)), ("pop", KeyboardInterrupt())])
def test_what_ends_the_process_out_of_a_listener_leaves_the_group_first_and_then_ends_join_and_the_process(
    simulate: Simulate, tmp_path: Any, style: str, kind: str, error: BaseException, joins: bool
) -> None:
    seen: list[object] = []

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        listener = exits(style, error)
        consumer = await cluster.start_consumer("g", "t", listener=listener, shutdown_grace_s=GRACE_S, **KINDS[kind][1])
        producer = await cluster.start_producer()
        await anyio.sleep(1)
        await producer.send("t", b"x")
        members = cluster.brokers["broker-a"].running.broker.groups.table.get("g")
        assert members is not None
        cluster.watchers.append(lambda event: seen.append(event.kind) if event.kind == "MEMBER_LEAVE" else None)
        try:
            await (consumer.consumer.join() if joins else anyio.sleep(60))
        except BaseException as raised:
            seen.append(type(raised))
            raise

    with pytest.raises(type(error)) as caught:
        simulate(scenario, brokers=1)
    assert caught.value is error
    # Without `join` the event loop ends under the program, which is then cancelled.
    assert seen == ["MEMBER_LEAVE", type(error) if joins else asyncio.CancelledError]


@pytest.mark.parametrize("style", ["plain", "waiting"])
def test_what_ends_the_process_out_of_another_callback_leaves_the_group_first_too(
    simulate: Simulate, tmp_path: Any, style: str
) -> None:
    callback = exits(style, SystemExit(4))

    class Strategy(AllocateMessageQueueAveragely):
        def allocate(self, *args: Any) -> Any:
            raise SystemExit(4)

    async def of_queues(cluster: SimulatedCluster) -> None:
        await cluster.start_consumer("g", "t", message_queue_listener=callback)

    async def strategy(cluster: SimulatedCluster) -> None:
        await cluster.start_consumer("g", "t", strategy=Strategy())

    async def of_topic(cluster: SimulatedCluster) -> None:
        lite = await Lite(cluster, "c").start()
        await lite.do(lite.consumer.register_topic_message_queue_change_listener, "t", callback)
        await cluster.create_topic("t", queues=5)

    async def check(cluster: SimulatedCluster) -> None:
        await transact(await cluster.start_transaction_producer("p", callback), b"x", UNKNOWN)

    for start in (of_queues, strategy, of_topic, check):
        ends: list[str] = []

        async def scenario(
            cluster: SimulatedCluster,
            start: Callable[[SimulatedCluster], Any] = start,
            ends: list[str] = ends,
        ) -> None:
            await cluster.create_topic("t", queues=2)
            cluster.watchers.append(lambda event: ends.append(event.kind) if event.kind == "CLIENT_STOP" else None)
            await start(cluster)
            try:
                await anyio.sleep(120)
            finally:
                ends.append("the end")

        with pytest.raises(SystemExit) as caught:
            simulate(scenario, brokers=1)
        assert caught.value.code == 4
        assert ends == ["CLIENT_STOP", "the end"], start
