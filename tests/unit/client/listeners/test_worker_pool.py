"""The workers of one consumer: so many batches at a time, queues in turn, failed messages when their wait is over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from client.instance.background import BackgroundTasks
from client.listeners.worker_pool import WorkerPool
from client.pull.owned_queue import OwnedQueue
from client.pull.process_queue import ProcessQueue
from model.limits import RUN_S
from model.message import MessageExt
from model.message_queue import MessageQueue
from testbed.simulation.kernel.run import Simulation, run_simulation


def queue_of(name: str, n: int) -> OwnedQueue:
    """A queue with messages 0 to n - 1."""
    queue = MessageQueue(name, "b", 0)
    owned = OwnedQueue(queue, 1, ProcessQueue(0))
    owned.process_queue.put(MessageExt(queue, offset, 0, 0, name, b"x", "", (), {}, 0, "id") for offset in range(n))
    return owned


class Consumption:
    """A pool whose batches take a while and are written down as (time, topic, offsets)."""

    def __init__(self, takes_s: float, **options: Any) -> None:
        self.pool = WorkerPool(self.consume, **{"max_workers": 1, "batch_size": 1, **options})
        self.takes_s = takes_s
        self.batches: list[tuple[float, str, list[int]]] = []
        self.tasks: dict[asyncio.Task[Any] | None, None] = {}
        self.now = self.most = 0

    async def consume(self, owned: OwnedQueue, messages: tuple[MessageExt, ...]) -> None:
        self.batches.append((anyio.current_time(), owned.queue.topic, [message.offset for message in messages]))
        assert len(self.batches) < 1000, "the pool spins"
        self.tasks[asyncio.current_task()] = None
        self.now += 1
        self.most = max(self.most, self.now)
        await anyio.sleep(self.takes_s)
        self.now -= 1
        owned.process_queue.finish(messages)

    @property
    def order(self) -> list[tuple[str, int]]:
        return [(topic, offset) for _, topic, offsets in self.batches for offset in offsets]


def run(scenario: Callable[[Consumption], Awaitable[None]], takes_s: float = 1.0, **options: Any) -> Consumption:
    async def main(simulation: object) -> Consumption:
        consumption = Consumption(takes_s, **options)
        background = BackgroundTasks("test")
        await background.start()
        consumption.pool.start(background)
        try:
            await scenario(consumption)
        finally:
            await background.stop()
        return consumption

    return run_simulation(main)


@pytest.mark.parametrize("max_workers", [1, 3])
def test_so_many_batches_are_under_way_as_there_may_be_workers_even_of_one_queue(max_workers: int) -> None:
    async def scenario(consumption: Consumption) -> None:
        consumption.pool.offer(queue_of("t", 6))
        await anyio.sleep(6 / max_workers - 0.5)
        assert consumption.now == max_workers
        await anyio.sleep(1)
        assert consumption.now == 0

    consumption = run(scenario, max_workers=max_workers)
    assert consumption.order == [("t", n) for n in range(6)]
    assert consumption.most == len(consumption.tasks) == max_workers


def test_one_worker_does_what_one_worker_can_do() -> None:
    async def scenario(consumption: Consumption) -> None:
        for n in range(5):
            consumption.pool.offer(queue_of(f"t{n}", 1))
            await anyio.sleep(2)

    consumption = run(scenario, max_workers=10)
    assert len(consumption.batches) == 5
    assert len(consumption.tasks) == 1


def test_queues_take_turns_so_that_a_backlog_does_not_starve_the_others() -> None:
    async def scenario(consumption: Consumption) -> None:
        consumption.pool.offer(queue_of("long", 6))
        consumption.pool.offer(queue_of("short", 2))
        await anyio.sleep(10)

    expected = [
        ("long", 0),
        ("short", 0),
        ("long", 1),
        ("short", 1),
        ("long", 2),
        ("long", 3),
        ("long", 4),
        ("long", 5),
    ]
    assert run(scenario).order == expected


def test_a_batch_is_no_larger_than_asked_for() -> None:
    async def scenario(consumption: Consumption) -> None:
        consumption.pool.offer(queue_of("t", 7))
        await anyio.sleep(10)

    assert [offsets for _, _, offsets in run(scenario, batch_size=3).batches] == [[0, 1, 2], [3, 4, 5], [6]]


def test_a_queue_that_is_offered_often_stands_in_line_once() -> None:
    async def scenario(consumption: Consumption) -> None:
        often = queue_of("often", 4)
        for _ in range(10):
            consumption.pool.offer(often)
        consumption.pool.offer(queue_of("once", 1))
        await anyio.sleep(10)

    assert run(scenario).order[:2] == [("often", 0), ("once", 0)]


def test_a_queue_without_messages_wakes_no_one_until_it_has_some() -> None:
    async def scenario(consumption: Consumption) -> None:
        owned = queue_of("t", 0)
        consumption.pool.offer(owned)
        await anyio.sleep(1)
        assert not consumption.batches
        owned.process_queue.put(queue_of("t", 1).process_queue.next_batch(1, 0))
        consumption.pool.offer(owned)
        await anyio.sleep(1)

    assert [time_s for time_s, _, _ in run(scenario).batches] == [1]


def test_a_queue_that_is_abandoned_while_it_stands_in_line_is_not_handed_out() -> None:
    async def scenario(consumption: Consumption) -> None:
        given_up = queue_of("given up", 1)
        consumption.pool.offer(queue_of("first", 1))
        consumption.pool.offer(given_up)
        consumption.pool.offer(queue_of("last", 1))
        given_up.stop()
        await anyio.sleep(5)

    assert run(scenario).order == [("first", 0), ("last", 0)]


def test_a_failed_message_is_redelivered_when_its_wait_is_over_and_not_before() -> None:
    async def scenario(consumption: Consumption) -> None:
        owned = queue_of("t", 2)
        failed = owned.process_queue.next_batch(1, 0)
        for deadline_s, again in ((7.0, failed), (4.0, owned.process_queue.next_batch(1, 0))):
            owned.process_queue.requeue(again, deadline_s)
            consumption.pool.retry_at(owned, deadline_s)
        await anyio.sleep(20)

    assert run(scenario).batches == [(4, "t", [1]), (7, "t", [0])]


def test_a_failed_message_whose_wait_is_over_gets_its_turn_when_a_worker_is_free() -> None:
    async def scenario(consumption: Consumption) -> None:
        consumption.pool.offer(queue_of("slow", 1))
        owned = queue_of("t", 1)
        owned.process_queue.requeue(owned.process_queue.next_batch(1, 0), 2.0)
        consumption.pool.retry_at(owned, 2.0)
        await anyio.sleep(20)  # a pool that spins until then would not let virtual time get here

    assert run(scenario, takes_s=10).batches == [(0, "slow", [0]), (10, "t", [0])]


def test_the_retries_of_a_queue_that_is_abandoned_never_come() -> None:
    async def scenario(consumption: Consumption) -> None:
        owned = queue_of("t", 1)
        owned.process_queue.requeue(owned.process_queue.next_batch(1, 0), 2.0)
        consumption.pool.retry_at(owned, 2.0)
        owned.stop()
        await anyio.sleep(20)

    assert run(scenario).batches == []


def test_what_a_queue_gets_while_its_batch_is_under_way_is_handed_out_after_it() -> None:
    async def scenario(consumption: Consumption) -> None:
        owned = queue_of("t", 1)
        consumption.pool.offer(owned)
        await anyio.sleep(0.5)
        owned.process_queue.put(queue_of("t", 2).process_queue.next_batch(2, 0))
        consumption.pool.offer(owned)
        await anyio.sleep(5)

    assert run(scenario).batches == [(0, "t", [0]), (1, "t", [1])]


def test_listeners_that_never_wait_leave_the_event_loop_its_turns() -> None:
    """Each call takes 4 ms of the clock; before, nothing else ran until the queue was empty."""

    async def main(simulation: Simulation) -> None:
        left = 100
        heartbeats: list[int] = []
        waits: list[float] = []

        def work(owned: OwnedQueue, now: float) -> None:
            nonlocal left
            left -= 1
            simulation.loop.kernel.now_s += 0.004
            owned.process_queue.next_run(1)
            owned.process_queue.end_run(1)

        async def heartbeat() -> None:
            while left and len(heartbeats) < 1000:
                heartbeats.append(left)
                before = anyio.current_time()
                await anyio.lowlevel.checkpoint()
                waits.append(anyio.current_time() - before)

        async def consume(owned: OwnedQueue, messages: tuple[MessageExt, ...]) -> None:
            raise AssertionError("nothing is retried")

        pool = WorkerPool(consume, max_workers=1, batch_size=1, run=work)
        background = BackgroundTasks("busy")
        await background.start()
        pool.start(background)
        pool.offer(queue_of("t", 100))
        await heartbeat()
        await background.stop()
        assert 30 < len(heartbeats) < 1000
        assert max(waits) < RUN_S + 0.005

    run_simulation(main)


def test_a_queue_whose_messages_wait_for_a_retry_is_not_run_through() -> None:
    async def scenario(consumption: Consumption) -> None:
        owned = queue_of("t", 2)
        owned.process_queue.requeue(owned.process_queue.next_batch(1, 0), 2.0)
        consumption.pool.retry_at(owned, 2.0)
        consumption.pool.offer(owned)
        await anyio.sleep(20)

    def never(owned: OwnedQueue, now: float) -> None:
        raise AssertionError("a run passes requeued messages over")

    assert sorted(run(scenario, run=never).order) == [("t", 0), ("t", 1)]


def test_a_pool_knows_its_listeners_from_everyone_else() -> None:
    async def scenario(consumption: Consumption) -> None:
        inside: list[bool] = []

        async def asks(owned: OwnedQueue, messages: tuple[MessageExt, ...]) -> None:
            inside.append(pool.runs_current_task())

        pool = WorkerPool(asks, max_workers=1, batch_size=1)
        background = BackgroundTasks("asking")
        await background.start()
        pool.start(background)
        pool.offer(queue_of("t", 1))
        await anyio.sleep(1)
        await background.stop()
        assert inside == [True]
        assert not pool.runs_current_task()

    run(scenario)
