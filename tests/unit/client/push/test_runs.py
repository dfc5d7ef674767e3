"""A run of batches: as long as the listener does not wait, nothing is noted of a single message; then everything is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import wraps
from typing import Any

import anyio
import pytest

from client.instance.lease_session import LeaseSession
from client.listeners.hanging import HangingListeners
from client.listeners.listener import ConsumeResult, ListenerCall, Result
from client.pull.ordered_process_queue import OrderedProcessQueue, by_key
from client.pull.owned_queue import OwnedQueue
from client.pull.process_queue import ProcessQueue
from client.push.runs import Outcome, run_listener
from model.limits import RUN_MESSAGES, RUN_S
from model.message import MessageExt
from model.message_queue import MessageQueue
from testbed.simulation.kernel.run import Simulation, run_simulation

QUEUE = MessageQueue("t", "b", 0)
Listener = Callable[[Sequence[MessageExt]], Awaitable[Any]]


class Open:
    closed = False


class Case:
    """A queue with so many messages, a listener that writes its batches down, and a clock."""

    def __init__(self, n: int, *, batch_size: int = 1, good_until: float = 100.0, topics: Sequence[str] = ()) -> None:
        self.owned = OwnedQueue(QUEUE, 1, ProcessQueue(0), session=LeaseSession(Open(), good_until))
        named = [*topics, *["t"] * (n - len(topics))]
        self.owned.process_queue.put(
            [MessageExt(QUEUE, offset, 0, 0, topic, b"xy", "", (), {}, 0, "id") for offset, topic in enumerate(named)]
        )
        self.batch_size = batch_size
        self.batches: list[list[int]] = []
        self.elsewhere: list[list[int]] = []
        self.now = 0.0
        self.on_batch: Callable[[int], Any] = lambda first: None

    async def listener(self, messages: Sequence[MessageExt]) -> Any:
        self.batches.append([message.offset for message in messages])
        answer = self.on_batch(messages[0].offset)
        return await answer if isinstance(answer, Awaitable) else answer

    async def listen(self, messages: Sequence[MessageExt]) -> Result:
        self.elsewhere.append([message.offset for message in messages])
        return ConsumeResult.SUCCESS

    def run(self) -> Outcome | None:
        no_threads: Any = None
        call = ListenerCall(self.listener, "t", no_threads, HangingListeners(900))
        return run_listener(call, self.listen, self.owned, self.batch_size, lambda: self.now, 5.0)


def in_simulation(case: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run an async test on the loop of the simulation."""

    @wraps(case)
    def test(**arguments: Any) -> None:
        async def main(simulation: Simulation) -> None:
            await case(**arguments)

        run_simulation(main)

    return test


@in_simulation
async def test_a_listener_that_never_waits_gets_batch_after_batch_and_all_are_finished() -> None:
    case = Case(10, batch_size=4)
    assert case.run() is None
    assert case.batches == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    process_queue = case.owned.process_queue
    assert (process_queue.commit_offset, process_queue.count, process_queue.size_bytes) == (10, 0, 0)
    assert (case.owned.dispatch_counts.n, case.owned.dispatch_counts.waited_max_ms) == (10, 5.0)


@pytest.mark.parametrize(("batch_size", "expected"), [(1, RUN_MESSAGES), (30, 60), (100, 100)])
@in_simulation
async def test_a_run_is_short_so_that_other_queues_have_their_turn(batch_size: int, expected: int) -> None:
    case = Case(250, batch_size=batch_size)
    assert case.run() is None
    assert sum(map(len, case.batches)) == expected == case.owned.process_queue.commit_offset


@in_simulation
async def test_at_the_first_wait_the_rest_waits_for_any_worker() -> None:
    case = Case(6, batch_size=2)
    case.on_batch = lambda first: anyio.sleep(1) if first == 2 else None
    outcome = case.run()
    assert outcome is not None
    messages, result = outcome
    assert case.batches == [[0, 1], [2, 3]]
    process_queue = case.owned.process_queue
    assert (process_queue.commit_offset, process_queue.dispatched, process_queue.count) == (2, 2, 4)
    assert [message.offset for message in process_queue.next_batch(9, 0.0)] == [4, 5]
    assert not isinstance(result, ConsumeResult)
    assert await result is ConsumeResult.SUCCESS  # type: ignore[misc]
    assert process_queue.finish(messages) == 4
    assert case.owned.dispatch_counts.n == 4


