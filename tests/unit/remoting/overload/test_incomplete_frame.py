"""The frame of one connection by itself; `connections/test_frames_under_way.py` has it in connections."""

from __future__ import annotations

import asyncio

import anyio

from model.errors import ProtocolError
from model.limits import FRAME_TIMEOUT_S, MAX_UNCOUNTED_FRAME_BYTES
from remoting.overload.incomplete_frame import IncompleteFrame, PartialFrameBudget
from testbed.simulation.kernel.run import Simulation, run_simulation

LARGE = MAX_UNCOUNTED_FRAME_BYTES + 1


class Watched:
    """A frame, and what it reported."""

    def __init__(self, budget: PartialFrameBudget | None = None) -> None:
        self.waits: list[bool] = []
        self.overdue: list[ProtocolError] = []
        loop = asyncio.get_running_loop()
        self.frame = IncompleteFrame(loop, budget, lambda: self.waits.append(self.frame.waits), self.overdue.append)


def test_a_frame_is_overdue_once_its_time_is_over_whatever_came_of_it_in_between() -> None:
    async def main(_: Simulation) -> None:
        watched = Watched()
        watched.frame.received(7, "u", is_new=True)
        await anyio.sleep(FRAME_TIMEOUT_S - 1)
        watched.frame.received(7, "u", is_new=False)
        assert watched.overdue == []
        await anyio.sleep(1.1)
        [error] = watched.overdue
        assert "a frame of 7 bytes is not whole" in str(error)

    run_simulation(main)


def test_a_frame_that_is_whole_or_abandoned_is_never_overdue() -> None:
    async def main(_: Simulation) -> None:
        whole, given_up = Watched(), Watched()
        whole.frame.received(7, "u", is_new=True)
        whole.frame.received(0, "u", is_new=True)
        given_up.frame.received(7, "u", is_new=True)
        assert (given_up.frame.release_budget(), given_up.frame.release_budget()) == (True, False)
        await anyio.sleep(2 * FRAME_TIMEOUT_S)
        assert whole.overdue == given_up.overdue == []

    run_simulation(main)


def test_bytes_that_grow_are_admitted_again_when_they_have_doubled() -> None:
    async def main(_: Simulation) -> None:
        budget = PartialFrameBudget(8 * LARGE, 8 * LARGE)
        growing, other = Watched(budget), Watched(budget)
        growing.frame.received(LARGE, "u", is_new=True)
        growing.frame.received(2 * LARGE, "u", is_new=False)
        other.frame.received(7 * LARGE, "v", is_new=True)
        assert not other.frame.waits, "it has grown to the double, which does not count yet"
        growing.frame.received(3 * LARGE, "u", is_new=False)
        assert growing.frame.waits
        other.frame.release_budget()
        assert not growing.frame.waits
        growing.frame.received(0, "u", is_new=True)
        other.frame.received(8 * LARGE, "v", is_new=True)
        assert not other.frame.waits, "nothing is counted any more"
        for each in (growing, other):
            each.frame.release_budget()

    run_simulation(main)


def test_the_time_of_a_frame_that_waits_for_room_begins_when_it_has_it() -> None:
    async def main(_: Simulation) -> None:
        budget = PartialFrameBudget(LARGE)
        first, second = Watched(budget), Watched(budget)
        first.frame.received(LARGE, "u", is_new=True)
        second.frame.received(LARGE, "v", is_new=True)
        assert (first.waits, second.waits) == ([False], [True])
        await anyio.sleep(FRAME_TIMEOUT_S - 1)
        first.frame.release_budget()
        assert second.waits == [True, False]
        await anyio.sleep(FRAME_TIMEOUT_S - 0.1)
        assert second.overdue == []
        await anyio.sleep(0.2)
        assert len(second.overdue) == 1

    run_simulation(main)
