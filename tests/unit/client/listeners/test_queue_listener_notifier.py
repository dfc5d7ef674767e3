"""A listener is told what changed, one change after the other, and can do no harm."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest

from client.instance.background import BackgroundTasks
from client.listeners.queue_listener_notifier import QueueListenerNotifier
from model.message_queue import MessageQueue
from testbed.simulation.kernel.run import Simulation, run_simulation

A0, A1, B0 = MessageQueue("a", "x", 0), MessageQueue("a", "x", 1), MessageQueue("b", "x", 0)
RETRY = MessageQueue("%RETRY%g", "x", 0)

Call = tuple[str, tuple[MessageQueue, ...], tuple[MessageQueue, ...]]


def run(scenario: Callable[[QueueListenerNotifier, list[Call]], object], *, slow_s: float = 0) -> list[Call]:
    calls: list[Call] = []

    async def listener(topic: str, everything: tuple[MessageQueue, ...], own: tuple[MessageQueue, ...]) -> None:
        calls.append((topic, everything, own))
        await anyio.sleep(slow_s)
        if topic == "b":
            raise ValueError("harm")

    async def main(simulation: Simulation) -> None:
        background = BackgroundTasks("watch")
        await background.start()
        watch = QueueListenerNotifier(listener, background)
        await scenario(watch, calls)  # type: ignore[misc]
        await anyio.sleep(100)
        await background.stop()

    run_simulation(main)
    return calls


def test_it_is_called_for_each_topic_that_changed_and_not_when_nothing_did() -> None:
    async def scenario(watch: QueueListenerNotifier, calls: list[Call]) -> None:
        watch.update({"a": [A1, A0], "b": [], "%RETRY%g": [RETRY]}, [A0, RETRY])
        await anyio.sleep(1)
        watch.update({"a": [A0, A1], "b": []}, [A0])
        await anyio.sleep(1)
        watch.update({"a": [A0, A1], "b": [B0]}, [A0, A1])
        await anyio.sleep(1)
        watch.update({"b": [B0]}, [])

    assert run(scenario) == [
        ("a", (A0, A1), (A0,)),
        ("a", (A0, A1), (A0, A1)),
        ("b", (B0,), ()),
        ("a", (), ()),
    ]


def test_a_slow_listener_is_reported_the_newest_state_and_never_two_at_a_time() -> None:
    async def scenario(watch: QueueListenerNotifier, calls: list[Call]) -> None:
        watch.update({"a": [A0]}, [])
        await anyio.sleep(1)
        for own in ([A0], [], [A0], [A0, A1]):
            watch.update({"a": [A0, A1]}, own)
            await anyio.sleep(0.1)
        assert len(calls) == 1

    assert run(scenario, slow_s=10) == [("a", (A0,), ()), ("a", (A0, A1), (A0, A1))]


def test_a_listener_that_raises_is_logged_and_called_again(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(watch: QueueListenerNotifier, calls: list[Call]) -> None:
        watch.update({"b": [B0]}, [])
        await anyio.sleep(1)
        watch.update({"b": [B0]}, [B0])

    assert run(scenario) == [("b", (B0,), ()), ("b", (B0,), (B0,))]
    assert "harm" in caplog.text


def test_a_plain_function_may_listen_and_without_a_listener_nothing_happens() -> None:
    calls: list[object] = []

    async def main(simulation: Simulation) -> None:
        background = BackgroundTasks("watch")
        await background.start()
        QueueListenerNotifier(None, background).update({"a": [A0]}, [A0])
        QueueListenerNotifier(lambda topic, everything, own: calls.append(topic), background).update({"a": [A0]}, [A0])
        await anyio.sleep(1)
        await background.stop()

    run_simulation(main)
    assert calls == ["a"]
