from __future__ import annotations

import anyio
import pytest

from client import MessageQueue
from testbed.bench.kit.convergence import ConvergenceTimeout
from testbed.bench.rebalance.stalls import Takeovers
from testbed.simulation.kernel.run import Simulation, run_simulation

Q, R = MessageQueue("t", "b", 0), MessageQueue("t", "b", 1)


def test_each_queue_counts_once_from_the_moment_it_is_waited_for() -> None:
    async def main(simulation: Simulation) -> None:
        takeovers = Takeovers()
        takeovers.consumed(Q, 9.0)
        takeovers.begin([Q, R], 10.0)
        takeovers.consumed(Q, 10.5)
        takeovers.consumed(Q, 11.0)
        with anyio.move_on_after(1.0) as scope:
            await takeovers.wait(5.0)
        assert scope.cancelled_caught, "one is left"
        takeovers.consumed(R, 12.0)
        assert await takeovers.wait(5.0) == [0.5, 2.0]

    run_simulation(main)


def test_a_queue_that_no_one_takes_over_is_an_error_and_not_a_figure() -> None:
    async def main(simulation: Simulation) -> None:
        takeovers = Takeovers()
        takeovers.begin([Q, R], 0.0)
        takeovers.consumed(R, 0.5)
        with pytest.raises(ConvergenceTimeout, match="1 queue was not consumed again within 5 s"):
            await takeovers.wait(5.0)

    run_simulation(main)
