"""What sinks stage is published with its batch, once, however often it is asked for and whenever the broker dies."""

from __future__ import annotations

import errno
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import msgpack
import pytest

from broker.store.disk.files import Files
from model.errors import InvalidParameter, MessageIllegal, NoPermission, RlabError, StageLost, StorageFull, SystemBusy
from model.limits import ONLY_BATCH_KEPT_S, STAGE_EXPIRY_S
from model.names import STAGE_TOPIC
from model.record import SINK_FLAG, StoredRecord
from model.topic_route import MessageType
from remoting.request_code import RequestCode
from tests.unit.broker.harness import FailingDisk, Peer, World, payload_of, records, simulated

QUERY = "q-1"


def batch(batch_id: int = 0, query: str = QUERY) -> dict[str, Any]:
    return {"query_id": query, "batch_id": batch_id}


async def stage(
    peer: Peer,
    numbers: range,
    *,
    batch_id: int = 0,
    partition: int = 0,
    attempt: int = 0,
    seq: int = 0,
    queues: int = 3,
) -> int:
    header = {**batch(batch_id), "partition": partition, "attempt": attempt, "seq": seq}
    body = [["t", n % queues, 0, payload_of(b"%d" % n)] for n in numbers]
    answer = await peer.call(RequestCode.SINK_STAGE, header, body)
    return int(answer.header["n"])


async def commit(peer: Peer, *wanted: tuple[int, int, int], batch_id: int = 0, **more: bool) -> bool:
    answer = await peer.call(RequestCode.SINK_COMMIT, {**batch(batch_id), **more}, wanted)
    return bool(answer.header["published"])


async def stored(peer: Peer, queue_id: int) -> list[StoredRecord]:
    """Everything in a queue."""
    found: list[StoredRecord] = []
    while more := records(await peer.pull(queue_id=queue_id, offset=len(found))):
        found += more
    return found


async def published(peer: Peer, queues: int = 3) -> list[list[int]]:
    """The numbers in each queue, in order."""
    return [[_number(record) for record in await stored(peer, queue_id)] for queue_id in range(queues)]


def _number(record: StoredRecord) -> int:
    payload: Any = msgpack.unpackb(record.payload)
    return int(payload[1])


def expected(numbers: range, queues: int = 3) -> list[list[int]]:
    return [[n for n in numbers if n % queues == queue_id] for queue_id in range(queues)]


async def started(world: World, **options: Any) -> Peer:
    await world.start_broker(**options)
    peer = world.peer("driver")
    await peer.put_topic("t", 3)
    return peer


@simulated
async def test_what_is_staged_is_seen_by_no_one_before_its_commit_and_by_everyone_after(world: World) -> None:
    peer = await started(world)
    assert await stage(peer, range(9)) == 9
    assert await published(peer) == [[], [], []]
    assert await commit(peer, (0, 0, 9))
    assert await published(peer) == expected(range(9))


@simulated
async def test_only_the_attempts_that_the_commit_names_are_published_in_the_order_of_partitions(world: World) -> None:
    peer = await started(world)
    await stage(peer, range(6, 12), partition=1)
    await stage(peer, range(100, 105), partition=0, attempt=0)
    await stage(peer, range(3), partition=0, attempt=1, seq=0)
    await stage(peer, range(3, 6), partition=0, attempt=1, seq=1)
    assert await commit(peer, (1, 0, 6), (0, 1, 6))
    assert await published(peer) == expected(range(12))
    assert len(world.broker.sink.table) == 0, "the attempt that was not named is dropped"


@simulated
async def test_a_batch_is_published_once_however_often_it_is_committed(world: World) -> None:
    peer = await started(world)
    await stage(peer, range(9))
    first, second = [await peer.begin(RequestCode.SINK_COMMIT, batch(), [(0, 0, 9)]) for _ in range(2)]
    assert ((await first).header, (await second).header) == ({"published": True}, {"published": True})
    assert not await commit(peer, (0, 0, 9))
    await world.stop_broker()
    await world.sleep(1)  # until the peer has heard of it
    await world.start_broker()
    assert not await commit(peer, (0, 0, 9))
    assert await published(peer) == expected(range(9))


