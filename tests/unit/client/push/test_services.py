"""What becomes of messages when a listener answers, in order and without."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from client.listeners.listener import ConsumeResult
from model.errors import ConfigError
from model.message import MessageExt
from testbed.simulation.cluster.cluster import SimulatedCluster
from testbed.simulation.kernel.network import Fault
from tests.simulation.conftest import Simulate
from tests.simulation.test_consuming import committed

SUSPEND = ConsumeResult.SUSPEND_CURRENT_QUEUE_A_MOMENT


def dead_letters(cluster: SimulatedCluster, group: str = "g") -> int:
    broker = cluster.brokers["broker-a"].running.broker
    entry = broker.topics.table.get(f"%DLQ%{group}")
    return 0 if entry is None else broker.store.max_offset(entry.topic_id, 0)


def run(
    simulate: Simulate,
    answers: Any,
    expected: list[str],
    *,
    offset: int,
    dead: int = 0,
    seconds: float = 30,
    **options: Any,
) -> None:
    """Send the numbers 0 to 4; `answers(message)` is what the listener says; `expected` is what it was called with."""

    async def scenario(cluster: SimulatedCluster) -> None:
        calls: list[str] = []

        async def listener(messages: Sequence[MessageExt]) -> ConsumeResult | None:
            calls.append("+".join(f"{m.body.decode()}'{m.times_delivered}" for m in messages))
            answer: ConsumeResult | None = answers(messages[-1])
            return answer

        await cluster.create_topic("t", queues=1)
        producer = await cluster.start_producer()
        await cluster.start_consumer("g", "t", listener=listener, **{"order": "queue", **options})
        await anyio.sleep(1)
        for n in range(5):
            await producer.send("t", b"%d" % n)
        await anyio.sleep(seconds)
        assert calls == expected
        assert (committed(cluster), dead_letters(cluster)) == (offset, dead)

    simulate(scenario, brokers=1)


def test_in_order_what_follows_waits_for_a_message_that_failed(simulate: Simulate) -> None:
    def answers(message: MessageExt) -> ConsumeResult | None:
        return SUSPEND if message.body == b"1" and message.times_delivered < 2 else None

    run(simulate, answers, ["0'0", "1'0", "1'1", "1'2", "2'0", "3'0", "4'0"], offset=5)


def test_in_order_a_message_that_always_fails_ends_as_a_dead_letter_and_the_rest_goes_on(simulate: Simulate) -> None:
    def answers(message: MessageExt) -> ConsumeResult | None:
        return ConsumeResult.RECONSUME_LATER if message.body == b"1" else None

    run(simulate, answers, ["0'0", "1'0", "1'1", "1'2", "2'0", "3'0", "4'0"], offset=5, dead=1, max_attempts=2)


def test_a_listener_that_commits_by_hand_ends_what_it_processed_before(simulate: Simulate) -> None:
    def answers(message: MessageExt) -> ConsumeResult | None:
        return ConsumeResult.COMMIT if message.body == b"2" else None

    run(simulate, answers, ["0'0", "1'0", "2'0", "3'0", "4'0"], offset=3, auto_commit=False)


def test_a_listener_that_rolls_back_gets_everything_since_the_last_commit_again(simulate: Simulate) -> None:
    rolled: list[bytes] = []

    def answers(message: MessageExt) -> ConsumeResult | None:
        if message.body == b"2" and not rolled:
            rolled.append(message.body)
            return ConsumeResult.ROLLBACK
        return ConsumeResult.COMMIT if message.body in (b"0", b"4") else None

    run(
        simulate,
        answers,
        ["0'0", "1'0", "2'0", "1'0", "2'0", "3'0", "4'0"],
        offset=5,
        auto_commit=False,
    )


def test_a_rollback_where_success_commits_puts_the_batch_back_and_loses_nothing(simulate: Simulate) -> None:
    said: list[bytes] = []

    def answers(message: MessageExt) -> ConsumeResult | None:
        if message.body == b"1" and not said:
            said.append(message.body)
            return ConsumeResult.ROLLBACK
        return None

    run(simulate, answers, ["0'0", "1'0", "1'0", "2'0", "3'0", "4'0"], offset=5)


@pytest.mark.parametrize("order", ["queue", "key"])
def test_a_dead_letter_that_no_broker_takes_holds_its_lane_until_one_does(simulate: Simulate, order: str) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        seen: list[bytes] = []
        fault: list[Fault] = []

        async def work(message: MessageExt) -> None:
            seen.append(message.body)
            if message.body == b"0":
                if not fault:
                    fault.append(cluster.simulation.network.stall("broker-a"))
                raise ValueError("never")

        await cluster.create_topic("t", queues=1)
        await cluster.start_consumer("g", "t", work=work, order=order, max_attempts=0)
        producer = await cluster.start_producer()
        await producer.send("t", b"0", key="k")
        await anyio.sleep(10)
        fault[0].heal()
        await producer.send("t", b"1", key="k")
        await anyio.sleep(30)
        assert seen[0] == b"0"
        assert seen[-1] == b"1"
        assert set(seen[:-1]) == {b"0"}
        assert committed(cluster) == 2
        assert dead_letters(cluster) >= 1, "requests that got no answer in time may have been carried out"

    simulate(scenario, brokers=1)


def test_keys_of_one_queue_run_at_the_same_time_each_in_its_order(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        running: dict[str, int] = {}
        widest = 0

        async def work(message: MessageExt) -> None:
            nonlocal widest
            key = message.keys[0]
            running[key] = running.get(key, 0) + 1
            widest = max(widest, len(running))
            assert running[key] == 1, "two messages of one key at once"
            await anyio.sleep(0.01)
            del running[key]

        await cluster.create_topic("t", queues=1)
        consumer = await cluster.start_consumer("g", "t", work=work, order="key")
        producer = await cluster.start_producer()
        for n in range(200):
            await producer.send("t", b"%d" % n, key=f"k{n % 10}")
        await anyio.sleep(5)
        for key in range(10):
            bodies = [int(d.body) for d in consumer.deliveries if d.message.keys[0] == f"k{key}"]
            assert bodies == list(range(key, 200, 10))
        assert widest == 10
        assert committed(cluster) == 200

    simulate(scenario, brokers=1)


def test_without_an_order_everything_but_success_is_redelivered_later(simulate: Simulate) -> None:
    def answers(message: MessageExt) -> ConsumeResult | None:
        return SUSPEND if message.body == b"1" and message.times_delivered < 1 else None

    run(simulate, answers, ["0'0", "1'0", "2'0", "3'0", "4'0", "1'1"], offset=5, order="none", retry_delay_ms=2000)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"order": "keys"}, "order must be one of none, queue, key; got 'keys'"),
        ({"auto_commit": False}, "auto_commit=False needs an order"),
        ({"order": "key", "suspend_s": 31}, "suspend_s must be 0.01 to 30, got 31"),
    ],
)
def test_options_of_an_order_that_cannot_be_are_refused(simulate: Simulate, options: dict[str, Any], why: str) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        with pytest.raises(ConfigError, match=why):
            cluster.make_consumer("g", **options)

    simulate(scenario)
