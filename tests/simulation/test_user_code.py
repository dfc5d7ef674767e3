"""Every callback of the API, and ten kinds of exceptions out of each: the client lives, and the log names the callback.

Not here: blocks of the user (the local branch of a transaction) and functions that a call of the user runs
(`progress` of `DeadLetterAdmin.resend_all`). Their exceptions reach the user as they are.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import anyio
import pytest

from client.allocate import AllocateMessageQueueAveragely
from model.errors import RequestTimeout
from model.heartbeat import ConsumeFrom, MessageModel
from model.transaction import TransactionState
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate
from tests.simulation.lite import Lite
from tests.simulation.test_transactions import UNKNOWN, open_transactions, transact

pytestmark = pytest.mark.simulation


class OfTheUser(BaseException):
    """An exception that is no Exception."""


class Unprintable(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")

    __repr__ = __str__


def cancelled() -> BaseException:
    """What a task that another one has cancelled raises in whoever awaits it; here without the task."""
    return asyncio.CancelledError()


KINDS: list[Callable[[], BaseException]] = [
    lambda: ValueError("a mistake"),
    cancelled,
    concurrent.futures.CancelledError,
    GeneratorExit,
    StopIteration,
    StopAsyncIteration,
    OfTheUser,
    Unprintable,
    lambda: BaseExceptionGroup("several", [asyncio.CancelledError(), ValueError("a mistake")]),
    lambda: RequestTimeout("as of a request of the user's own client"),
]


def kind_of(n: int) -> NoReturn:
    raise KINDS[n]()


class Raising:
    """A callback that fails in each kind once, for each of ten keys, and then works."""

    def __init__(self, works: Callable[..., Any] = lambda *_: None) -> None:
        self.failed: Counter[Any] = Counter()
        self.done: Counter[Any] = Counter()
        self._left = iter(range(len(KINDS)))
        self._works = works

    def fail_or_work(self, key: Any, *args: Any) -> Any:
        if key not in self.failed and (n := next(self._left, None)) is not None:
            self.failed[key] += 1
            kind_of(n)
        self.done[key] += 1
        return self._works(*args)

    def as_style(self, style: str, key_of: Callable[..., Any]) -> Callable[..., Any]:
        def plain_callback(*args: Any) -> Any:
            return self.fail_or_work(key_of(*args), *args)

        async def async_callback(*args: Any) -> Any:
            return self.fail_or_work(key_of(*args), *args)

        async def waiting_callback(*args: Any) -> Any:
            await anyio.sleep(0.01)
            return self.fail_or_work(key_of(*args), *args)

        return {"plain": plain_callback, "async": async_callback, "waiting": waiting_callback}[style]


def assert_all_are_logged(caplog: pytest.LogCaptureFixture, style: str) -> None:
    """Ten errors with tracebacks that name the callback, each of its kind, and nothing worse."""
    logged = [record for record in caplog.records if f"{style}_callback" in record.getMessage()]
    kinds = []
    for record in logged:
        assert record.levelno == logging.ERROR
        assert record.exc_info is not None
        error = record.exc_info[1]
        # Python turns a StopIteration that leaves a coroutine into a RuntimeError.
        kinds.append(type(error.__cause__ if type(error) is RuntimeError else error))
    assert Counter(kinds) == Counter(type(kind()) for kind in KINDS)
    assert not [record for record in caplog.records if record.levelno == logging.CRITICAL]


STYLES = ["plain", "async", "waiting"]
WAYS: dict[str, dict[str, Any]] = {
    "pull": {},
    "batches": {"consume_batch": 4},
    "order by queue": {"order": "queue", "suspend_s": 0.1},
    "order by key": {"order": "key", "suspend_s": 0.1},
    "manual commit": {"order": "queue", "suspend_s": 0.1, "auto_commit": False},
    "pop": {"mode": "pop"},
    "pop in order": {"mode": "pop", "order": "queue", "suspend_s": 0.1},
    "broadcasting": {"model": MessageModel.BROADCASTING},
    "assigned by a broker": {"assignment": "broker"},
}


def way_of(name: str, tmp_path: Any) -> dict[str, Any]:
    return {
        "consume_from": ConsumeFrom.FIRST_OFFSET,
        "retry_delay_ms": 500,
        "offsets_dir": tmp_path / "offsets",
        **WAYS[name],
    }


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("way", WAYS)
def test_whatever_a_listener_raises_fails_its_messages_only(
    simulate: Simulate, tmp_path: Any, way: str, style: str, caplog: pytest.LogCaptureFixture
) -> None:
    raising = Raising()

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        producer = await cluster.start_producer()
        for n in range(20):
            await producer.send("t", b"%d" % n)
        listener = raising.as_style(style, lambda messages: messages[0].body)
        consumer = await cluster.start_consumer("g", "t", listener=listener, **way_of(way, tmp_path))
        await anyio.sleep(30)
        assert consumer.consumer._background.running
        assert len(raising.failed) == len(KINDS)
        if "batches" not in way:
            assert raising.done.keys() == {b"%d" % n for n in range(20)}

    simulate(scenario, brokers=1)
    assert_all_are_logged(caplog, style)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("kind", ["push", "lite pull"])
def test_whatever_a_queue_listener_raises_changes_nothing(
    simulate: Simulate, style: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    raising = Raising()
    listener = raising.as_style(style, lambda topic, queues, own: len(queues))

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        options = {"message_queue_listener": listener, "route_poll_interval_s": 1}
        if kind == "push":
            member = await cluster.start_consumer("g", "t", **options)  # type: ignore[arg-type]
            consumer: Any = member.consumer
        else:
            consumer = (await Lite(cluster, "c", **options).start()).consumer
        for queues in range(2, 2 + len(KINDS)):
            await anyio.sleep(5)
            await cluster.create_topic("t", queues=queues)
        await anyio.sleep(5)
        assert consumer._background.running
        assert raising.done.keys() >= {1 + len(KINDS)}
        await consumer.shutdown()

    simulate(scenario, brokers=1)
    assert_all_are_logged(caplog, style)


@pytest.mark.parametrize("style", STYLES)
def test_whatever_a_listener_of_a_topics_queues_raises_changes_nothing(
    simulate: Simulate, style: str, caplog: pytest.LogCaptureFixture
) -> None:
    raising = Raising()
    listener = raising.as_style(style, lambda topic, queues: len(queues))

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        lite = await Lite(cluster, "c").start()
        await lite.do(lite.consumer.register_topic_message_queue_change_listener, "t", listener)
        for queues in range(2, 3 + len(KINDS)):
            await cluster.create_topic("t", queues=queues)
            await anyio.sleep(35)
        assert lite.consumer._background.running
        assert raising.done.keys() >= {2 + len(KINDS)}
        await lite.do(lite.consumer.shutdown)

    simulate(scenario, brokers=1)
    assert_all_are_logged(caplog, style)


@pytest.mark.parametrize("style", STYLES)
def test_whatever_a_check_raises_leaves_its_transaction_open_until_it_is_asked_again(
    simulate: Simulate, style: str, caplog: pytest.LogCaptureFixture
) -> None:
    raising = Raising(lambda message: TransactionState.COMMIT)

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        check = raising.as_style(style, lambda message: message.body)
        producer = await cluster.start_transaction_producer("p", check)
        for n in range(len(KINDS)):
            await transact(producer, b"%d" % n, UNKNOWN)
        await anyio.sleep(120)
        assert open_transactions(cluster) == 0
        assert len(raising.done) == len(KINDS)

    simulate(scenario, brokers=1)
    assert_all_are_logged(caplog, style)


@pytest.mark.parametrize("group_wide", [False, True])
def test_whatever_a_strategy_raises_changes_nothing_until_it_decides(
    simulate: Simulate, group_wide: bool, caplog: pytest.LogCaptureFixture
) -> None:
    kinds = iter(range(len(KINDS)))

    class Moody(AllocateMessageQueueAveragely):
        name = "MOODY"

        def allocate(self, group: str, cid: str, queues: Any, members: Any) -> Any:
            for n in kinds if queues[0].topic == "t" else ():
                kind_of(n)
            return super().allocate(group, cid, queues, members)

    class MoodyForAll(Moody):
        def allocate_group(self, group: str, cid: str, queues_of: Any, topics_of: Any) -> Any:
            return [queue for topic in queues_of for queue in self.allocate(group, cid, queues_of[topic], [cid])]

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        consumer = await cluster.start_consumer("g", "t", strategy=MoodyForAll() if group_wide else Moody())
        await anyio.sleep(30)
        assert len(consumer.queues) == 2

    simulate(scenario, brokers=1)
    reported = [record.getMessage() for record in caplog.records if "strategy MOODY of group g" in record.getMessage()]
    assert len(reported) == len(KINDS)
    assert not [record for record in caplog.records if record.levelno == logging.CRITICAL]


def test_whatever_a_sink_raises_changes_nothing(simulate: Simulate, caplog: pytest.LogCaptureFixture) -> None:
    turns: Iterator[int] = iter(range(10**6))

    def event_callback(event: object) -> None:
        kind_of(next(turns) % len(KINDS))

    def latency_callback(seconds: float, sent: bool) -> None:
        kind_of(next(turns) % len(KINDS))

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        consumer = await cluster.start_consumer("g", "t", event_sink=event_callback)
        await anyio.sleep(1)
        producer = await cluster.start_producer(event_sink=event_callback, latency_sink=latency_callback)
        for n in range(2 * len(KINDS)):
            assert (await producer.send("t", b"%d" % n)).offset >= 0
        await anyio.sleep(1)
        assert len(consumer.bodies) == 2 * len(KINDS)

    simulate(scenario, brokers=1)
    texts = Counter(record.getMessage().split(" (")[0] for record in caplog.records)
    assert texts["the latency_sink failed"] == 2 * len(KINDS)
    assert texts["the event_sink failed"] >= len(KINDS)
    assert not [record for record in caplog.records if record.levelno == logging.CRITICAL]