@simulated
async def test_what_is_staged_again_for_a_published_batch_goes_with_its_commit(world: World) -> None:
    peer = await started(world)
    await stage(peer, range(3))
    await commit(peer, (0, 0, 3))
    await stage(peer, range(3), attempt=7)
    assert not await commit(peer, (0, 7, 3))
    assert len(world.broker.sink.table) == 0
    await world.stop_broker()
    await world.sleep(1)  # until the peer has heard of it
    await world.start_broker()
    assert len(world.broker.sink.table) == 0


@simulated
async def test_a_query_of_one_batch_is_soon_forgotten_and_others_are_not(world: World) -> None:
    peer = await started(world)
    await stage(peer, range(3))
    assert await commit(peer, (0, 0, 3), is_only=True)
    await peer.call(RequestCode.SINK_COMMIT, batch(0, "stream"), [])
    await world.sleep(ONLY_BATCH_KEPT_S - 1200)
    assert not await commit(peer, (0, 0, 3), is_only=True)
    await world.sleep(2400)
    last_batch = world.broker.sink.table.last_batch
    assert (last_batch(QUERY), last_batch("stream")) == (-1, 0)


@simulated
async def test_an_older_batch_and_another_query_are_distinguished(world: World) -> None:
    peer = await started(world)
    await stage(peer, range(3), batch_id=5)
    await commit(peer, (0, 0, 3), batch_id=5)
    assert not await commit(peer, (0, 0, 99), batch_id=4)
    with pytest.raises(StageLost):
        await peer.call(RequestCode.SINK_COMMIT, batch(5, "another"), [(0, 0, 3)])


@simulated
async def test_a_chunk_that_is_sent_again_is_kept_once(world: World) -> None:
    peer = await started(world)
    assert [await stage(peer, range(3)) for _ in range(3)] == [3, 3, 3]
    await commit(peer, (0, 0, 3))
    assert await published(peer) == expected(range(3))


@simulated
async def test_a_commit_that_names_more_than_is_staged_publishes_nothing(world: World) -> None:
    peer = await started(world)
    await stage(peer, range(3))
    with pytest.raises(StageLost, match="attempt 0 of partition 0 has 3 messages staged here, not 4"):
        await commit(peer, (0, 0, 4))
    with pytest.raises(StageLost, match="attempt 1 of partition 0 has 0 messages"):
        await commit(peer, (0, 0, 3), (0, 1, 1))
    assert await published(peer) == [[], [], []]
    assert await commit(peer, (0, 0, 3))


@simulated
async def test_an_empty_batch_is_a_batch(world: World) -> None:
    peer = await started(world)
    assert await commit(peer)
    assert not await commit(peer)


@simulated
async def test_what_was_aborted_cannot_be_committed_and_what_is_published_cannot_be_aborted(world: World) -> None:
    peer = await started(world)
    await stage(peer, range(3))
    answer = await peer.call(RequestCode.SINK_ABORT, batch())
    assert answer.header == {"dropped": 1}
    with pytest.raises(StageLost):
        await commit(peer, (0, 0, 3))
    await stage(peer, range(3))
    committed = await peer.begin(RequestCode.SINK_COMMIT, batch(), [(0, 0, 3)])
    assert (await peer.call(RequestCode.SINK_ABORT, batch())).header == {"dropped": 0}
    assert (await committed).header == {"published": True}
    assert await published(peer) == expected(range(3))


@simulated
async def test_stages_that_no_one_commits_are_dropped_by_age_also_after_a_restart(world: World) -> None:
    peer = await started(world)
    await stage(peer, range(3))
    await world.stop_broker()
    await world.sleep(1)  # until the peer has heard of it
    await world.start_broker()
    await world.sleep(STAGE_EXPIRY_S / 2)
    await stage(peer, range(3), batch_id=1)
    assert len(world.broker.sink.table) == 2
    await world.sleep(STAGE_EXPIRY_S / 2 + 1200)
    assert len(world.broker.sink.table) == 1
    assert await commit(peer, (0, 0, 3), batch_id=1)


