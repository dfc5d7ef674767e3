"""Nobody is answered before what he asked for is written, and a failed write reaches exactly those whom it concerns."""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio

from broker.durability.barrier import WriteBarrier
from broker.durability.metadata import MetadataStore, StoredNumber
from broker.store.disk.options import StoreOptions
from broker.store.message_store import MessageStore
from model.errors import RlabError, StorageFull, SystemError_
from model.response_code import ResponseCode
from remoting.command import REQUEST, Command
from testbed.simulation.kernel.run import Simulation, run_simulation
from tests.unit.broker.harness import FailingDisk

SEND = Command(REQUEST, 10, 1, {}, None)


class Answers:
    """A connection that only notes what it is to send."""

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.errors: list[RlabError] = []
        self.bodies: list[bytes | None] = []

    def respond(self, request: Command, header: dict[str, int], body: bytes | None = None) -> None:
        self.bodies.append(body)
        self.offsets.append(header.get("offset", -1))

    def flush(self) -> None:
        """Nothing is queued here."""

    def respond_error(self, request: Command, error: RlabError, offset: int | list[int] | None = None) -> None:
        self.errors.append(error)


class Turn:
    """A barrier over real stores on a disk that fails when told to.

    Attributes:
        news: queues that were said to have something new, in order.
        outcomes: what callbacks were called with.
    """

    def __init__(self, simulation: Simulation, store: MessageStore, metadata: MetadataStore, disk: FailingDisk) -> None:
        self.store, self.metadata, self.disk = store, metadata, disk
        self.connection = Answers()
        self.news: list[tuple[str, int]] = []
        self.outcomes: list[RlabError | None] = []
        self.barrier = WriteBarrier(
            simulation.loop, store, metadata, lambda topic, queue_id: self.news.append((topic, queue_id))
        )

    def send(self, queue_id: int = 0) -> None:
        offset = self.store.append(1, queue_id, b"payload", 0)
        self.barrier.answer_send(self.connection, SEND, "t", queue_id, offset)  # type: ignore[arg-type]  # a fake

    def commit(self) -> None:
        StoredNumber(self.metadata, "n", replicated=True).save(1)
        self.barrier.after_commit(self.outcomes.append)


def with_a_barrier(test: Callable[[Turn], Awaitable[None]]) -> Callable[[Path], None]:
    """Turn a coroutine into a test that runs it in virtual time."""

    def run(tmp_path: Path) -> None:
        async def main(simulation: Simulation) -> None:
            disk = FailingDisk()
            with (
                MessageStore.open(tmp_path, StoreOptions(), simulation.clock_ms, disk) as store,
                MetadataStore(tmp_path) as metadata,
            ):
                disk.writes = 0
                await test(Turn(simulation, store, metadata, disk))

        run_simulation(main)

    return run


async def next_turn() -> None:
    await anyio.sleep(0.001)


def fail_metadata(turn: Turn) -> None:
    turn.metadata._db.execute("pragma query_only = on")


@with_a_barrier
async def test_the_sends_of_a_turn_are_written_together_and_answered_after_it(turn: Turn) -> None:
    for queue_id in (0, 1, 0):
        turn.send(queue_id)
    assert (turn.connection.offsets, turn.disk.writes) == ([], 0)
    await next_turn()
    # One write for the messages, one for the ends of their queues.
    assert (turn.connection.offsets, turn.disk.writes) == ([0, 0, 1], 2)
    assert turn.news == [("t", 0), ("t", 1)]


@with_a_barrier
async def test_a_turn_without_anything_to_write_writes_nothing(turn: Turn) -> None:
    turn.barrier.metadata_changed()
    await next_turn()
    assert (turn.disk.writes, turn.news) == (0, [])


