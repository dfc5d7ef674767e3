from __future__ import annotations

import asyncio

import anyio
import pytest

from client.options import ConsumerOptions
from client.pull.ordered_process_queue import OrderedProcessQueue
from client.pull.owned_queue import DispatchCounts, OwnedQueue, make_process_queue
from client.pull.process_queue import ProcessQueue
from model.message import MessageExt
from model.message_queue import MessageQueue
from remoting.command import RESPONSE, Command
from testbed.simulation.kernel.run import Simulation, run_simulation

QUEUE = MessageQueue("t", "b", 0)


def owned_with(n: int, *, in_flight: int) -> tuple[OwnedQueue, list[MessageExt]]:
    """A queue with n messages, the first ones of which a listener has."""
    process_queue = ProcessQueue(0)
    process_queue.put([MessageExt(QUEUE, offset, 0, 0, "t", b"x", "", (), {}, 0, "id") for offset in range(n)])
    return OwnedQueue(QUEUE, 1, process_queue), process_queue.next_batch(in_flight, 0.0)


def test_a_stop_ends_the_pull_loop_and_hands_out_nothing_more_but_lets_listeners_finish() -> None:
    async def scenario(simulation: Simulation) -> None:
        owned, taken = owned_with(3, in_flight=1)

        async def pull() -> None:
            with owned.pulling:
                await anyio.sleep_forever()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pull)
            await anyio.sleep(1)
            owned.stop()
        assert owned.process_queue.next_batch(9, 0.0) == []
        assert owned.process_queue.finish(taken) == 1

    run_simulation(scenario)


def test_a_stop_lets_go_of_a_pull_that_is_under_way_and_cancels_nothing() -> None:
    async def scenario(simulation: Simulation) -> None:
        owned, _ = owned_with(1, in_flight=1)
        owned.pending_pull = held = asyncio.get_running_loop().create_future()
        owned.stop()
        assert await held is None
        assert owned.process_queue.dropped
        assert not owned.pulling.cancel_called

    run_simulation(scenario)


def test_an_answer_that_has_come_is_not_let_go() -> None:
    async def scenario(simulation: Simulation) -> None:
        owned, _ = owned_with(1, in_flight=1)
        answer = Command(RESPONSE, 0, 1, {}, None)
        owned.pending_pull = held = asyncio.get_running_loop().create_future()
        held.set_result(answer)
        assert not owned.cancel_pending_pull()
        assert await held is answer

    run_simulation(scenario)


def test_progress_wakes_all_who_wait_once() -> None:
    async def scenario(simulation: Simulation) -> None:
        owned, _ = owned_with(1, in_flight=1)
        owned.notify_progress()  # nobody waits: this must not count later
        woken: list[float] = []

        async def wait() -> None:
            await owned.wait_progress()
            woken.append(simulation.loop.time())

        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(wait)
            await anyio.sleep(2)
            owned.notify_progress()
            owned.notify_progress()
            await anyio.sleep(1)
            assert woken == [2, 2, 2]
            tasks.start_soon(wait)
            await anyio.sleep(1)
            owned.notify_progress()
        assert woken[3:] == [4]

    run_simulation(scenario)


def test_one_who_stops_waiting_leaves_the_others_waiting() -> None:
    async def scenario(simulation: Simulation) -> None:
        owned, _ = owned_with(1, in_flight=1)

        async def impatient() -> None:
            with anyio.move_on_after(1) as scope:
                await owned.wait_progress()
            assert scope.cancelled_caught

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(impatient)
            tasks.start_soon(owned.wait_progress)
            await anyio.sleep(5)
            owned.notify_progress()
        assert simulation.loop.time() == 5
        with anyio.move_on_after(1):
            await owned.wait_progress()
        owned.notify_progress()  # everybody who waited is gone

    run_simulation(scenario)


def test_a_queue_is_drained_when_its_last_message_leaves_the_listener_whatever_else_it_holds() -> None:
    async def scenario(simulation: Simulation) -> None:
        owned, (first, second) = owned_with(5, in_flight=2)

        async def listen() -> None:
            await anyio.sleep(3)
            owned.process_queue.finish([second])
            owned.notify_progress()
            await anyio.sleep(4)
            owned.process_queue.requeue([first], not_before=99.0)
            owned.notify_progress()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listen)
            await owned.wait_drained(60)
            assert simulation.loop.time() == 7

    run_simulation(scenario)


@pytest.mark.parametrize(("in_flight", "takes_s"), [(0, 0), (1, 4)])
def test_draining_waits_for_listeners_only_and_no_longer_than_the_grace(in_flight: int, takes_s: float) -> None:
    async def scenario(simulation: Simulation) -> None:
        owned, _ = owned_with(2, in_flight=in_flight)
        await owned.wait_drained(4)
        assert simulation.loop.time() == takes_s

    run_simulation(scenario)


@pytest.mark.parametrize(
    ("order", "kind"), [("none", ProcessQueue), ("queue", OrderedProcessQueue), ("key", OrderedProcessQueue)]
)
def test_the_process_queue_is_the_one_that_the_options_ask_for(order: str, kind: type[ProcessQueue]) -> None:
    process_queue = make_process_queue(ConsumerOptions(order=order, max_queue_count=1), 7)
    assert type(process_queue) is kind
    assert process_queue.pull_offset == 7
    process_queue.put([MessageExt(QUEUE, offset, 0, 0, "t", b"x", "", (), {}, 0, "id") for offset in (7, 8)])
    assert process_queue.flow_control_reason() is not None


def test_hand_outs_are_counted_with_the_time_since_their_messages_were_stored() -> None:
    counts = DispatchCounts()
    batch = [
        MessageExt(QUEUE, n, stored_ms, 0, "t", b"x", "", (), {}, 0, "id") for n, stored_ms in enumerate((10, 15, 30))
    ]
    counts.add(batch, 40.0)
    counts.add(batch[2:], 32.0)
    counts.add(batch[:1], 5.0)  # the broker's clock is ahead of ours
    assert counts == DispatchCounts(5, 3 * (30 + 10) / 2 + 2, 30.0)


def test_an_offset_to_commit_is_sent_once_and_again_when_it_may_not_have_arrived() -> None:
    async def scenario(simulation: Simulation) -> None:
        owned, taken = owned_with(3, in_flight=2)
        assert owned.next_commit() is None, "a queue begins where the broker said"
        owned.process_queue.finish(taken)
        assert [owned.next_commit(), owned.next_commit()] == [2, None]
        owned.sent_commit = 0
        assert owned.next_commit() == 2

    run_simulation(scenario)


def test_an_offset_that_goes_back_is_not_sent_with_a_pull() -> None:
    async def scenario(simulation: Simulation) -> None:
        owned, taken = owned_with(3, in_flight=2)
        owned.process_queue.finish(taken)
        owned.rewound = True
        assert owned.next_commit() is None

    run_simulation(scenario)


def test_only_the_first_progress_since_a_commit_was_sent_is_reported() -> None:
    async def scenario(simulation: Simulation) -> None:
        owned, _ = owned_with(3, in_flight=2)
        reported: list[OwnedQueue] = []
        owned.on_unsent = reported.append
        for _ in range(2):
            owned.notify_progress()
            owned.notify_progress()
            owned.next_commit()
        assert reported == [owned, owned]

    run_simulation(scenario)
