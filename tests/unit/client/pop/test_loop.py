"""One pop loop against a broker that answers as it is told."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, cast

import anyio
import pytest

from client.instance.background import BackgroundTasks
from client.instance.heartbeats import Refusals
from client.instance.instance import ClientInstance
from client.options import ConsumerOptions
from client.pop.loop import PopLoop
from client.pop.message import PopMessage, make_popped
from client.pop.requests import ANY_QUEUE, PopRequests
from client.rebalance.ownership import MemberContext
from model.errors import ConnectionLost, RlabError, SystemBusy
from model.limits import PULL_RETRY_ERROR_S
from model.message import MessageExt
from model.message_queue import MessageQueue
from model.subscription import SubscriptionData
from testbed.simulation.kernel.run import Simulation, run_simulation

QUEUE = MessageQueue("t", "broker-a", ANY_QUEUE)
LATENCY_S = 0.01


def messages(n: int) -> list[PopMessage]:
    queue = MessageQueue("t", "broker-a", 0)
    return [
        make_popped(MessageExt(queue, offset, 1, 0, "t", b"x", "", (), {}, 1, "id"), 0, 7, 9) for offset in range(n)
    ]


class Broker:
    """A client instance and its requests in one; has messages for ever, or fails as it is told."""

    client_id = "c1"

    def __init__(self, *errors: RlabError) -> None:
        self.errors = list(errors)
        self.asked: list[dict[str, Any]] = []
        self.broker_returned = anyio.Event()
        self.refusals = Refusals()

    async def pause(self, broker_name: str) -> None:
        with anyio.move_on_after(PULL_RETRY_ERROR_S):
            await self.broker_returned.wait()

    async def pop(self, broker_name: str, subscription: SubscriptionData, **asked: Any) -> list[PopMessage]:
        self.asked.append(asked)
        await anyio.sleep(LATENCY_S)
        if self.errors:
            raise self.errors.pop(0)
        return messages(asked["max_n"])


def run(broker: Broker, scenario: Callable[[PopLoop, list[int]], Awaitable[None]], **options: Any) -> list[int]:
    """Runs the scenario beside a loop; it gets the loop and the sizes of what arrived."""
    arrived: list[int] = []

    def take(loop: PopLoop, got: list[PopMessage], sent_at: float) -> None:
        arrived.append(len(got))
        loop.unfinished += len(got)

    async def main(simulation: Simulation) -> None:
        own = ConsumerOptions(**{"invisible_s": 60.0, "max_unacked": 96, **options})
        background = BackgroundTasks("test")
        context = MemberContext(cast(ClientInstance, broker), "g", own, background, SubscriptionData)
        loop = PopLoop(context, cast(PopRequests, broker), QUEUE, take)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(loop.run)
            await scenario(loop, arrived)
            loop.stop()

    run_simulation(main)
    return arrived


def test_it_pops_up_to_so_many_unfinished_and_goes_on_when_half_a_batch_is_finished() -> None:
    async def scenario(loop: PopLoop, arrived: list[int]) -> None:
        await anyio.sleep(10)
        assert arrived == [32, 32, 32]
        for _ in range(15):
            loop.finished()
        await anyio.sleep(1)
        assert len(arrived) == 3
        loop.finished()
        await anyio.sleep(1)

    assert run(Broker(), scenario) == [32, 32, 32, 16]


def test_one_that_may_have_only_one_pops_one_at_a_time() -> None:
    async def scenario(loop: PopLoop, arrived: list[int]) -> None:
        for _ in range(3):
            await anyio.sleep(1)
            loop.finished()
        await anyio.sleep(1)

    assert run(Broker(), scenario, max_unacked=1) == [1, 1, 1, 1]


@pytest.mark.parametrize(("invisible_s", "suspend_ms"), [(60.0, 15_000), (4.0, 2_000)])
def test_no_poll_is_held_for_more_than_half_of_the_invisible_time(invisible_s: float, suspend_ms: int) -> None:
    async def scenario(loop: PopLoop, arrived: list[int]) -> None:
        await anyio.sleep(1)

    broker = Broker()
    run(broker, scenario, invisible_s=invisible_s)
    assert {asked["suspend_ms"] for asked in broker.asked} == {suspend_ms}
    assert {asked["invisible_ms"] for asked in broker.asked} == {invisible_s * 1000}


@pytest.mark.parametrize("error", [ConnectionLost("gone"), SystemBusy("busy")])
def test_an_error_costs_a_wait_and_no_more(error: RlabError, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(loop: PopLoop, arrived: list[int]) -> None:
        await anyio.sleep(0.9)
        assert not arrived
        await anyio.sleep(0.2)
        assert arrived

    caplog.set_level(logging.CRITICAL)
    run(Broker(error), scenario)


def test_what_comes_after_it_was_stopped_is_still_reported_of_so_that_it_can_be_given_back() -> None:
    async def scenario(loop: PopLoop, arrived: list[int]) -> None:
        await anyio.sleep(LATENCY_S / 2)
        loop.stop()
        await anyio.sleep(1)
        assert arrived == [32]

    assert run(Broker(), scenario) == [32]
