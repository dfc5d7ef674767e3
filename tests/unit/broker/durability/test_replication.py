"""Flushes that wait for replicas; tests/property/test_replication.py compares them with a twin."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio

from broker.durability.barrier import WriteBarrier
from broker.durability.changes import RowChange
from broker.durability.metadata import MetadataStore, StoredNumber
from broker.feature import ReplicatingFeature
from broker.store.disk.options import StoreOptions
from broker.store.message_store import MessageStore
from model.errors import NotMaster, ReplicationTimeout, RlabError
from model.record import FlushMode
from testbed.simulation.kernel.run import Simulation, run_simulation


class ReplicatorByHand(ReplicatingFeature):
    """Attributes:
    offers: the changes of each flush that was offered.
    committed_n: flushes that count as committed.
    is_alone: whether each flush is committed at once, as in a set of one.
    refused: what `refusal` returns.
    has_lease: what `may_serve` returns.
    """

    def __init__(self, *, is_alone: bool = False) -> None:
        self.offers: list[list[RowChange]] = []
        self.committed_n = 0
        self.is_alone = is_alone
        self.refused: RlabError | None = None
        self.has_lease = True
        self._on_committed: Callable[[int], None] = lambda n: None
        self._on_ended: Callable[[NotMaster], None] = lambda error: None

    def begin(self, on_committed: Callable[[int], None], on_ended: Callable[[NotMaster], None]) -> None:
        self._on_committed, self._on_ended = on_committed, on_ended

    def may_serve(self) -> bool:
        return self.has_lease

    def refusal(self) -> RlabError | None:
        return self.refused

    def offer(self, changes: list[RowChange]) -> int:
        self.offers.append(changes)
        if self.is_alone:
            self.commit()
        return len(self.offers)

    def commit(self, n: int | None = None) -> None:
        """Commit the flushes up to n, or all."""
        self.committed_n = len(self.offers) if n is None else n
        self._on_committed(self.committed_n)

    def end(self) -> None:
        """Another replica is the master."""
        self._on_ended(NotMaster("replica 2 is the master of epoch 2", "10.0.0.2:10911", 2))


class Set:
    """A barrier with a replicator, whose start is committed."""

    def __init__(self, simulation: Simulation, store: MessageStore, metadata: MetadataStore) -> None:
        self.store, self.metadata, self.loop = store, metadata, simulation.loop
        self.number = StoredNumber(metadata, "n", replicated=True)
        self.local = StoredNumber(metadata, "here", replicated=False)
        self.news: list[int] = []
        self.outcomes: list[RlabError | None] = []
        self.barrier = WriteBarrier(
            simulation.loop, store, metadata, lambda topic, queue_id: self.news.append(queue_id)
        )
        self.replicator = ReplicatorByHand()
        self.barrier.replicate(self.replicator)
        self.replicator.commit()

    def append(self) -> None:
        self.store.append(1, 0, b"payload", 0)
        self.barrier.after_append(self.outcomes.append, "t", 0)


def with_a_set(test: Callable[[Set], Awaitable[None]]) -> Callable[[Path], None]:
    """Turn a coroutine into a test that runs it in virtual time."""

    def run(tmp_path: Path) -> None:
        async def main(simulation: Simulation) -> None:
            with (
                MessageStore.open(tmp_path, StoreOptions(), simulation.clock_ms) as store,
                MetadataStore(tmp_path) as metadata,
            ):
                await test(Set(simulation, store, metadata))

        run_simulation(main)

    return run


@with_a_set
async def test_a_flush_has_the_replicated_changes_and_one_without_any_is_not_offered(replicas: Set) -> None:
    replicas.number.save(7)
    replicas.local.save(9)
    replicas.barrier.metadata_changed()
    await anyio.sleep(0.01)
    replicas.local.save(10)
    replicas.barrier.after_commit(replicas.outcomes.append)
    await anyio.sleep(0.01)
    _, changes = replicas.replicator.offers
    assert [(change.table, change.values) for change in changes] == [("numbers", ("n", 7))]
    assert replicas.outcomes == [], "it waits for what was offered before"
    replicas.replicator.commit()
    assert replicas.outcomes == [None]


@with_a_set
async def test_a_callback_that_changes_tables_waits_however_long_it_takes_and_its_messages_are_seen_then(
    replicas: Set,
) -> None:
    replicas.append()
    await anyio.sleep(3600)
    assert (replicas.outcomes, replicas.news, replicas.store.max_offset(1, 0)) == ([], [], 0)
    replicas.replicator.commit()
    assert (replicas.outcomes, replicas.news, replicas.store.max_offset(1, 0)) == ([None], [0], 1)


@with_a_set
async def test_the_end_leaves_what_waits_in_doubt_and_refuses_what_comes_then(replicas: Set) -> None:
    replicas.append()
    await anyio.sleep(0.01)
    replicas.replicator.end()
    replicas.replicator.end()
    replicas.replicator.commit()
    replicas.append()
    replicas.number.save(8)
    await anyio.sleep(0.01)
    assert [type(outcome) for outcome in replicas.outcomes] == [ReplicationTimeout, NotMaster]
    assert (replicas.store.max_offset(1, 0), replicas.number.read()) == (0, 0)
    assert not await replicas.barrier.wait_committed(1.0)


@with_a_set
async def test_without_the_lease_not_even_what_wrote_nothing_is_answered(replicas: Set) -> None:
    replicas.barrier.after_commit(replicas.outcomes.append)
    replicas.replicator.has_lease = False  # the process stood still before the end of the iteration
    await anyio.sleep(0.01)
    assert (replicas.outcomes, replicas.replicator.offers[1:]) == ([], [[]])
    replicas.replicator.has_lease = True
    replicas.replicator.commit()
    assert replicas.outcomes == [None]


@with_a_set
async def test_what_the_replicas_have_is_not_answered_after_a_sync_during_which_the_lease_has_ended(
    replicas: Set,
) -> None:
    store, outcomes, loop = replicas.store, replicas.outcomes, replicas.loop
    store.show_only_synced()
    barrier = WriteBarrier(loop, store, replicas.metadata, lambda topic, queue_id: None, FlushMode.SYNC)
    replicator = ReplicatorByHand()
    barrier.replicate(replicator)
    loop.blocking_s = 1.0
    store.append(1, 0, b"payload", 0)
    barrier.after_append(outcomes.append, "t", 0)
    await anyio.sleep(0.1)
    replicator.commit()
    replicator.has_lease = False
    await anyio.sleep(1.0)
    assert (outcomes, store.max_offset(1, 0)) == ([], 0)
    store.append(1, 0, b"payload", 0)
    barrier.after_append(outcomes.append, "t", 0)
    await anyio.sleep(0.1)
    assert (outcomes, store.max_offset(1, 0)) == ([], 0)
    replicator.has_lease = True
    replicator.commit()
    assert (outcomes, store.max_offset(1, 0)) == ([None], 1)
    await anyio.sleep(1.0)
    assert (outcomes, store.max_offset(1, 0)) == ([None, None], 2)


@with_a_set
async def test_waiting_ends_when_everything_so_far_is_committed_or_the_time_is_over(replicas: Set) -> None:
    replicas.append()
    assert not await replicas.barrier.wait_committed(1.0)
    async with anyio.create_task_group() as tasks:

        async def commit_later() -> None:
            await anyio.sleep(0.5)
            replicas.replicator.commit()

        tasks.start_soon(commit_later)
        assert await replicas.barrier.wait_committed(1.0)


@with_a_set
async def test_a_barrier_that_is_closed_leaves_nothing_waiting(replicas: Set) -> None:
    replicas.append()
    replicas.barrier.close()
    assert [type(outcome) for outcome in replicas.outcomes] == [ReplicationTimeout]
    replicas.replicator.commit()
    replicas.append()
    replicas.barrier.close()
    assert len(replicas.outcomes) == 2
