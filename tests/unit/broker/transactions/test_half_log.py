from __future__ import annotations

from collections.abc import Iterator

import pytest

from broker.store.message_store import MessageStore
from broker.store.records import records_from
from broker.transactions import half_log
from broker.transactions.records import HALVES, MARKS
from model.limits import MAX_TRANSACTION_TIMEOUT_S
from model.record import StoredRecord
from tests.unit.broker.harness import World, simulated
from tests.unit.broker.transactions.test_service import COMMIT, ROLLBACK, end, half, stored


@simulated
async def test_a_restart_finds_what_is_open_and_nothing_that_was_ended(world: World) -> None:
    await world.start_broker()
    a = world.peer("a")
    await a.put_topic()
    await half(a, "x", "y", "z", after_ms=20_000)
    await end(a, (1, "y", COMMIT))
    before = dict(world.broker.transactions.table)
    for _ in range(2):
        await world.stop_broker()
        await a.close()
        await world.start_broker()
        after = dict(world.broker.transactions.table)
        assert sorted(after) == [0, 2]
        for offset, each in after.items():
            assert (each.group, each.cause) == (before[offset].group, before[offset].cause)
            assert each.due == pytest.approx(before[offset].due, abs=0.01)
            assert each.born == pytest.approx(before[offset].born, abs=0.01)
    a = world.peer("b")
    assert await end(a, (0, "x", COMMIT), (1, "y", COMMIT), (2, "z", ROLLBACK)) == [0, 1, 0]
    assert await stored(a) == [b"y", b"x"]


@simulated
async def test_a_clock_that_was_set_back_before_a_start_puts_no_check_off_for_days(world: World) -> None:
    await world.start_broker()
    a = world.peer("a")
    await a.put_topic()
    await half(a, "x")
    await world.stop_broker()
    await world.start_broker(clock_ms=lambda: world.simulation.clock_ms() - 90 * 86_400_000)
    [(_, each)] = world.broker.transactions.table
    assert each.born <= world.now < each.due <= world.now + MAX_TRANSACTION_TIMEOUT_S


@simulated
async def test_a_snapshot_lets_a_restart_read_only_what_came_after_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(half_log, "TRANSACTIONS_PER_SNAPSHOT", 10)
    await world.start_broker()
    a = world.peer("a")
    await a.put_topic()
    await half(a, "x")
    for n in range(1, 60):
        await half(a, "y")
        await end(a, (n, "y", COMMIT))
        await world.sleep(1)  # the log is synced meanwhile
    saved = world.broker.transactions.log._from
    assert saved > 30
    monkeypatch.setattr(world.broker.transactions, "close", lambda: None)
    monkeypatch.setattr(half_log.HalfLog, "close", lambda self: None)  # as after a crash
    await world.stop_broker()
    read: list[tuple[int, int]] = []

    def noted_scan(store: MessageStore, topic_id: int, queue_id: int, offset: int) -> Iterator[StoredRecord]:
        read.append((queue_id, offset))
        return records_from(store, topic_id, queue_id, offset)

    monkeypatch.setattr(half_log, "records_from", noted_scan)
    await world.start_broker()
    assert [queue_id for queue_id, _ in read] == [HALVES, MARKS]
    assert read[0][1] == saved
    assert sorted(offset for offset, _ in world.broker.transactions.table) == [0]


@simulated
async def test_what_a_loss_of_power_took_behind_a_mark_is_published_again_once(world: World) -> None:
    """The log is cut behind the mark, at each of the messages that the mark publishes."""
    await world.start_broker()
    a = world.peer("a")
    await a.put_topic("t", read=2)
    await half(a, "x", "y")
    await half(a, "z", queue_id=1)
    await end(a, (0, "x", COMMIT), (1, "y", COMMIT), (2, "z", COMMIT))
    path = max(world.data_dir.glob("*.log"))
    await world.stop_broker()
    whole = path.read_bytes()
    for lost in (b"z", b"y", b"x"):
        for file in (world.data_dir / "ENDS", *world.data_dir.glob("*.index"), *world.data_dir.glob("*.log")):
            file.unlink()
        path.write_bytes(whole[: whole.rindex(lost) - 30])
        for _ in range(2):
            await world.start_broker()
            reader = world.peer(f"reader-{lost!r}-{_}")
            assert sorted(await stored(reader)) == [b"x", b"y"]
            assert await stored(reader, queue_id=1) == [b"z"]
            assert len(world.broker.transactions.table) == 0
            await reader.close()
            await world.stop_broker()


@simulated
async def test_half_messages_that_a_loss_of_power_took_leave_their_offsets_to_others(world: World) -> None:
    await world.start_broker()
    a = world.peer("a")
    await a.put_topic()
    await half(a, "x", "y")
    await world.stop_broker()
    await a.close()
    path = max(world.data_dir.glob("*.log"))
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.rindex(b"y") - 40])
    (world.data_dir / "ENDS").unlink()
    for index in world.data_dir.glob("*.index"):
        index.unlink()
    await world.start_broker()
    b = world.peer("b")
    assert [offset for offset, _ in world.broker.transactions.table] == [0]
    assert await half(b, "z") == 1
    assert await end(b, (1, "y", COMMIT)) == [2], "that was lost, and the one at its offset is another one"
    assert await end(b, (1, "z", COMMIT)) == [0]
    assert await stored(b) == [b"z"]