@simulated
async def test_stages_survive_a_restart_and_hold_their_segments(world: World) -> None:
    peer = await started(world)
    await stage(peer, range(30))
    stage_id = world.broker.topics.table.existing(STAGE_TOPIC).topic_id
    assert world.broker.sink.needed_from() == {(stage_id, 0): 0}
    await world.stop_broker()
    await world.sleep(1)  # until the peer has heard of it
    await world.start_broker()
    assert world.broker.sink.needed_from() == {(stage_id, 0): 0}
    assert await commit(peer, (0, 0, 30))
    assert world.broker.sink.needed_from() == {}
    assert await published(peer) == expected(range(30))


@simulated
async def test_batches_of_several_queries_are_published_one_after_the_other_beside_ordinary_sends(world: World) -> None:
    peer = await started(world)
    for query in ("a", "b", "c"):
        header = {**batch(0, query), "partition": 0, "attempt": 0, "seq": 0}
        body = [["t", 0, 0, payload_of(b"%d" % n)] for n in range(50)]
        await peer.call(RequestCode.SINK_STAGE, header, body)
    commits = [await peer.begin(RequestCode.SINK_COMMIT, batch(0, q), [(0, 0, 50)]) for q in ("a", "b", "c")]
    offsets = [await peer.send(body=b"%d" % n) for n in range(100, 110)]
    assert [(await answer).header for answer in commits] == [{"published": True}] * 3
    assert len(set(offsets)) == 10
    numbers = (await published(peer, 1))[0]
    assert Counter(n for n in numbers if n < 100) == Counter({n: 3 for n in range(50)})
    assert [n for n in numbers if n >= 100] == list(range(100, 110))


@simulated
async def test_a_full_disk_delays_a_batch_and_the_answer_says_so(world: World) -> None:
    disk = FailingDisk()
    peer = await started(world, files=disk)
    await stage(peer, range(9))
    disk.errno = errno.ENOSPC
    with pytest.raises(StorageFull):
        await commit(peer, (0, 0, 9))
    disk.errno = None
    assert await commit(peer, (0, 0, 9)) in (True, False)
    assert await published(peer) == expected(range(9))


@simulated
async def test_a_stage_that_could_not_be_written_is_not_there(world: World) -> None:
    disk = FailingDisk()
    peer = await started(world, files=disk)
    disk.errno = errno.ENOSPC
    with pytest.raises(StorageFull):
        await stage(peer, range(9))
    disk.errno = None
    with pytest.raises(StageLost):
        await commit(peer, (0, 0, 9))
    assert await stage(peer, range(9)) == 9


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ([], "not empty"),
        ({"a": 1}, "array of messages"),
        ([["t", 0, 0]], "must be"),
        ([["t", 0, 0, "text"]], "must be"),
        ([["t", 0, 0, b"x"], ["t", True, 0, b"x"]], "must be"),
        ([["t", 0, 0, b"x"], "text"], "must be"),
        ([["t", -1, 0, b"x"]], "not negative"),
        ([["t", 0, 2**31, b"x"]], "32 bits"),
        (b"\xc1", "SINK_STAGE"),
    ],
)
@simulated
async def test_a_body_that_is_not_a_chunk_is_refused_by_what_is_wrong_with_it(
    world: World, body: Any, why: str
) -> None:
    peer = await started(world)
    header = {**batch(), "partition": 0, "attempt": 0, "seq": 0}
    with pytest.raises(InvalidParameter, match=why):
        await peer.call(RequestCode.SINK_STAGE, header, body)


@pytest.mark.parametrize("body", [b"\xc1", [1], [[0, 0]], [[0, 0, "9"]]])
@simulated
async def test_a_commit_that_is_malformed_is_refused(world: World, body: Any) -> None:
    peer = await started(world)
    with pytest.raises(InvalidParameter, match="SINK_COMMIT"):
        await peer.call(RequestCode.SINK_COMMIT, batch(), body)


