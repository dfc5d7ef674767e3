from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from broker.retry import delays
from broker.store.disk.errors import StoreReadFailed
from broker.store.read_result import ReadResult
from client.produce.producer import Producer
from model.errors import InvalidParameter
from model.message import Message
from model.names import SCHEDULE_TOPIC
from remoting.request_code import RequestCode
from testbed.simulation.cluster.clients import SimulatedProducer
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate
from tests.unit.broker.harness import Peer, World, payload_of, records, simulated


async def send_later(producer: SimulatedProducer, body: bytes, delay_ms: int) -> float:
    """Send a delayed message; returns when it is due, in loop time."""
    with producer.simulation.on_host(producer.host):
        sender: Producer = producer.producer
        result = await sender.send(Message("t", body), delay_ms=delay_ms)
    assert result.offset == -1, "it has no offset before it is delivered"
    return producer.simulation.loop.time() + delay_ms / 1000


def test_ten_thousand_delayed_messages_arrive_within_100_ms_of_their_time(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=4)
        consumer = await cluster.start_consumer("g", "t")
        producer = await cluster.start_producer()
        due: dict[bytes, float] = {}
        for number in range(10_000):
            body = b"%d" % number
            due[body] = await send_later(producer, body, 20_000 + cluster.simulation.random.randrange(10_000))
        await anyio.sleep(45)
        late = sorted(delivery.time_s - due[delivery.body] for delivery in consumer.deliveries)
        assert len(late) == 10_000
        assert late[0] >= -0.01, "none comes early; the clock of the stored time has whole milliseconds"
        assert late[9_900] <= 0.1

    simulate(scenario, brokers=1)


