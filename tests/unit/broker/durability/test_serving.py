"""A broker with replicas, as its clients see it: a failover takes away nothing that they have seen or were promised."""

from __future__ import annotations

from typing import Any

import pytest

from broker.durability.metadata_file import MetadataFile
from model.errors import NotEnoughReplicas, NotMaster, ReplicationTimeout, RlabError, ServiceNotAvailable
from model.replica_limits import REPLICATION_TIMEOUT_S, VERSIONS_OF_EPOCH
from model.response_code import ResponseCode
from remoting.request_code import RequestCode
from remoting.wire.field import Effect
from remoting.wire.schema import SCHEMA
from tests.unit.broker.durability.test_replication import ReplicatorByHand
from tests.unit.broker.harness import Peer, World, consumer, payload_of, records, simulated, unpacked
from tests.unit.rocketmq.stock_client import StockClient

SEND: dict[str, Any] = {"topic": "t", "queue_id": 0, "tag_hash": 0}


async def begun(world: World, **options: Any) -> tuple[ReplicatorByHand, Peer, Peer]:
    """A broker with a topic, two clients, and a replicator whose flushes are committed from here on by hand."""
    replicator = ReplicatorByHand(is_alone=True)
    await world.start_broker(replicator=lambda core: replicator, **options)
    a = world.peer("a")
    await a.put_topic()
    replicator.is_alone = False
    world.at_end.append(replicator.commit)
    return replicator, a, world.peer("b")


@simulated
async def test_a_send_is_answered_and_seen_once_it_is_committed(world: World) -> None:
    replicator, a, b = await begun(world)
    held = await b.begin_pull(suspend_ms=30_000)
    sent = await a.begin(RequestCode.SEND_MESSAGE, SEND, payload_of(b"x"))
    await world.sleep(1.0)
    assert not sent.done()
    assert not held.done()
    assert (await b.call(RequestCode.GET_MAX_OFFSET, {"topic": "t", "queue_id": 0})).header["offset"] == 0
    replicator.commit()
    assert (await sent).header["offset"] == 0
    assert [record.payload for record in records(await held)] == [payload_of(b"x")]


class LosesItsLease(ReplicatorByHand):
    """A replicator whose lease ends after `left` more requests, in the middle of an event-loop iteration."""

    left = 1_000_000

    def may_serve(self) -> bool:
        self.left -= 1
        return self.left >= 0

    def refusal(self) -> RlabError | None:
        return None if self.left >= 0 else NotMaster("the lease is over", "", 7)


@simulated
async def test_each_request_of_a_burst_is_refused_from_the_moment_on_at_which_the_lease_is_over(world: World) -> None:
    replicator = LosesItsLease(is_alone=True)
    await world.start_broker(replicator=lambda core: replicator)
    a = world.peer("a")
    await a.put_topic()
    ask = RequestCode.GET_MAX_OFFSET, {"topic": "t", "queue_id": 0}
    await a.call(*ask)
    replicator.left = 1
    asked = [await a.begin(*ask) for _ in range(4)]
    codes = [(await each).code for each in asked]
    # The first one is let in by `refusal`, and the second one by the question before each.
    assert codes == [ResponseCode.SUCCESS, ResponseCode.SUCCESS, ResponseCode.NOT_MASTER, ResponseCode.NOT_MASTER]


@simulated
async def test_a_request_that_has_waited_is_refused_when_the_lease_is_over(world: World) -> None:
    replicator, a, b = await begun(world)
    replicator.is_alone = True
    await a.send()
    world.simulation.loop.blocking_s = 0.5
    held = await b.begin_pull(offset=1, suspend_ms=1_000)
    searched = await a.begin(RequestCode.QUERY_MESSAGE, {"topic": "t", "key": "k", "max_n": 1})
    await world.sleep(0.1)
    replicator.has_lease, replicator.refused = False, NotMaster("the lease is over", "", 7)
    assert [(await each).code for each in (held, searched)] == [ResponseCode.NOT_MASTER] * 2


