"""The task that sends what no pull takes along."""

from __future__ import annotations

import anyio

from client.leases.prompt_commits import PromptCommits
from client.pull.owned_queue import OwnedQueue
from client.pull.process_queue import ProcessQueue
from model.limits import COMMIT_WAIT_S
from model.message_queue import MessageQueue
from testbed.simulation.kernel.run import Simulation, run_simulation


def queue_of(prompt: PromptCommits, number: int) -> OwnedQueue:
    owned = OwnedQueue(MessageQueue("t", "b", number), 1, ProcessQueue(0))
    owned.on_unsent = prompt.record
    return owned


def test_what_has_waited_is_committed_in_one_request_and_the_next_one_waits_for_its_answer() -> None:
    async def main(simulation: Simulation) -> None:
        sent: list[tuple[float, list[int]]] = []

        async def commit(queues: list[OwnedQueue]) -> None:
            sent.append((round(anyio.current_time() - began, 6), [owned.queue.queue_id for owned in queues]))
            for owned in queues:
                owned.next_commit()
            await anyio.sleep(1)  # a broker that is slow to answer

        began = anyio.current_time()
        prompt = PromptCommits(commit)
        first, second = queue_of(prompt, 0), queue_of(prompt, 1)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(prompt.run)
            await anyio.sleep(5)
            first.notify_progress()
            await anyio.sleep(COMMIT_WAIT_S / 2)
            second.notify_progress()
            await anyio.sleep(COMMIT_WAIT_S)
            for _ in range(3):
                first.notify_progress()
            await anyio.sleep(9)
            tasks.cancel_scope.cancel()
        assert sent == [(5 + COMMIT_WAIT_S, [0, 1]), (6 + COMMIT_WAIT_S, [0])]

    run_simulation(main)


def test_nothing_is_sent_for_queues_that_pulls_commit() -> None:
    async def main(simulation: Simulation) -> None:
        sent: list[OwnedQueue] = []

        async def commit(queues: list[OwnedQueue]) -> None:
            sent.extend(queues)

        prompt = PromptCommits(commit)
        owned = queue_of(prompt, 0)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(prompt.run)
            for _ in range(100):
                owned.notify_progress()
                await anyio.sleep(COMMIT_WAIT_S / 2)
                owned.next_commit()
            await anyio.sleep(1)
            tasks.cancel_scope.cancel()
        assert sent == []

    run_simulation(main)