@with_a_barrier
async def test_a_full_disk_refuses_the_sends_of_the_turn_and_no_commit(turn: Turn) -> None:
    turn.disk.errno = errno.ENOSPC
    turn.send()
    turn.commit()
    turn.barrier.after_append(turn.outcomes.append, "t", 1)
    await next_turn()
    assert [type(error).code for error in turn.connection.errors] == [StorageFull.code]
    refused, committed = turn.outcomes
    assert isinstance(refused, StorageFull)
    assert committed is None
    assert turn.news == []
    turn.disk.errno = None
    turn.send()
    await next_turn()
    assert (turn.connection.offsets, turn.news) == ([0], [("t", 0)])


@with_a_barrier
async def test_a_disk_that_fails_refuses_the_sends_and_says_what_to_check(turn: Turn) -> None:
    turn.disk.errno = errno.EIO
    turn.send()
    await next_turn()
    [error] = turn.connection.errors
    assert error.code is ResponseCode.SERVICE_NOT_AVAILABLE
    assert "check the disk" in str(error)


@with_a_barrier
async def test_when_metadata_cannot_be_written_everything_of_the_turn_is_refused_and_no_message_stays(
    turn: Turn,
) -> None:
    fail_metadata(turn)
    turn.send()
    turn.commit()
    await next_turn()
    assert len(turn.connection.errors) == 1
    assert isinstance(turn.outcomes[0], SystemError_)
    assert (turn.store.max_offset(1, 0), turn.news) == (0, [])
    turn.metadata._db.execute("pragma query_only = off")
    turn.send()
    await next_turn()
    assert (turn.connection.offsets, turn.store.max_offset(1, 0)) == ([0], 1)


@with_a_barrier
async def test_what_a_callback_asks_for_is_written_in_the_next_turn(turn: Turn) -> None:
    def again(failure: RlabError | None) -> None:
        turn.outcomes.append(failure)
        if len(turn.outcomes) < 3:
            turn.barrier.after_commit(again)

    turn.barrier.after_commit(again)
    await next_turn()
    assert turn.outcomes == [None, None, None]


@with_a_barrier
async def test_closing_writes_what_is_left_and_leaves_nothing_for_a_later_turn(turn: Turn) -> None:
    turn.send()
    turn.barrier.close()
    assert turn.connection.offsets == [0]
    StoredNumber(turn.metadata, "n", replicated=True).save(9)
    await next_turn()
    assert turn.metadata._pending


@with_a_barrier
async def test_a_response_leaves_once_the_metadata_is_committed(turn: Turn) -> None:
    StoredNumber(turn.metadata, "n", replicated=True).save(1)
    turn.barrier.respond_after_commit(turn.connection, SEND, {"offset": 7}, b"rows")  # type: ignore[arg-type]  # a fake
    assert turn.connection.bodies == []
    await next_turn()
    assert (turn.connection.offsets, turn.connection.bodies) == ([7], [b"rows"])


@with_a_barrier
async def test_a_response_whose_metadata_cannot_be_committed_is_the_error(turn: Turn) -> None:
    fail_metadata(turn)
    StoredNumber(turn.metadata, "n", replicated=True).save(1)
    turn.barrier.respond_after_commit(turn.connection, SEND, {"offset": 7})  # type: ignore[arg-type]  # a fake
    await next_turn()
    assert turn.connection.bodies == []
    assert [type(error) for error in turn.connection.errors] == [SystemError_]


@with_a_barrier
async def test_a_disk_fails_once_it_has_taken_no_write_for_some_time_and_one_write_in_between_restarts_that_time(
    turn: Turn,
) -> None:
    ended = anyio.Event()

    async def wait() -> None:
        await turn.barrier.wait_failing(1.0)
        ended.set()

    async def send_for(seconds: float) -> None:
        until = anyio.current_time() + seconds
        while anyio.current_time() < until:
            turn.send()
            await anyio.sleep(0.1)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        for error in (None, errno.ENOSPC, None):
            turn.disk.errno = error
            await send_for(0.9)
        assert not ended.is_set()
        turn.disk.errno = errno.EIO
        await send_for(1.2)
        assert ended.is_set()
        turn.disk.errno = None
