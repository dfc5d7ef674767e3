"""One sync serves everybody who waits, nobody is called back before it, and after a failed one nobody succeeds."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from unittest.mock import patch

import anyio
import anyio.lowlevel

from broker.durability.group_commit import GroupCommit
from broker.store.disk.errors import StoreSyncFailed
from broker.store.disk.options import StoreOptions
from broker.store.disk.watch import DiskWatch
from broker.store.message_store import MessageStore
from model.errors import RlabError
from tests.unit.broker.store.disk.faulty_files import FaultyFiles


class SlowDisk(FaultyFiles):
    """A disk whose syncs wait until the test lets them go on."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = Event()
        self.go_on.set()

    def sync(self, fd: int) -> None:
        assert self.go_on.wait(10)
        super().sync(fd)

    @contextmanager
    def stuck(self) -> Iterator[None]:
        self.go_on.clear()
        try:
            yield
        finally:
            self.go_on.set()


class Waiters:
    """Callers of one group commit over a real store.

    Attributes:
        told: number of the caller, and what it was told, in order.
    """

    def __init__(self, store: MessageStore, disk: SlowDisk) -> None:
        self.store, self.disk = store, disk
        loop = asyncio.get_running_loop()
        self.group_commit = GroupCommit(loop, store, DiskWatch(loop, "here"))
        self.reported: list[tuple[int, RlabError | None]] = []
        self.count = 0
        self._all_notified = asyncio.Event()

    def write(self) -> None:
        """Write a message, and wait for it."""
        number, self.count = self.count, self.count + 1
        self._all_notified.clear()
        self.store.append(1, 0, b"payload", 0)
        self.store.flush()
        self.group_commit.wait(lambda failure: self._notify(number, failure))

    def _notify(self, number: int, failure: RlabError | None) -> None:
        self.reported.append((number, failure))
        if len(self.reported) == self.count:
            self._all_notified.set()

    async def wait_notified(self) -> None:
        with anyio.fail_after(10):
            await self._all_notified.wait()

    async def wait_idle(self) -> None:
        """Wait until no thread has anything to do, nor has brought anything."""
        await asyncio.get_running_loop().shutdown_default_executor()
        await anyio.lowlevel.checkpoint()


def with_waiters(test: Callable[[Waiters], Awaitable[None]]) -> Callable[[Path], None]:
    """Turn a coroutine into a test; the threads are real, as they are what it is about."""

    def run(tmp_path: Path) -> None:
        async def main() -> None:
            asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
            disk = SlowDisk()
            store = MessageStore.open(tmp_path, StoreOptions(), lambda: 0, disk)
            store.show_only_synced()
            disk.calls.clear()
            try:
                await test(Waiters(store, disk))
            finally:
                store.close()

        asyncio.run(main())

    return run


@with_waiters
async def test_anyone_who_comes_while_a_sync_runs_shares_the_next_one(waiters: Waiters) -> None:
    with waiters.disk.stuck():
        for _ in range(65):
            waiters.write()
        await anyio.lowlevel.checkpoint()
        assert waiters.reported == []
        assert waiters.store.max_offset(1, 0) == 0
    await waiters.wait_notified()
    assert waiters.reported == [(number, None) for number in range(65)]
    assert waiters.disk.calls["sync"] == 2
    assert waiters.store.max_offset(1, 0) == 65


@with_waiters
async def test_those_who_write_again_as_soon_as_they_are_answered_stay_together(waiters: Waiters) -> None:
    rounds = 20

    tell = waiters._notify

    def notify_and_write_again(number: int, failure: RlabError | None) -> None:
        tell(number, failure)
        if waiters.count < 8 * rounds:
            asyncio.get_running_loop().call_soon(waiters.write)

    with patch.object(waiters, "_notify", notify_and_write_again):
        for _ in range(8):
            waiters.write()
        while len(waiters.reported) < 8 * rounds:
            await waiters.wait_notified()
    # The first sync is for the first alone; from then on each is for all eight, not for one and seven in turns.
    assert waiters.disk.calls["sync"] <= rounds + 3


@with_waiters
async def test_a_lone_waiter_needs_one_sync_and_an_idle_store_none(waiters: Waiters) -> None:
    waiters.write()
    await waiters.wait_notified()
    await waiters.wait_idle()
    assert (waiters.reported, waiters.disk.calls["sync"]) == ([(0, None)], 1)


@with_waiters
async def test_a_sync_that_fails_notifies_those_it_was_for_and_those_who_came_in_between(waiters: Waiters) -> None:
    with waiters.disk.stuck():
        waiters.write()
        waiters.write()
        waiters.disk.failing["sync"] = errno.EIO
    await waiters.wait_notified()
    assert [(number, type(failure)) for number, failure in waiters.reported] == [
        (0, StoreSyncFailed),
        (1, StoreSyncFailed),
    ]
    assert not any(failure.definite for _, failure in waiters.reported if failure is not None)
    assert waiters.store.max_offset(1, 0) == 0
    waiters.disk.failing.clear()


@with_waiters
async def test_a_sync_that_cannot_begin_leaves_the_effect_open_and_the_next_one_makes_up_for_it(
    waiters: Waiters,
) -> None:
    waiters.disk.failing["duplicate"] = errno.EMFILE
    waiters.write()
    [(_, failure)] = waiters.reported
    assert isinstance(failure, StoreSyncFailed)
    assert not failure.definite
    waiters.disk.failing.clear()
    waiters.write()
    await waiters.wait_notified()
    assert waiters.reported[1:] == [(1, None)]
    assert waiters.store.max_offset(1, 0) == 2  # what could not be synced then is durable now


@with_waiters
async def test_closing_waits_for_the_thread_and_notifies_everyone_once(waiters: Waiters) -> None:
    with waiters.disk.stuck():
        waiters.write()
        waiters.write()
    waiters.group_commit.close()
    assert waiters.reported == [(0, None), (1, None)]
    waiters.group_commit.close()
    await waiters.wait_idle()
    assert len(waiters.reported) == 2
