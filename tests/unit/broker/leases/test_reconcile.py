"""After a loss of power the log and the metadata may tell of different moments; a start brings them together."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from broker.durability.metadata import MetadataStore
from broker.leases.offsets import OffsetTable
from broker.leases.reconcile import drop_unknown_topics, lower_offsets
from broker.store.disk.options import StoreOptions
from broker.store.message_store import MessageStore
from broker.topics.table import TopicTable
from model.topic_route import TopicConfig
from tests.unit.broker.harness import FailingDisk, World, simulated


def topic_table(*topics: str) -> TopicTable:
    table = TopicTable(auto_create=False)
    for number, topic in enumerate(topics, 1):
        table.restore(number, TopicConfig(topic=topic, read_queue_nums=1, write_queue_nums=1))
    return table


def store_of(directory: Path, *topic_ids: int, disk: FailingDisk | None = None) -> MessageStore:
    """A store with two messages of each of these topics."""
    store = MessageStore.open(directory, StoreOptions(), lambda: 0, disk)
    for topic_id in topic_ids:
        for _ in range(2):
            store.append(topic_id, 0, b"m", 0)
    store.flush()
    return store


def test_offsets_behind_the_end_are_lowered_to_it_and_no_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    offsets = OffsetTable()
    for group, topic, offset in (("g", "t", 5), ("g", "u", 1), ("h", "t", 2), ("h", "gone", 9)):
        offsets.restore(group, topic, 0, offset)
    with store_of(tmp_path, 1, 2) as store, MetadataStore(tmp_path) as metadata:
        lower_offsets(store, metadata, topic_table("t", "u"), offsets)
        metadata.commit()
        assert [offsets.of_group("g"), offsets.of_group("h")] == [
            [("t", 0, 2), ("u", 0, 1)],
            [("gone", 0, 9), ("t", 0, 2)],
        ]
        assert metadata._db.execute("select * from offsets").fetchall() == [("g", "t", 0, 2)]
    [warning] = caplog.messages
    assert "group g had committed 5 on t:0, which ends at 2" in warning


def test_messages_of_no_topic_are_dropped_and_their_number_is_not_given_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    topics = topic_table("t")
    with store_of(tmp_path, 1, 7) as store, MetadataStore(tmp_path) as metadata:
        drop_unknown_topics(store, metadata, topics)
        metadata.commit()
        assert store.queues() == [(1, 0)]
        assert metadata.number("last_topic_id") == 7
        entry = topics.ensure_dlq_topic("g")
        assert entry is not None
        assert entry.topic_id == 8
    assert "topic number 7" in caplog.text
    with MessageStore.open(tmp_path, StoreOptions(), lambda: 0) as store:
        assert store.queues() == [(1, 0)]


def test_a_full_disk_leaves_them_for_the_next_start(tmp_path: Path) -> None:
    disk = FailingDisk()
    with store_of(tmp_path, 7, disk=disk) as store, MetadataStore(tmp_path) as metadata:
        disk.errno = errno.ENOSPC
        drop_unknown_topics(store, metadata, topic_table("t"))
        assert store.queues() == [(7, 0)]
        disk.errno = None


@simulated
async def test_a_broker_brings_them_together_before_it_serves_anybody(world: World) -> None:
    broker = await world.start_broker()
    a = world.peer("a")
    for _ in range(3):
        await a.send()
    await a.commit(3)
    topic_id = broker.topics.existing("t").topic_id
    await world.stop_broker()
    # The end of the log is gone, and so is the deletion of a topic.
    for path in world.data_dir.glob("*.index"):
        path.unlink()
    [log] = [path for path in sorted(world.data_dir.glob("*.log")) if path.stat().st_size > 100]
    with log.open("r+b") as file:
        file.truncate(log.stat().st_size - 1)
    with MessageStore.open(world.data_dir, StoreOptions(), world.simulation.clock_ms) as store:
        assert store.max_offset(topic_id, 0) == 2
        store.append(topic_id + 5, 0, b"of a topic that was deleted", 0)
        store.flush()
    broker = await world.start_broker()
    b = world.peer("b")
    assert await b.committed() == 2
    assert {key[0] for key in broker.store.queues()} == {topic_id}
    assert await b.send() == 2
    assert len((await b.pull(offset=2)).body or b"") > 0
