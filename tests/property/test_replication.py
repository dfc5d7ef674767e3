"""The barrier of a broker with replicas against a naive twin: who is answered when, and what readers see (I7)."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from hypothesis import example, given, settings
from hypothesis import strategies as st

from broker.durability.barrier import WriteBarrier
from broker.durability.metadata import MetadataStore, StoredNumber
from broker.store.disk.options import StoreOptions
from broker.store.message_store import MessageStore
from model.errors import NotEnoughReplicas, NotMaster, ReplicationTimeout, RlabError
from model.record import FlushMode
from model.replica_limits import REPLICATION_TIMEOUT_S
from remoting.command import REQUEST, Command
from testbed.simulation.kernel.run import Simulation, run_simulation
from tests.unit.broker.durability.test_replication import ReplicatorByHand

QUEUES = range(2)
REQUESTS = st.sampled_from(["send", "append", "respond", "commit", "rows"])
STEPS = st.one_of(
    st.lists(st.tuples(REQUESTS, st.sampled_from(QUEUES)), min_size=1, max_size=4),  # what comes in one turn
    st.integers(0, 3),  # so many more flushes are committed
    st.sampled_from([0.1, 1.0, REPLICATION_TIMEOUT_S]),  # so much time passes
    st.booleans(),  # whether it has the lease
    st.just("end"),
)


@dataclass
class TranslatedRequest:
    """A request or callback that waits, and its outcomes with the moment of each."""

    kind: str
    queue_id: int = 0
    n: int = 0
    at: float = 0.0
    outcomes: list[tuple[float, RlabError | None]] = field(default_factory=list)


class World:
    """A barrier over real stores; each answer is checked against what is committed and synced at that moment."""

    def __init__(self, simulation: Simulation, store: MessageStore, metadata: MetadataStore, flush: FlushMode) -> None:
        self.loop, self.store, self.flush = simulation.loop, store, flush
        self.number = StoredNumber(metadata, "n", replicated=True)
        self.value = 0
        self.replicator = ReplicatorByHand()
        self.barrier = WriteBarrier(self.loop, store, metadata, self.has_news, flush)
        self.positions: dict[int, int] = {}
        self.asked: list[TranslatedRequest] = []
        self.answered: list[TranslatedRequest] = []  # without an error, in this order
        self.is_ended = False

    def has_news(self, topic: str, queue_id: int) -> None:
        assert self.store.max_offset(1, queue_id) > 0, "woken for nothing to read"

    def ask(self, kind: str, queue_id: int) -> None:
        asked, barrier = TranslatedRequest(kind, queue_id), self.barrier
        self.asked.append(asked)
        connection: Any = Connection(self, asked)
        request = Command(REQUEST, 10, 1, {}, None)
        if kind in ("send", "append"):
            offset = self.store.append(1, queue_id, b"payload", 0)
            if kind == "send":
                barrier.answer_send(connection, request, "t", queue_id, offset)
            else:
                barrier.after_append(lambda failure: self.outcome(asked, failure), "t", queue_id)
        elif kind == "respond":
            self.change_rows()
            barrier.respond_after_commit(connection, request)
        else:
            if kind == "rows":
                self.change_rows()
            barrier.after_commit(lambda failure: self.outcome(asked, failure))

    def change_rows(self) -> None:
        self.value += 1
        self.number.save(self.value)

    def outcome(self, asked: TranslatedRequest, failure: RlabError | None) -> None:
        asked.outcomes.append((self.loop.time(), failure))
        if failure is None:
            self.answered.append(asked)
            assert asked.n <= self.replicator.committed_n
            assert self.replicator.has_lease
            if self.flush is FlushMode.SYNC and asked.kind in ("send", "append"):
                assert self.store.synced_position >= self.positions[asked.n]

    async def turn(self, requests: list[tuple[str, int]]) -> None:
        before, written = len(self.replicator.offers), self.store.written_position
        new = len(self.asked)
        for request in requests:
            self.ask(*request)
        self.barrier._flush()  # in this moment, and not after the iteration, so that commits may come before the sync
        n = len(self.replicator.offers)
        has_written = any(kind != "commit" for kind, _ in requests)
        assert n == before + (not self.is_ended and (has_written or not self.replicator.has_lease))
        if self.is_ended:
            assert self.store.written_position == written
        self.positions[n] = self.store.written_position
        for asked in self.asked[new:]:
            asked.n, asked.at = 0 if self.is_ended else n, self.loop.time()

    def check(self) -> None:
        committed = self.replicator.committed_n
        for queue_id in QUEUES:
            sent = [each for each in self.asked if each.kind in ("send", "append") and each.queue_id == queue_id]
            assert self.store.max_offset(1, queue_id) == sum(0 < each.n <= committed for each in sent)
        assert [each.n for each in self.answered] == sorted(each.n for each in self.answered)
        for each in self.asked:
            assert len(each.outcomes) <= 1
        start = TranslatedRequest("start", n=1)
        is_late = any(self.is_late(each) for each in (start, *self.asked))
        refusal = self.barrier.replication.refusal(appends=True) if self.barrier.replication else None
        expected = NotMaster if self.is_ended else NotEnoughReplicas if is_late else type(None)
        assert isinstance(refusal, expected)

    def is_late(self, each: TranslatedRequest) -> bool:
        return each.n > self.replicator.committed_n and self.loop.time() >= each.at + REPLICATION_TIMEOUT_S


class Connection:
    """Notes the answer of one request."""

    def __init__(self, world: World, asked: TranslatedRequest) -> None:
        self.world, self.asked = world, asked

    def respond(self, request: Command, header: Any, body: bytes | None = None) -> None:
        self.world.outcome(self.asked, None)

    def respond_error(self, request: Command, error: RlabError, offset: int | list[int] | None = None) -> None:
        self.world.outcome(self.asked, error)

    def flush(self) -> None:
        """Nothing is queued here."""


async def run(world: World, steps: list[Any]) -> None:
    world.barrier.replicate(world.replicator)
    ended_n = 0
    for step in steps:
        match step:
            case list():
                await world.turn(step)
                continue  # a commit may come before the sync
            case "end":
                world.is_ended, ended_n = True, ended_n or world.replicator.committed_n
                world.replicator.end()
            case bool():
                await anyio.sleep(0.01)  # what is committed is synced too
                world.replicator.has_lease = step or world.replicator.is_alone
            case int() if not world.is_ended and world.replicator.has_lease:
                n = min(world.replicator.committed_n + step, len(world.replicator.offers))
                world.replicator.commit(n)
                await anyio.sleep(0.01)
            case float():
                await anyio.sleep(step)
        await anyio.sleep(0.01)
        world.check()
    await anyio.sleep(0.01)
    world.check()
    world.barrier.close()
    committed = world.replicator.committed_n
    for each in world.asked:
        [(at, failure)] = each.outcomes
        waited = each.n > committed or world.is_ended
        match failure:
            case None:
                assert each.n <= committed
            case NotMaster():
                assert failure.definite
                assert world.is_ended
            case ReplicationTimeout():
                is_plain = each.kind in ("send", "respond")
                assert waited or (is_plain and at >= each.at + REPLICATION_TIMEOUT_S)
                assert at - each.at <= REPLICATION_TIMEOUT_S + 0.001 or not is_plain
            case _:
                raise AssertionError(failure)


@example([1, False, [("commit", 0)], True, 1], FlushMode.ASYNC, False)  # it wrote nothing, and waits for the lease
@example([[("send", 0)], [("rows", 0)], 0.1], FlushMode.SYNC, True)  # the rows wait for the sync of the send
@settings(max_examples=60)
@given(st.lists(STEPS, max_size=14), st.sampled_from(FlushMode), st.booleans())
def test_answers_leave_in_order_when_a_flush_is_committed_and_readers_see_no_more_than_that(
    steps: list[Any], flush: FlushMode, is_alone: bool
) -> None:
    async def main(simulation: Simulation) -> None:
        with (
            tempfile.TemporaryDirectory() as directory,
            MessageStore.open(Path(directory), StoreOptions(), simulation.clock_ms) as store,
            MetadataStore(Path(directory)) as metadata,
        ):
            if flush is FlushMode.SYNC:
                store.show_only_synced()
            world = World(simulation, store, metadata, flush)
            world.replicator.is_alone = is_alone
            await run(world, steps)

    run_simulation(main)
