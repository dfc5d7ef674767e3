"""The intake of popped messages against requests that are answered as the test says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

import anyio
import pytest

from client.instance.background import BackgroundTasks
from client.instance.instance import ClientInstance
from client.options import ConsumerOptions
from client.pop.intake import PopIntake
from client.pop.message import PopMessage, make_popped
from client.rebalance.ownership import MemberContext
from model.errors import ConnectionLost, IllegalOperation, ReceiptHandleDead, RequestTimeout, RlabError
from model.limits import PULL_RETRY_ERROR_S
from model.message import MessageExt
from model.message_queue import MessageQueue
from model.subscription import SubscriptionData, make_subscription
from testbed.simulation.kernel.run import Simulation, run_simulation

QUEUE = MessageQueue("t", "broker-a", 0)
RETRY = MessageQueue("%RETRY%g", "broker-a", 0)


class Instance:
    """A client instance that is never reached, except to wait for a broker."""

    client_id = "c1"

    def __init__(self) -> None:
        self.broker_returned = anyio.Event()
        self.masters: dict[str, object] = {}

    async def pause(self, broker_name: str) -> None:
        with anyio.move_on_after(PULL_RETRY_ERROR_S):
            await self.broker_returned.wait()


def message(offset: int, tags: str = "", queue: MessageQueue = QUEUE) -> PopMessage:
    return make_popped(MessageExt(queue, offset, 1, 0, "t", b"x", tags, (), {}, 1, "id"), 0, 7, 9)


def run(
    scenario: Callable[[PopIntake, list[int]], Awaitable[None]], *errors: RlabError, tags: str | None = "*"
) -> None:
    """Runs the scenario with an intake whose requests fail so; it gets the loop times of the requests, in seconds."""

    def subscription(topic: str) -> SubscriptionData | None:
        return None if tags is None else make_subscription(topic, tags, 1)

    async def main(simulation: Simulation) -> None:
        background, left, asked = BackgroundTasks("test"), list(errors), list[int]()
        await background.start()
        context = MemberContext(cast(ClientInstance, Instance()), "g", ConsumerOptions(), background, subscription)
        intake = PopIntake(context, order=False, retry_s=0)

        async def change_invisible(*asked_for: Any) -> tuple[int, int]:
            asked.append(round(anyio.current_time() - started))
            if left:
                raise left.pop(0)
            return 8, 9

        started = anyio.current_time()
        intake.requests.change_invisible = change_invisible  # type: ignore[assignment,method-assign]
        await scenario(intake, asked)
        await background.stop()

    run_simulation(main)


def acknowledged(intake: PopIntake) -> list[int]:
    return sorted(offset for batch in intake.acks._pending.values() for of in batch.tokens.values() for offset in of)


@pytest.mark.parametrize(("tags", "offsets", "ended"), [("*", [0, 1, 2], []), ("red", [0, 2], [1]), (None, None, [])])
def test_tags_that_only_share_a_hash_are_acknowledged_and_retries_are_taken_whatever_their_tags(
    tags: str | None, offsets: list[int] | None, ended: list[int]
) -> None:
    async def scenario(intake: PopIntake, asked: list[int]) -> None:
        wanted = intake.matching("t", [message(0, "red"), message(1, "blue"), message(2, "blue", RETRY)])
        assert (None if wanted is None else [each.offset for each in wanted]) == offsets
        assert acknowledged(intake) == ended

    run(scenario, tags=tags)


def test_a_return_is_repeated_until_the_broker_answers() -> None:
    async def scenario(intake: PopIntake, asked: list[int]) -> None:
        intake.change_invisible(message(1), 0, anyio.current_time() + 60)
        await intake.wait_idle()
        assert asked == [0, 1, 2]
        assert intake.late == 0

    run(scenario, ConnectionLost("gone"), RequestTimeout("slow"))


@pytest.mark.parametrize("error", [ConnectionLost("gone"), IllegalOperation("no")])
def test_it_is_not_repeated_when_the_time_of_the_message_has_ended_or_the_broker_refuses(error: RlabError) -> None:
    async def scenario(intake: PopIntake, asked: list[int]) -> None:
        intake.change_invisible(message(1), 0, 0.0 if error.retryable else anyio.current_time() + 60)
        await intake.wait_idle()
        assert asked == [0]

    run(scenario, error)


def test_a_dead_handle_is_late_unless_an_earlier_request_may_have_killed_it() -> None:
    async def scenario(intake: PopIntake, asked: list[int]) -> None:
        intake.change_invisible(message(1), 0, anyio.current_time() + 60)
        await intake.wait_idle()
        assert intake.late == 1
        intake.change_invisible(message(2), 0, anyio.current_time() + 60)
        await intake.wait_idle()
        assert intake.late == 1

    run(scenario, ReceiptHandleDead("dead"), RequestTimeout("slow"), ReceiptHandleDead("dead"))


def test_after_the_end_of_the_consumer_nothing_is_started() -> None:
    async def scenario(intake: PopIntake, asked: list[int]) -> None:
        await intake._context.background.stop()
        intake.change_invisible(message(1), 0)
        await intake.wait_idle()
        assert asked == []

    run(scenario)
