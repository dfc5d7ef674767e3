"""A broker that was killed on a full disk starts: it serves reads and commits, refuses sends, and makes room."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from broker.durability.metadata import MetadataStore
from broker.retention.plan import RetentionOptions
from broker.store.disk.files import Files
from broker.store.disk.options import StoreOptions
from broker.store.disk.reserve import RESERVE_NAME
from model.errors import StorageFull
from model.limits import RESERVE_CHECK_S, RETENTION_INTERVAL_S
from tests.unit.broker.harness import Peer, World, consumer, records, simulated

RESERVE_BYTES = 100_000
STORE = StoreOptions(segment_bytes=10_000, reserve_bytes=RESERVE_BYTES)
HOUR_MS = 3600 * 1000


class SmallDisk(Files):
    """A disk with `capacity` bytes for the files of a directory, without those that SQLite writes itself."""

    def __init__(self, directory: Path, capacity: int) -> None:
        self.directory = directory
        self.capacity = capacity
        self._paths: dict[int, Path] = {}

    @property
    def used(self) -> int:
        return sum(path.stat().st_size for path in self.directory.iterdir() if not path.name.startswith("metadata"))

    def _check(self, fd: int, end: int) -> None:
        if self.used + max(0, end - self.size(fd)) > self.capacity:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def pwrite(self, fd: int, data: bytes | memoryview, position: int) -> int:
        self._check(fd, position + len(data))
        return super().pwrite(fd, data, position)

    def allocate(self, fd: int, size: int) -> None:
        self._check(fd, size)
        super().allocate(fd, size)


async def fill(peer: Peer) -> int:
    """Send until the disk is full; returns how many messages were stored."""
    for sent in range(1_000):
        try:
            await peer.send(body=b"x" * 1_000)
        except StorageFull:
            return sent
    raise AssertionError("the disk is not full")


async def killed_on_a_full_disk(world: World) -> tuple[Peer, int, SmallDisk]:
    """A broker whose data directory is as the kill left it, with how many messages are in it, and its disk."""
    disk = SmallDisk(world.data_dir, 300_000)
    await world.start_broker(files=disk, store=STORE)
    peer = world.peer("a")
    await peer.put_topic(read=1)
    sent = await fill(peer)
    await peer.heartbeat(consumer())
    copy = Path(f"{world.data_dir} at the kill")
    shutil.copytree(world.data_dir, copy)
    await world.stop_broker()
    world.data_dir = disk.directory = copy
    disk.capacity = disk.used
    return peer, sent, disk


@simulated
async def test_it_starts_serves_reads_and_commits_and_refuses_sends_until_retention_has_made_room(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    peer, sent, disk = await killed_on_a_full_disk(world)
    assert (world.data_dir / RESERVE_NAME).stat().st_size == RESERVE_BYTES
    assert 150 < sent < 200
    broker = await world.start_broker(files=disk, store=STORE, retention=RetentionOptions(retain_ms=HOUR_MS))
    await world.sleep(0.5)
    assert "the disk is full: it serves reads and commits, and refuses sends until" in caplog.text
    assert not (world.data_dir / RESERVE_NAME).exists()
    for _ in range(20):
        with pytest.raises(StorageFull, match="only the room that is kept for commits"):
            await peer.send(body=b"x" * 1_000)
    assert records(await peer.pull(offset=sent - 1))[0].queue_offset == sent - 1
    await peer.heartbeat(consumer())
    assert await peer.commit(sent, await peer.token_of(0)) == []
    await world.sleep(3600 + RETENTION_INTERVAL_S + RESERVE_CHECK_S)
    assert (world.data_dir / RESERVE_NAME).stat().st_size == RESERVE_BYTES
    assert "there is room on the disk again" in caplog.text
    assert await world.peer("b").send() == sent
    assert broker.store.min_offset(broker.topics.table.existing("t").topic_id, 0) > 100


@simulated
async def test_without_a_reserve_it_would_not_start(world: World) -> None:
    _, _, disk = await killed_on_a_full_disk(world)
    disk.capacity = disk.used - RESERVE_BYTES  # as if somebody else had taken the reserve
    with pytest.raises(Exception, match="No space left"):
        await world.start_broker(files=disk, store=STORE)


@simulated
async def test_commits_that_find_no_room_use_the_reserve_and_sends_are_refused(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    class OneDisk(Files):
        """Removing the reserve is what gives the database room."""

        def remove(self, path: Path) -> None:
            super().remove(path)
            if path.name == RESERVE_NAME and is_open:
                set_room(broker.metadata, 10_000)

    await world.start_broker()
    await world.stop_broker()
    is_open = False
    broker = await world.start_broker(files=OneDisk(), store=STORE)
    is_open = True
    set_room(broker.metadata, 0)
    peer = world.peer("a")
    for number in range(100):
        await peer.put_topic(f"{number:050}")
    assert "the disk is full: it serves reads and commits" in caplog.text
    with pytest.raises(StorageFull):
        await peer.send(f"{0:050}")
    await world.sleep(RESERVE_CHECK_S + 1)
    assert await peer.send(f"{0:050}") == 0


def set_room(metadata: MetadataStore, pages: int) -> None:
    """Let the database grow by some pages and no more."""
    (used,) = metadata._db.execute("pragma page_count").fetchone()
    metadata._db.execute(f"pragma max_page_count = {used + pages}")
