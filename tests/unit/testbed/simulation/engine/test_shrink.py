"""A failing programme becomes small, and still fails."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from testbed.simulation.engine.draw import draw
from testbed.simulation.engine.programme import Programme, Step
from testbed.simulation.engine.shrink import shrink

STEPS = tuple(Step(at_s=float(n), do="cut", who="billing-2" if n % 5 == 0 else "billing-1") for n in range(40))


@given(needed=st.sets(st.integers(0, 39), max_size=4))
def test_only_the_steps_that_are_needed_stay(needed: set[int]) -> None:
    def fails(programme: Programme) -> bool:
        return needed <= {int(step.at_s) for step in programme.step}

    small = shrink(Programme(step=STEPS), fails, max_runs=2_000)
    assert {int(step.at_s) for step in small.step} == needed


def test_clients_messages_and_queues_become_few_and_steps_of_those_that_are_gone_go_with_them() -> None:
    programme = draw(10, "plain")

    def fails(small: Programme) -> bool:
        return any(step.who == "billing-2" for step in small.step) and small.load.messages >= 10

    small = shrink(programme, fails)
    assert len(small.step) == 1
    assert [(group.name, group.members) for group in small.group] == [("billing", 2)]
    assert small.load.producers == 1
    assert 10 <= small.load.messages < 20
    assert small.cluster.brokers == small.cluster.name_servers == 1
    assert [topic.queues for topic in small.topic] == [1]


def test_a_search_ends_after_so_many_runs() -> None:
    runs = 0

    def fails(programme: Programme) -> bool:
        nonlocal runs
        runs += 1
        return False

    programme = Programme(step=STEPS)
    assert shrink(programme, fails, max_runs=7) == programme
    assert runs == 7