@simulated
async def test_a_lease_is_promised_and_an_offset_stored_once_they_are_committed(world: World) -> None:
    replicator, a, _ = await begun(world)
    await a.heartbeat(consumer())
    lock = await a.begin(RequestCode.LOCK_BATCH_MQ, {"group": "g", "client_id": a.client_id}, [["t", 0]])
    await world.sleep(1.0)
    assert not lock.done()
    replicator.commit()
    [[_, _, token, _]], _ = unpacked(await lock)
    commit = await a.begin(
        RequestCode.UPDATE_CONSUMER_OFFSET, {"group": "g", "client_id": a.client_id}, [["t", 0, 0, token]]
    )
    await world.sleep(1.0)
    assert not commit.done()
    replicator.commit()
    assert (await commit).code == ResponseCode.SUCCESS


@simulated
async def test_late_replicas_leave_a_send_in_doubt_and_further_ones_are_refused_before_they_are_stored(
    world: World,
) -> None:
    replicator, a, b = await begun(world)
    with pytest.raises(ReplicationTimeout, match="it may be kept or not") as in_doubt:
        await a.send()
    assert not in_doubt.value.definite
    written = world.broker.store.written_position
    with pytest.raises(NotEnoughReplicas, match="other replicas are late"):
        await a.send()
    assert world.broker.store.written_position == written
    await b.heartbeat(consumer())  # a group goes on
    assert records(await b.pull()) == []
    replicator.commit()
    assert len(records(await b.pull())) == 1
    sent = await a.begin(RequestCode.SEND_MESSAGE, SEND, payload_of(b"x"))
    await world.sleep(0.1)
    replicator.commit()
    assert (await sent).header["offset"] == 1


@simulated
async def test_a_stock_client_gets_the_place_of_a_message_whose_copies_are_late_and_no_failure(world: World) -> None:
    replicator, _, b = await begun(world)
    stock = await StockClient.connect(world)
    answer = await stock.send()
    assert (answer.code, answer.fields["queueOffset"]) == (12, "0")
    assert len(answer.fields["msgId"]) == 32
    replicator.commit()
    assert len(records(await b.pull())) == 1


@simulated
async def test_too_few_replicas_refuse_what_appends_and_nothing_else(world: World) -> None:
    replicator, a, b = await begun(world)
    replicator.refused, replicator.is_alone = NotEnoughReplicas("1 of 2 replicas are in sync"), True
    written = world.broker.store.written_position
    for code, header, body in (
        (RequestCode.SEND_MESSAGE, SEND, payload_of(b"x")),
        (RequestCode.SEND_BATCH_MESSAGE, {"topic": "new", "queue_id": 0}, [[0, payload_of(b"x")]]),
        (RequestCode.SEND_HALF_MESSAGE, {"group": "p"}, [["t", 0, 0, -1, payload_of(b"x")]]),
    ):
        with pytest.raises(NotEnoughReplicas, match="1 of 2"):
            await a.call(code, header, body)
    assert world.broker.store.written_position == written
    assert world.broker.topics.table.get("new") is None
    await b.heartbeat(consumer())
    assert await b.commit(0, await b.token_of(0)) == []
    stock = await StockClient.connect(world)
    assert (await stock.send()).code == 14


@simulated
async def test_a_broker_that_is_not_the_master_any_more_writes_nothing_and_names_the_master(world: World) -> None:
    replicator, a, b = await begun(world)
    await b.heartbeat(consumer())
    sent = await a.begin(RequestCode.SEND_MESSAGE, SEND, payload_of(b"x"))
    locked = await b.begin(RequestCode.LOCK_BATCH_MQ, {"group": "g", "client_id": b.client_id}, [["t", 0]])
    await world.sleep(0.1)
    written, offers = world.broker.store.written_position, len(replicator.offers)
    replicator.end()
    assert [(await answer).code for answer in (sent, locked)] == [ResponseCode.REPLICATION_TIMEOUT] * 2
    for code, header, body in (
        (RequestCode.SEND_MESSAGE, SEND, payload_of(b"x")),
        (RequestCode.GET_MAX_OFFSET, {"topic": "t", "queue_id": 0}, None),
        (RequestCode.HEART_BEAT, {}, []),
    ):
        with pytest.raises(NotMaster, match="epoch 2") as refused:
            await a.call(code, header, body)
        assert (refused.value.master_address, refused.value.epoch) == ("10.0.0.2:10911", 2)
    assert (await a.call(RequestCode.GET_SERVER_STATE)).header["kind"] == "broker"
    world.broker.features.close()  # stores nothing
    await world.sleep(60.0)
    assert (world.broker.store.written_position, len(replicator.offers)) == (written, offers)
    stock = await StockClient.connect(world)
    assert (await stock.send()).code == 14


