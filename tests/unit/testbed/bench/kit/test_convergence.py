from __future__ import annotations

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.events import Event, EventKind
from model.message_queue import MessageQueue
from testbed.bench.kit.convergence import ConvergenceTimeout, ConvergenceWatch
from testbed.simulation.kernel.run import Simulation, run_simulation

QUEUES = [MessageQueue("t", "b", queue_id) for queue_id in range(3)]
CLIENTS = ["c1", "c2"]


def event(kind: EventKind, client: str, queue: MessageQueue) -> Event:
    topic, broker, queue_id = queue
    return Event(0.0, client, 1, kind, client=client, topic=topic, broker=broker, queue_id=queue_id)


def is_balanced(watch: ConvergenceWatch) -> bool:
    async def main(simulation: Simulation) -> bool:
        try:
            await watch.wait_converged(1.0)
        except ConvergenceTimeout:
            return False
        return True

    return run_simulation(main)


Tables = st.dictionaries(st.sampled_from(CLIENTS), st.sets(st.sampled_from(QUEUES)))


@given(Tables, st.lists(st.tuples(st.sampled_from(CLIENTS), st.sampled_from(QUEUES)), max_size=12), st.integers(0, 12))
def test_it_is_balanced_exactly_when_the_tables_are_equal(
    target: dict[str, set[MessageQueue]], toggles: list[tuple[str, MessageQueue]], expect_at: int
) -> None:
    watch = ConvergenceWatch()
    tables: dict[str, set[MessageQueue]] = {client: set() for client in CLIENTS}
    for number, (client, queue) in enumerate(toggles):
        if number == expect_at:
            watch.expect(target)
        kind = EventKind.QUEUE_DROPPED if queue in tables[client] else EventKind.QUEUE_ACQUIRED
        tables[client] ^= {queue}
        watch.record(event(kind, client, queue))
    if expect_at >= len(toggles):
        watch.expect(target)
    assert is_balanced(watch) is all(tables[client] == target.get(client, set()) for client in CLIENTS)


def test_other_events_change_nothing() -> None:
    watch = ConvergenceWatch()
    watch.expect({"c1": QUEUES[:1]})
    watch.record(event(EventKind.QUEUE_ACQUIRED, "c1", QUEUES[0]))
    watch.record(event(EventKind.LOCK_GRANTED, "c1", QUEUES[1]))
    assert is_balanced(watch)


def test_a_waiter_is_woken_by_the_last_queue_and_by_none_before() -> None:
    async def main(simulation: Simulation) -> None:
        watch = ConvergenceWatch()
        watch.expect({"c1": QUEUES[:2]})
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch.wait_converged, 60.0)
            for queue in QUEUES[:2]:
                await anyio.sleep(1)
                assert tasks.cancel_scope.cancel_called is False
                watch.record(event(EventKind.QUEUE_ACQUIRED, "c1", queue))
        assert simulation.loop.time() == 2

    run_simulation(main)


def test_a_group_that_does_not_come_to_rest_says_how_far_it_is() -> None:
    async def main(simulation: Simulation) -> None:
        watch = ConvergenceWatch()
        watch.expect({"c1": QUEUES[:2]})
        with pytest.raises(ConvergenceTimeout, match="2 queues"):
            await watch.wait_converged(5.0)
        assert simulation.loop.time() == 5

    run_simulation(main)
