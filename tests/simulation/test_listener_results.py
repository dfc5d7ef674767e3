"""What becomes of messages whose listener says how they failed, in every kind of push consumer.

Each scenario has the numbers 0 to 3 in one batch, and notes each call of the listener: how many seconds after the first
one, and which messages, with their failed attempts before. The listener answers its first call as the test says, and
then processes all.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from client.listeners.failed import Failed
from client.listeners.listener import Result
from model.heartbeat import ConsumeFrom, MessageModel
from model.limits import MIN_SUSPEND_S
from model.message import MessageExt
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate
from tests.simulation.test_consuming import committed

pytestmark = pytest.mark.simulation

BATCH: dict[str, Any] = {"consume_batch": 4, "max_workers": 1, "consume_from": ConsumeFrom.FIRST_OFFSET}
MODES: dict[str, dict[str, Any]] = {
    "pull": {},
    "pull in order": {"order": "queue"},
    "pull, commits by hand": {"order": "queue", "auto_commit": False},
    "pop": {"mode": "pop"},
    "pop in order": {"mode": "pop", "order": "queue"},
}
IN_PLACE = [mode for mode in MODES if mode not in ("pull", "pop")]


class Story:
    """The calls of one scenario, as (seconds after the first call, messages), and how it ended."""

    def __init__(self) -> None:
        self.calls: list[tuple[float, str]] = []
        self.committed = self.dead = 0

    @property
    def again(self) -> dict[float, str]:
        """What was dispatched after the first call: second -> the messages, each with its failed attempts before."""
        by_second: dict[float, list[str]] = {}
        for at, messages in self.calls[1:]:
            by_second.setdefault(at, []).extend(messages.split())
        return {at: " ".join(sorted(messages)) for at, messages in by_second.items()}


def run(simulate: Simulate, first: Result, *, seconds: float, **options: Any) -> Story:
    """Run a scenario of that many seconds, in which the first call of the listener returns `first`."""
    story = Story()

    async def scenario(cluster: SimulatedCluster) -> None:
        began: list[float] = []

        async def listener(messages: Sequence[MessageExt]) -> Result | None:
            began.append(anyio.current_time())
            names = " ".join(f"{m.body.decode()}'{m.times_delivered}" for m in messages)
            story.calls.append((round(began[-1] - began[0], 0), names))
            return first if len(began) == 1 else None

        await cluster.create_topic("t", queues=1)
        producer = await cluster.start_producer()
        for n in range(4):
            await producer.send("t", b"%d" % n, key="k")
        consumer = await cluster.start_consumer("g", "t", listener=listener, **BATCH, **options)
        await anyio.sleep(seconds)
        await consumer.stop()
        broker = cluster.brokers["broker-a"].running.broker
        dlq = broker.topics.table.get("%DLQ%g")
        story.dead = 0 if dlq is None else broker.store.max_offset(dlq.topic_id, 0)
        story.committed = committed(cluster)

    simulate(scenario, brokers=1)
    assert story.calls[0] == (0, "0'0 1'0 2'0 3'0")
    return story


@pytest.mark.parametrize("mode", MODES)
def test_a_listener_chooses_when_its_messages_are_redelivered(simulate: Simulate, mode: str) -> None:
    story = run(simulate, Failed(retry_after_s=40), seconds=60, **MODES[mode])
    assert story.again == {40: "0'1 1'1 2'1 3'1"}
    # Without automatic commit the second call has processed them, and nothing has committed them.
    assert (story.committed, story.dead) == (0 if "by hand" in mode else 4, 0)


@pytest.mark.parametrize("mode", MODES)
def test_a_listener_sends_its_messages_to_the_dlq_at_once(simulate: Simulate, mode: str) -> None:
    story = run(simulate, Failed(dead_letter=True), seconds=120, **MODES[mode])
    assert story.again == {}
    assert (story.committed, story.dead) == (4, 4)


@pytest.mark.parametrize("mode", MODES)
def test_a_listener_processes_the_first_part_of_a_batch(simulate: Simulate, mode: str) -> None:
    story = run(simulate, Failed(done=3, retry_after_s=20), seconds=60, **MODES[mode])
    assert story.again == {20: "3'1"}
    assert (story.committed, story.dead) == (0 if "by hand" in mode else 4, 0)


def test_by_hand_the_processed_part_of_a_batch_waits_for_a_commit_although_the_rest_is_dead(simulate: Simulate) -> None:
    story = run(simulate, Failed(done=1, dead_letter=True), seconds=60, **MODES["pull, commits by hand"])
    assert (story.again, story.dead) == ({}, 3)
    assert story.committed == 0


@pytest.mark.parametrize("mode", MODES)
def test_a_failure_that_says_no_more_is_the_usual_one_and_one_of_no_message_is_none(
    simulate: Simulate, mode: str
) -> None:
    waits = 1 if mode in IN_PLACE else 10
    assert run(simulate, Failed(), seconds=60, **MODES[mode]).again == {waits: "0'1 1'1 2'1 3'1"}
    story = run(simulate, Failed(done=9), seconds=60, **MODES[mode])
    assert (story.again, story.committed) == ({}, 0 if "by hand" in mode else 4)


@pytest.mark.parametrize("mode", ["pull in order", "pop in order"])
def test_a_lane_that_is_suspended_for_no_time_at_all_does_not_spin(simulate: Simulate, mode: str) -> None:
    calls: list[float] = []

    async def scenario(cluster: SimulatedCluster) -> None:
        async def listener(messages: Sequence[MessageExt]) -> Result:
            calls.append(anyio.current_time())
            return Failed(retry_after_s=0)

        await cluster.create_topic("t", queues=1)
        await cluster.start_consumer("g", "t", listener=listener, max_attempts=500, **MODES[mode])
        await anyio.sleep(1)
        producer = await cluster.start_producer()
        await producer.send("t", b"x")
        await anyio.sleep(2)

    simulate(scenario, brokers=1)
    assert len(calls) > 100
    assert calls[100] - calls[0] == pytest.approx(100 * MIN_SUSPEND_S)


def test_the_attempts_of_a_message_end_its_retries_whatever_its_listener_says(simulate: Simulate) -> None:
    calls: list[int] = []

    async def scenario(cluster: SimulatedCluster) -> None:
        async def listener(messages: Sequence[MessageExt]) -> Result:
            calls.extend(message.times_delivered for message in messages)
            return Failed(retry_after_s=1)

        await cluster.create_topic("t", queues=1)
        await cluster.start_consumer("g", "t", listener=listener, max_attempts=2)
        await anyio.sleep(1)
        producer = await cluster.start_producer()
        await producer.send("t", b"x")
        await anyio.sleep(30)

    simulate(scenario, brokers=1)
    assert calls == [0, 1, 2]


@pytest.mark.parametrize("order", ["none", "queue"])
def test_a_broadcasting_member_waits_as_long_as_its_listener_says_and_skips_what_is_dead(
    simulate: Simulate, order: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own: dict[str, Any] = {
        "model": MessageModel.BROADCASTING,
        "instance_name": "one",
        "order": order,
        "offsets_dir": tmp_path / "a",
    }
    assert run(simulate, Failed(retry_after_s=40), seconds=60, **own).again == {40: "0'1 1'1 2'1 3'1"}
    own["offsets_dir"] = tmp_path / "b"
    with caplog.at_level(logging.ERROR):
        story = run(simulate, Failed(done=2, dead_letter=True), seconds=60, **own)
    assert (story.again, story.dead) == ({}, 0)
    assert len([record for record in caplog.records if "is passed over" in record.message]) == 2


def test_a_message_that_no_broker_takes_back_does_not_hold_its_queue_for_the_time_of_its_listener(
    simulate: Simulate,
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        calls: list[float] = []

        async def listener(messages: Sequence[MessageExt]) -> Result | None:
            calls.append(anyio.current_time())
            if len(calls) > 1:
                return None
            await cluster.brokers["broker-a"].crash()
            return Failed(retry_after_s=3600)

        await cluster.create_topic("t", queues=1)
        await cluster.start_consumer("g", "t", listener=listener)
        await anyio.sleep(1)
        producer = await cluster.start_producer()
        await producer.send("t", b"x")
        await anyio.sleep(5)
        await cluster.brokers["broker-a"].start()
        await anyio.sleep(30)
        assert len(calls) == 2

    simulate(scenario, brokers=1)
