"""The call of a listener: whatever it is and does, its messages succeed or fail, and nothing else happens."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from client.consumer import ConsumeResult, ListenerCall
from model.message import MessageExt
from model.message_queue import MessageQueue
from simulation.run import Simulation, run_simulation

MESSAGE = MessageExt(MessageQueue("t", "b", 0), 7, 0, 0, "t", b"x", "", (), {}, 0, "id")


def call(listener: Any) -> ConsumeResult:
    async def main(simulation: Simulation) -> ConsumeResult:
        return await ListenerCall(listener, "t")([MESSAGE])

    return run_simulation(main)


async def succeeds(messages: Sequence[MessageExt]) -> None:
    await anyio.sleep(1)


async def wants_it_again(messages: Sequence[MessageExt]) -> ConsumeResult:
    return ConsumeResult.RECONSUME_LATER


class AsyncObject:
    async def __call__(self, messages: Sequence[MessageExt]) -> None:
        await anyio.sleep(1)


class PlainObject:
    def __call__(self, messages: Sequence[MessageExt]) -> ConsumeResult:
        return ConsumeResult.SUCCESS

    async def method(self, messages: Sequence[MessageExt]) -> ConsumeResult:
        return ConsumeResult.RECONSUME_LATER


@pytest.mark.parametrize(
    ("listener", "expected"),
    [
        (succeeds, ConsumeResult.SUCCESS),
        (wants_it_again, ConsumeResult.RECONSUME_LATER),
        (AsyncObject(), ConsumeResult.SUCCESS),
        (PlainObject(), ConsumeResult.SUCCESS),
        (PlainObject().method, ConsumeResult.RECONSUME_LATER),
        (lambda messages: None, ConsumeResult.SUCCESS),
        (lambda messages: "RECONSUME_LATER", ConsumeResult.RECONSUME_LATER),
        (lambda messages: wants_it_again([*messages]), ConsumeResult.RECONSUME_LATER),
    ],
)
def test_a_listener_may_be_any_kind_of_callable(listener: Any, expected: ConsumeResult) -> None:
    assert call(listener) is expected


def raises(messages: Sequence[MessageExt]) -> None:
    raise ValueError("no")


async def raises_later(messages: Sequence[MessageExt]) -> None:
    await anyio.sleep(1)
    raise ValueError("no")


@pytest.mark.parametrize("listener", [raises, raises_later, lambda messages: "nonsense", lambda messages: True])
def test_what_a_listener_raises_or_wrongly_answers_fails_its_messages_and_is_logged(
    listener: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        assert call(listener) is ConsumeResult.RECONSUME_LATER
    (record,) = caplog.records
    assert "the listener of t failed on t@b:0+7" in record.getMessage()
    assert record.exc_info is not None


def test_a_cancelled_listener_is_cancelled_and_not_failed() -> None:
    async def forever(messages: Sequence[MessageExt]) -> None:
        await anyio.sleep_forever()

    async def main(simulation: Simulation) -> None:
        with anyio.move_on_after(1) as scope:
            await ListenerCall(forever, "t")([MESSAGE])
        assert scope.cancelled_caught

    run_simulation(main)


@pytest.mark.asyncio
async def test_a_plain_listener_runs_in_a_thread_of_its_own() -> None:
    threads: list[threading.Thread] = []
    await ListenerCall(lambda messages: threads.append(threading.current_thread()), "t")([MESSAGE])
    assert threads[0] is not threading.main_thread()