@pytest.mark.parametrize("how", ["stop", "crash"])
def test_delayed_messages_survive_a_restart_and_none_comes_twice_after_a_clean_one(
    simulate: Simulate, how: str
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        consumer = await cluster.start_consumer("g", "t")
        producer = await cluster.start_producer()
        for number in range(20):
            await send_later(producer, b"%d" % number, 1_000 * (number + 1))
        await anyio.sleep(5.5)
        broker = cluster.brokers["broker-a"]
        await (broker.stop() if how == "stop" else broker.crash())
        await anyio.sleep(3)
        await broker.start()
        await anyio.sleep(40)
        bodies = [delivery.body for delivery in consumer.deliveries]
        assert sorted(set(bodies), key=int) == [b"%d" % number for number in range(20)]
        assert len(bodies) == 20
        assert len(broker.running.broker.delays) == 0

    simulate(scenario, brokers=1)


def test_a_message_for_a_topic_that_was_deleted_in_between_is_let_go(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        producer = await cluster.start_producer()
        await send_later(producer, b"x", 5_000)
        broker = cluster.brokers["broker-a"].running.broker
        broker.topics.table.delete("t")
        assert len(broker.delays) == 1
        await anyio.sleep(6)
        assert len(broker.delays) == 0

    simulate(scenario, brokers=1)


def test_a_delay_out_of_range_is_refused_by_name(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        producer = await cluster.start_producer()
        with pytest.raises(InvalidParameter, match="delay_ms"):
            await send_later(producer, b"x", -1)

    simulate(scenario, brokers=1)


def test_a_disk_that_cannot_be_read_delays_a_message_and_loses_none(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        consumer = await cluster.start_consumer("g", "t")
        producer = await cluster.start_producer()
        await send_later(producer, b"x", 2_000)
        broker = cluster.brokers["broker-a"].running.broker
        parked_id, read = broker.topics.table.existing(SCHEDULE_TOPIC).topic_id, broker.store.read

        def fails_for_parked(topic_id: int, *rest: Any, **options: Any) -> ReadResult:
            if topic_id == parked_id:
                raise StoreReadFailed("an I/O error")
            return read(topic_id, *rest, **options)

        with monkeypatch.context() as patch:
            patch.setattr(broker.store, "read", fails_for_parked)
            await anyio.sleep(5)
            assert consumer.bodies == []
        await anyio.sleep(2)
        assert consumer.bodies == [b"x"]

    simulate(scenario, brokers=1)


def test_a_message_parked_after_the_end_of_the_log_was_lost_is_found_by_the_next_start(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        consumer = await cluster.start_consumer("g", "t")
        producer = await cluster.start_producer()
        for body in (b"1", b"2", b"3"):
            await send_later(producer, body, 100)
        await anyio.sleep(2)
        assert len(consumer.deliveries) == 3
        broker = cluster.brokers["broker-a"]

        def lose_the_log(directory: Path, survivor: Path) -> None:
            for path in survivor.glob("0*"):
                path.unlink()

        broker.running.broker.delays.close()  # three are done, it says
        await anyio.sleep(0.1)
        await broker.crash(lose_the_log)
        await broker.start()
        await anyio.sleep(5)
        await send_later(producer, b"4", 5_000)
        await broker.crash()
        await broker.start()
        assert len(broker.running.broker.delays) == 1
        await anyio.sleep(10)
        assert consumer.bodies[3:] == [b"4"]

    simulate(scenario, brokers=1)


async def send_in(peer: Peer, delay_ms: int, queue_id: int = 0, body: bytes = b"m") -> None:
    header = {"topic": "t", "queue_id": queue_id, "tag_hash": 0, "delay_ms": delay_ms}
    await peer.call(RequestCode.SEND_MESSAGE, header, payload_of(body))


@simulated
async def test_a_message_whose_queue_is_gone_when_it_is_due_comes_in_one_that_is_left(world: World) -> None:
    await world.start_broker()
    a = world.peer("a")
    await a.put_topic(read=8)
    await send_in(a, 1_000, queue_id=7)
    await send_in(a, 1_000, queue_id=2)
    await a.put_topic(read=4)
    await world.sleep(2)
    assert [len(records(await a.pull(queue_id=n))) for n in range(4)] == [0, 0, 1, 1]


@simulated
async def test_messages_that_are_due_together_are_read_some_bytes_at_a_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delays, "_BYTES_AT_ONCE", 1_000)
    broker = await world.start_broker()
    a = world.peer("a")
    await a.put_topic()
    for _ in range(10):
        await send_in(a, 5_000 - int(world.now * 1_000), body=bytes(400))
    written: list[int] = []
    flush = broker.store.flush

    def watched() -> None:
        before = broker.store.written_position
        flush()
        written.append(broker.store.written_position - before)

    monkeypatch.setattr(broker.store, "flush", watched)
    await world.sleep(6)
    assert len(records(await a.pull())) == 10
    assert 1_000 < max(written) < 2_500, "three of them, each with a mark"


@simulated
async def test_a_message_that_is_not_stored_any_more_does_not_keep_the_log_for_ever(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = await world.start_broker()
    a = world.peer("a")
    await a.put_topic()
    await send_in(a, 1_000)
    await send_in(a, 3_600_000)
    assert list(broker.delays.needed_from().values()) == [0]
    monkeypatch.setattr(broker.store, "read_one", lambda *place: None)
    await world.sleep(2)
    assert list(broker.delays.needed_from().values()) == [1]


NINETY_DAYS_MS = 90 * 86_400_000


@simulated
async def test_a_clock_that_is_set_back_while_a_broker_runs_makes_no_delay_longer(world: World) -> None:
    back_ms = 0
    await world.start_broker(clock_ms=lambda: world.simulation.clock_ms() - back_ms)
    a = world.peer("a")
    await a.put_topic()
    await send_in(a, 10_000)
    back_ms = NINETY_DAYS_MS
    await world.sleep(5)
    await send_in(a, 10_000)
    for n, after_s in enumerate((4, 2, 3)):
        await world.sleep(after_s)
        assert len(records(await a.pull())) == min(n, 1)
    await world.sleep(2)
    assert len(records(await a.pull())) == 2


@simulated
async def test_a_clock_that_is_set_back_before_a_start_makes_no_delay_longer(world: World) -> None:
    await world.start_broker()
    a = world.peer("a")
    await a.put_topic()
    await send_in(a, 10_000)
    await world.stop_broker()
    await world.start_broker(clock_ms=lambda: world.simulation.clock_ms() - NINETY_DAYS_MS)
    await a.close()
    b = world.peer("b")
    await world.sleep(9)
    assert records(await b.pull()) == []
    await world.sleep(2)
    assert len(records(await b.pull())) == 1
