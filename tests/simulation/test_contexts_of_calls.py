"""The context in which user code runs, and the objects that it is given: one call leaves nothing behind for another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

import anyio
import pytest

from model.message import Message, MessageExt
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate
from tests.simulation.lite import Lite
from tests.simulation.test_transactions import UNKNOWN, transact
from tests.simulation.test_user_code import STYLES, WAYS, way_of

pytestmark = pytest.mark.simulation

WHO: ContextVar[str] = ContextVar("WHO", default="nobody")


class Contexts:
    """A callback that notes the variable as it finds it, also after a wait and in a task, and then sets it."""

    def __init__(self) -> None:
        self.found: Counter[str] = Counter()

    def plain(self, *args: Any) -> None:
        self.found[WHO.get()] += 1
        WHO.set("an earlier call")

    async def at_once(self, *args: Any) -> None:
        self.plain()

    async def waiting(self, *args: Any) -> None:
        found = WHO.get()
        WHO.set("this call")
        await anyio.sleep(0.01)
        assert WHO.get() == "this call"
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._in_task)
        WHO.set(found)
        self.plain()

    async def _in_task(self) -> None:
        assert WHO.get() == "this call"

    def of_style(self, style: str) -> Callable[..., Any]:
        return {"plain": self.plain, "async": self.at_once, "waiting": self.waiting}[style]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("way", WAYS)
def test_each_call_of_a_listener_runs_in_a_copy_of_the_context_of_its_subscription(
    simulate: Simulate, tmp_path: Any, way: str, style: str
) -> None:
    contexts = Contexts()

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        made = cluster.make_consumer("g", **way_of(way, tmp_path))
        with cluster.simulation.on_host(made.host):
            token = WHO.set("the subscriber")
            await made.consumer.subscribe("t", contexts.of_style(style))
            WHO.reset(token)
        await made.start()
        producer = await cluster.start_producer()
        for n in range(20):
            await producer.send("t", b"%d" % n)
        await anyio.sleep(10)

    simulate(scenario, brokers=1)
    assert contexts.found.keys() == {"the subscriber"}
    assert contexts.found.total() >= (5 if way == "batches" else 20)


@pytest.mark.parametrize("style", STYLES)
def test_each_call_of_a_queue_listener_or_a_check_runs_in_a_copy_of_the_context_in_which_it_was_given(
    simulate: Simulate, style: str
) -> None:
    of_queues, of_topics, of_checks = Contexts(), Contexts(), Contexts()

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        token = WHO.set("the giver")
        lite = await Lite(cluster, "c", message_queue_listener=of_queues.of_style(style)).start(None)
        await lite.do(lite.consumer.register_topic_message_queue_change_listener, "t", of_topics.of_style(style))
        producer = await cluster.start_transaction_producer("p", of_checks.of_style(style))
        WHO.reset(token)
        await lite.do(lite.consumer.subscribe, "t")
        for queues in (2, 3):
            await transact(producer, b"%d" % queues, UNKNOWN)
            await cluster.create_topic("t", queues=queues)
            await anyio.sleep(40)
        await lite.do(lite.consumer.shutdown)

    simulate(scenario, brokers=1)
    for contexts in (of_queues, of_topics, of_checks):
        assert contexts.found.keys() == {"the giver"}
        assert contexts.found.total() >= 2


# -------------------------------------------------------------------------------------------------------------- objects


@pytest.mark.parametrize("style", ["plain", "async"])
@pytest.mark.parametrize("way", WAYS)
def test_a_listener_cannot_change_what_it_is_given(simulate: Simulate, tmp_path: Any, way: str, style: str) -> None:
    refused: Counter[type] = Counter()
    seen: dict[bytes, None] = {}

    def change(messages: Any) -> None:
        for act in (messages.pop, messages.clear) if isinstance(messages, list) else ():
            act()
        properties = messages[0].properties
        for change in (
            lambda: properties.update(a="c"),
            lambda: properties.pop("a"),
            lambda: properties.__setitem__("b", 5),
            properties.clear,
        ):
            try:
                change()
            except TypeError as error:
                refused[type(error)] += 1
        seen.update(dict.fromkeys(message.body for message in messages if message.properties == {"a": "b"}))

    async def async_change(messages: Any) -> None:
        change(messages)

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        producer = await cluster.start_producer()
        with cluster.simulation.on_host(producer.host):
            for n in range(5):
                await producer.producer.send(Message("t", b"%d" % n, properties={"a": "b"}))
        listener = change if style == "plain" else async_change
        await cluster.start_consumer("g", "t", listener=listener, **way_of(way, tmp_path))
        await anyio.sleep(10)

    simulate(scenario, brokers=1)
    assert list(seen) == [b"%d" % n for n in range(5)]
    assert refused[TypeError] % 4 == 0 < refused[TypeError]


def test_a_listener_gets_a_tuple_and_a_poll_gives_a_list_of_its_own(simulate: Simulate) -> None:
    kinds: list[type] = []

    async def listener(messages: Sequence[MessageExt]) -> None:
        kinds.append(type(messages))

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        producer = await cluster.start_producer()
        await cluster.start_consumer("g2", "t", listener=listener)
        lite = await Lite(cluster, "c").start()
        await anyio.sleep(1)
        for n in range(3):
            await producer.send("t", b"%d" % n)
        await anyio.sleep(1)
        assert set(kinds) == {tuple}
        polled = await lite.do(lite.consumer.poll)
        assert [message.body for message in polled] == [b"0", b"1", b"2"]
        polled.clear()
        await lite.do(lite.consumer.commit)
        (queue,) = lite.consumer.queues
        assert await lite.do(lite.consumer.committed, queue) == 3
        await lite.do(lite.consumer.shutdown)

    simulate(scenario, brokers=1)