@in_simulation
async def test_a_batch_that_fails_ends_the_run_and_stays_dispatched() -> None:
    case = Case(4)
    case.on_batch = lambda first: ConsumeResult.RECONSUME_LATER if first == 1 else None
    outcome = case.run()
    assert outcome is not None
    assert ([message.offset for message in outcome[0]], outcome[1]) == ([1], ConsumeResult.RECONSUME_LATER)
    assert (case.owned.process_queue.commit_offset, case.owned.process_queue.dispatched) == (1, 1)


@in_simulation
async def test_nothing_is_dispatched_under_a_lease_that_ends_during_the_run() -> None:
    case = Case(10, good_until=RUN_S / 2)

    def work(first: int) -> None:
        case.now += RUN_S / 8

    case.on_batch = work
    assert case.run() is None
    assert case.batches == [[0], [1], [2], [3]]  # the last of them began before the lease ended
    assert case.owned.process_queue.commit_offset == 4


@in_simulation
async def test_a_run_of_slow_calls_ends_when_its_time_is_over() -> None:
    case = Case(10)

    def work(first: int) -> None:
        case.now += RUN_S

    case.on_batch = work
    assert case.run() is None
    assert case.batches == [[0]]


@in_simulation
async def test_a_listener_that_suspends_its_consumer_is_not_called_again() -> None:
    case = Case(10)

    def suspend(first: int) -> None:
        case.owned.paused = first == 2

    case.on_batch = suspend
    assert case.run() is None
    assert case.batches == [[0], [1], [2]]


@in_simulation
async def test_a_message_of_another_topic_goes_to_the_listener_of_that_topic() -> None:
    case = Case(3, topics=["t", "other"])
    outcome = case.run()
    assert outcome is not None
    messages, result = outcome
    assert [message.offset for message in messages] == [1]
    assert not isinstance(result, ConsumeResult)
    await result  # type: ignore[misc]
    assert (case.batches, case.elsewhere) == ([[0]], [[1]])


@in_simulation
async def test_while_a_listener_runs_its_messages_count_as_dispatched() -> None:
    case = Case(3)
    seen: list[tuple[int, int]] = []

    def look(first: int) -> None:
        seen.append((case.owned.process_queue.commit_offset, case.owned.process_queue.dispatched))

    case.on_batch = look
    case.run()
    assert seen == [(0, 3)] * 3


@in_simulation
async def test_a_task_that_is_reported_to_end_in_a_call_leaves_that_batch_unfinished() -> None:
    case = Case(3)

    def end(first: int) -> None:
        if first == 1:
            raise KeyboardInterrupt

    case.on_batch = end
    with pytest.raises(KeyboardInterrupt):
        case.run()
    assert (case.owned.process_queue.commit_offset, case.owned.process_queue.dispatched) == (1, 1)


@in_simulation
async def test_a_run_keeps_the_order_of_keys_and_a_key_that_waits_ends_runs_until_its_lane_is_empty() -> None:
    case = Case(0)
    queue = case.owned.process_queue = OrderedProcessQueue(0, by_key)
    keys = "abcab"
    queue.put([MessageExt(QUEUE, n, 0, 0, "t", b"xy", "", (key,), {}, 0, "id") for n, key in enumerate(keys)])
    case.on_batch = lambda first: anyio.sleep(1) if first == 1 else None
    outcome = case.run()
    assert outcome is not None
    assert (case.batches, queue.commit_offset, queue.can_run()) == ([[0], [1]], 1, False)
    assert [[one.offset for one in queue.next_batch(1, 0.0)] for _ in range(3)] == [[2], [3], []], "4 waits for 1"
    assert not isinstance(outcome[1], ConsumeResult)
    await outcome[1]  # type: ignore[misc]  # no result, so what to await for it
    queue.finish(outcome[0])
    assert [one.offset for one in queue.next_batch(1, 0.0)] == [4]