@pytest.mark.parametrize(("topic", "queue_id"), [("t", 3), (STAGE_TOPIC, 0)])
@simulated
async def test_what_may_not_be_written_cannot_be_staged(world: World, topic: str, queue_id: int) -> None:
    peer = await started(world)
    header = {**batch(), "partition": 0, "attempt": 0, "seq": 0}
    with pytest.raises((NoPermission, InvalidParameter, RlabError)):
        await peer.call(RequestCode.SINK_STAGE, header, [[topic, queue_id, 0, payload_of(b"x")]])
    assert len(world.broker.sink.table) == 0


@simulated
async def test_there_is_room_for_so_many_chunks(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    peer = await started(world)
    monkeypatch.setattr("broker.sink.stage_table.MAX_STAGED_CHUNKS", 2)
    await stage(peer, range(3), seq=0)
    await stage(peer, range(3), seq=1)
    with pytest.raises(SystemBusy, match="2 staged chunks"):
        await stage(peer, range(3), seq=2)
    assert await stage(peer, range(3), seq=1) == 6, "one that is there already needs no room"


# ------------------------------------------------------------------------------------------------------ killed anywhere


class Witness(Files):
    """Real files; whenever the log is written, keeps what a kill in the middle and after the write would leave.

    Attributes:
        snapshots: copies of the data directory.
    """

    def __init__(self, data_dir: Path, into: Path) -> None:
        self.data_dir = data_dir
        self.into = into
        self.snapshots: list[Path] = []
        self.watching = False

    def pwrite(self, fd: int, data: bytes | memoryview, position: int) -> int:
        if not self.watching:
            return super().pwrite(fd, data, position)
        half = len(data) // 2
        super().pwrite(fd, data[:half], position)
        self.keep()
        written = half + super().pwrite(fd, data[half:], position + half)
        self.keep()
        return written

    def keep(self) -> None:
        copy = self.into / str(len(self.snapshots))
        shutil.copytree(self.data_dir, copy)
        self.snapshots.append(copy)


@simulated
async def test_a_broker_that_is_killed_anywhere_in_a_batch_publishes_it_once(
    world: World, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.sink.service.PUBLISHED_AT_ONCE", 13)
    witness = Witness(world.data_dir, tmp_path_factory.mktemp("killed"))
    peer = await started(world, files=witness)
    before = [await peer.send(queue_id=n % 3, body=b"%d" % n) for n in range(-6, 0)]
    await stage(peer, range(20), partition=0)
    await stage(peer, range(20, 40), partition=1, seq=0)
    await stage(peer, range(40, 50), partition=1, seq=1)
    witness.keep()
    witness.watching = True
    answer = await peer.begin(RequestCode.SINK_COMMIT, batch(), [(0, 0, 20), (1, 0, 30)])
    for n in range(1000, 1003):
        await peer.send(queue_id=n % 3, body=b"%d" % n)
    assert (await answer).header == {"published": True}
    witness.keep()
    await world.stop_broker()
    await world.sleep(1)
    states = Counter[int]()
    for snapshot in witness.snapshots:
        await world.start_broker(data_dir=snapshot)
        flagged = sum([record.flags & SINK_FLAG for n in range(3) for record in await stored(peer, n)])
        states[flagged] += 1
        assert flagged in (0, 50), "what begins to be published is whole before anybody can look"
        await commit(peer, (0, 0, 20), (1, 0, 30))
        assert not await commit(peer, (0, 0, 20), (1, 0, 30))
        numbers = await published(peer)
        assert [[n for n in queue if 0 <= n < 50] for queue in numbers] == expected(range(50))
        assert sum(n < 0 for queue in numbers for n in queue) == len(before)
        await world.stop_broker()
        await world.sleep(1)
    assert states[0] == 1, "before the commit"
    assert states[50] > 10


@simulated
async def test_a_topic_of_another_type_takes_no_rows(world: World) -> None:
    peer = await started(world)
    await peer.put_topic("t", 3, message_type=MessageType.FIFO)
    with pytest.raises(MessageIllegal, match="takes FIFO messages only, and this is a NORMAL message"):
        await stage(peer, range(3))
    await peer.put_topic("t", 3, message_type=MessageType.NORMAL)
    assert await stage(peer, range(3)) == 3
