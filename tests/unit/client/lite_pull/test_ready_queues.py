"""Queues take turns, and a poll waits no longer than it must."""

from __future__ import annotations

import anyio
import pytest

from client.lite_pull.ready_queues import ReadyQueues
from client.pull.owned_queue import OwnedQueue
from model.message_queue import MessageQueue
from testbed.simulation.kernel.run import Simulation, run_simulation
from tests.unit.client.pull.owned_queues import owned_queue


def queue_with(queue_id: int, n: int) -> OwnedQueue:
    return owned_queue(MessageQueue("t", "b", queue_id), n=n)


def taken(line: ReadyQueues, n: int) -> list[tuple[int, list[int]]]:
    return [(owned.queue.queue_id, [message.offset for message in batch]) for owned, batch in line.poll(n, 0.0)]


def test_queues_take_turns_and_each_keeps_its_order() -> None:
    line = ReadyQueues()
    for queue_id, n in ((0, 5), (1, 2), (2, 1)):
        line.arrived(queue_with(queue_id, n))
    assert taken(line, 3) == [(0, [0, 1, 2])]
    assert taken(line, 4) == [(1, [0, 1]), (2, [0]), (0, [3])]
    assert taken(line, 4) == [(0, [4])]
    assert taken(line, 4) == []


def test_what_was_abandoned_or_is_paused_hands_out_nothing() -> None:
    line = ReadyQueues()
    dropped, paused, good = (queue_with(n, 1) for n in range(3))
    for owned in (dropped, paused, good):
        line.arrived(owned)
    dropped.stop()
    paused.paused = True
    assert taken(line, 9) == [(2, [0])]
    paused.paused = False
    assert taken(line, 9) == []
    line.arrived(paused)
    line.arrived(paused)
    assert taken(line, 9) == [(1, [0])]


@pytest.mark.parametrize(("what", "ends"), [("arrives", 1.0), ("empty", 5.0), ("closes", 1.0)])
def test_a_wait_ends_with_the_first_message_the_time_or_the_end(what: str, ends: float) -> None:
    async def main(simulation: Simulation) -> None:
        line = ReadyQueues()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(line.wait, 5.0)
            await anyio.sleep(1)
            assert line.waited_for
            if what == "closes":
                line.close()
            else:
                line.arrived(queue_with(0, 1 if what == "arrives" else 0))
        assert simulation.loop.time() == ends
        assert not line.waited_for
        await line.wait(0)
        if what == "closes":
            line.arrived(queue_with(0, 1))
            await line.wait(9)
            assert taken(line, 9) == []

    run_simulation(main)
