"""A log without its metadata: a broker refuses to start, drops nothing, and makes topics again only when told to."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from broker.broker import Broker
from broker.retention.plan import RetentionOptions
from broker.store.disk.directory import METADATA_NAME
from broker.store.disk.options import StoreOptions
from broker.store.message_store import MessageStore
from broker.store.segments.scan import TOPIC_NAMED
from model.errors import ConfigError
from remoting.request_code import RequestCode
from tests.unit.broker.harness import Peer, World, payload_of, records, simulated


def remove_metadata(directory: Path) -> None:
    for path in directory.glob(f"{METADATA_NAME}*"):
        path.unlink()


def empty_metadata(directory: Path) -> None:
    for path in directory.glob(f"{METADATA_NAME}-*"):
        path.unlink()
    (directory / METADATA_NAME).write_bytes(b"")


def copy_of(world: World) -> Path:
    return Path(f"{world.data_dir} {METADATA_NAME}")


async def start(world: World, **options: Any) -> Broker:
    broker = await world.start_broker(**options)
    await world.sleep(0.5)  # clients have to notice before they can connect again
    return broker


async def messages(peer: Peer, topic: str = "t", queue_id: int = 0) -> list[bytes]:
    return [record.payload for record in records(await peer.pull(topic, queue_id))]


async def a_log(world: World, n: int = 3, **options: Any) -> Peer:
    """A broker with n messages in queue 2 of topic `t`, which is stopped again; returns a peer."""
    await start(world, **options)
    peer = world.peer("a")
    await peer.put_topic("t", read=3)
    for number in range(n):
        await peer.send("t", 2, b"%d" % number)
    await world.stop_broker()
    return peer


def payloads(n: int = 3) -> list[bytes]:
    return [payload_of(b"%d" % number) for number in range(n)]


@pytest.mark.parametrize("lose", [remove_metadata, empty_metadata])
@simulated
async def test_a_log_without_its_metadata_is_refused_and_with_the_file_back_everything_is_read(
    world: World, lose: Any
) -> None:
    peer = await a_log(world)
    shutil.copy(world.data_dir / METADATA_NAME, copy_of(world))
    lose(world.data_dir)
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"missing or empty.* put it back, .* start once with --recover-topics"):
            await start(world)
    shutil.copy(copy_of(world), world.data_dir / METADATA_NAME)
    await start(world)
    assert await messages(peer, queue_id=2) == payloads()


@simulated
async def test_metadata_from_before_a_topic_was_made_is_refused(world: World) -> None:
    await start(world)
    await world.stop_broker()
    shutil.copy(world.data_dir / METADATA_NAME, copy_of(world))
    peer = await a_log(world)
    shutil.copy(copy_of(world), world.data_dir / METADATA_NAME)
    with pytest.raises(ConfigError, match=r"older than the messages beside it.* put its newest copy back; or, "):
        await start(world)
    await start(world, recover_topics=True)
    assert await messages(peer, queue_id=2) == payloads()


@simulated
async def test_a_directory_without_messages_needs_no_metadata(world: World) -> None:
    await start(world)
    await world.stop_broker()
    remove_metadata(world.data_dir)
    await start(world)
    assert await world.peer("a").send() == 0


@simulated
async def test_topics_are_recreated_with_all_that_they_had(world: World, caplog: pytest.LogCaptureFixture) -> None:
    peer = await a_log(world)
    await start(world)
    await peer.put_topic("t", read=5, write=4, perm=4)
    await peer.put_topic("u", read=1)
    await peer.send("u")
    before = world.broker.topics.table.existing("t")
    await world.stop_broker()
    remove_metadata(world.data_dir)
    broker = await start(world, recover_topics=True)
    assert broker.topics.table.existing("t") == before
    assert "'t' with 5 queues" in caplog.text
    assert "a group begins where its start offset says" in caplog.text
    assert await messages(peer, queue_id=2) == payloads()
    assert await peer.send("new") == 0
    await world.stop_broker()
    caplog.clear()
    await start(world)
    assert await messages(peer, queue_id=2) == payloads()
    assert "made again" not in caplog.text


@simulated
async def test_retention_deletes_nothing_before_the_next_start_because_no_group_is_known_to_need_it(
    world: World,
) -> None:
    options = {"store": StoreOptions(segment_bytes=1_000), "retention": RetentionOptions(retain_ms=1_000)}
    peer = await a_log(world, 50, **options)
    remove_metadata(world.data_dir)
    await start(world, recover_topics=True, **options)
    await world.sleep(60)
    assert (await messages(peer, queue_id=2))[0] == payloads()[0]
    await world.stop_broker()
    broker = await start(world, **options)
    await world.sleep(60)
    assert broker.store.min_offset(broker.topics.table.existing("t").topic_id, 2) > 0


@simulated
async def test_names_are_found_in_the_newest_segment_however_many_there_are(world: World) -> None:
    options = {"store": StoreOptions(segment_bytes=1_000)}
    peer = await a_log(world, 200, **options)
    assert len(list(world.data_dir.glob("*.log"))) > 10
    remove_metadata(world.data_dir)
    broker = await start(world, recover_topics=True, **options)
    assert broker.store.max_offset(broker.topics.table.existing("t").topic_id, 2) == 200
    assert (await messages(peer, queue_id=2))[0] == payloads()[0]


@simulated
async def test_a_topic_that_was_deleted_is_not_recreated(world: World) -> None:
    peer = await a_log(world)
    await start(world)
    await peer.call(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "t"})
    await peer.send("u")
    await world.stop_broker()
    remove_metadata(world.data_dir)
    broker = await start(world, recover_topics=True)
    assert broker.topics.table.get("t") is None
    assert len(await messages(peer, "u")) == 1


def write_a_log_of_an_earlier_version(directory: Path) -> None:
    """Messages without the names of their topics: two of topic `t`, one of a retry topic, one that is no message."""
    with MessageStore.open(directory, StoreOptions(), lambda: 0) as store:
        for number in range(2):
            store.append(4, 1, payload_of(b"%d" % number), 0)
        store.append(5, 0, payload_of(b"failed"), 0, times_delivered=1)
        store.append(6, 0, b"\xc1", 0)
        store.append(7, 0, payload_of(b"x", topic="no topic's name"), 0)
        store.flush()


@simulated
async def test_in_a_log_of_an_earlier_version_messages_say_their_topic_and_others_are_numbered(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    write_a_log_of_an_earlier_version(world.data_dir)
    with pytest.raises(ConfigError, match=r"number 4, 5, 6, 7\)"):
        await start(world)
    broker = await start(world, recover_topics=True)
    names = broker.topics.table.names()
    assert {number: names[number] for number in (4, 5, 6, 7)} == {
        4: "t",
        5: "recovered-5",
        6: "recovered-6",
        7: "recovered-7",
    }
    assert broker.topics.table.existing("t").config.read_queue_nums == 2
    assert "the log has stored no options of it, so check them" in caplog.text
    peer = world.peer("a")
    assert await messages(peer, queue_id=1) == payloads(2)
    assert await messages(peer, "recovered-5") == [payload_of(b"failed")]


@simulated
async def test_a_damaged_name_is_found_in_an_older_segment(world: World) -> None:
    options = {"store": StoreOptions(segment_bytes=2_000)}
    peer = await a_log(world, 100, **options)
    remove_metadata(world.data_dir)
    newest = max(world.data_dir.glob("*.log"))
    data = bytearray(newest.read_bytes())
    at = data.index(TOPIC_NAMED.to_bytes(2, "big"))
    while at >= 0:
        data[at + 4] ^= 1  # the first byte of the name
        at = data.find(TOPIC_NAMED.to_bytes(2, "big"), at + 1)
    newest.write_bytes(data)
    broker = await start(world, recover_topics=True, **options)
    assert broker.topics.table.existing("t").config.read_queue_nums == 3
    assert (await messages(peer, queue_id=2))[0] == payloads()[0]