@simulated
async def test_requests_wait_until_the_state_of_the_start_is_committed(world: World) -> None:
    await world.start_broker()
    await world.peer("a").put_topic()
    assert await world.peer("a").send() == 0
    await world.stop_broker()
    replicator = ReplicatorByHand()
    world.at_end.append(replicator.commit)
    await world.start_broker(replicator=lambda core: replicator)
    assert replicator.offers == [[]]
    b = world.peer("b")
    assert (await b.call(RequestCode.GET_SERVER_STATE)).header["kind"] == "broker"
    pull = await b.begin_pull()
    await world.sleep(1.0)
    assert not pull.done()
    replicator.commit()
    assert len(records(await pull)) == 1


@simulated
async def test_a_start_that_is_not_committed_for_long_refuses_requests(world: World) -> None:
    replicator = ReplicatorByHand()
    await world.start_broker(replicator=lambda core: replicator)
    world.at_end.append(replicator.commit)
    began = world.now
    with pytest.raises(ServiceNotAvailable, match="just started"):
        await world.peer("b").put_topic()
    assert world.now - began >= REPLICATION_TIMEOUT_S


@simulated
async def test_a_broker_that_stops_gives_its_replicas_what_it_had_in_memory(world: World) -> None:
    replicator, a, _ = await begun(world)
    replicator.is_alone = True
    await a.send()
    await a.heartbeat(consumer())
    await a.commit(1, await a.token_of(0), soon=True)
    offers = len(replicator.offers)
    await world.stop_broker()
    changes = [change for offer in replicator.offers[offers:] for change in offer]
    assert ("g", "t", 0, 1) in [change.values for change in changes if change.table == "offsets"]


@pytest.mark.walk
def test_every_command_that_a_broker_serves_has_an_effect_and_others_have_none_or_a_local_one() -> None:
    for code, schema in SCHEMA.items():
        if schema.receiver in ("broker", "any server", "master") and "gate" not in schema.sender:
            assert schema.effect is not None, code.name
        else:
            assert schema.effect in (None, Effect.LOCAL), code.name


@simulated
async def test_a_replica_that_takes_over_goes_on_with_members_leases_and_offsets_although_its_clock_is_behind(
    world: World, tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("replica")
    replicator, a, b = await begun(world)
    replicator.is_alone = True
    with MetadataFile(directory) as replica:
        with replica.load_snapshot() as load:
            for chunk in world.broker.metadata.snapshot():
                load.add(chunk)
        offers = len(replicator.offers)
        await b.heartbeat(consumer())
        for _ in range(3):
            await a.send()
        token, freed = await b.token_of(0), await b.token_of(1)
        await b.unlock(("t", 1, -1, freed))
        assert await b.commit(2, token) == []
        await world.sleep(0.1)
        for changes in replicator.offers[offers:]:
            replica.apply(changes)
    info = world.broker.groups.table.get("g")
    assert info is not None
    version, data_id = info.version, world.broker.topics.table.data_id
    await world.stop_broker()
    for name in ("metadata.sqlite", "metadata.sqlite-wal", "metadata.sqlite-shm"):
        (world.data_dir / name).unlink(missing_ok=True)
    (directory / "metadata.sqlite").rename(world.data_dir / "metadata.sqlite")
    replicator, *_ = await begun(world, clock_ms=lambda: 7)
    replicator.is_alone = True
    again = world.broker.groups.table.get("g")
    assert again is not None
    assert list(again.members) == [b.client_id]
    assert again.version >= version + VERSIONS_OF_EPOCH
    assert world.broker.topics.table.data_id == data_id, "numbers of topics in commits of clients are of it"
    assert (await b.committed(), await b.token_of(0)) == (2, token)
    assert await b.token_of(1) > freed
