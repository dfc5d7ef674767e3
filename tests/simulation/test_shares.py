"""One user, or address, takes its share of each table of a broker, and others' sends, retries and joins go on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from model.errors import RlabError, SystemBusy
from model.message import Message, encode_payload
from model.response_code import ResponseCode
from model.subscription import SubscriptionData
from remoting.client import RemotingClient
from remoting.overload.shares import find_sharer
from remoting.request_code import RequestCode
from remoting.security.policy import NamePatterns, Rights
from testbed.simulation.cluster.access import derived_key, derived_user
from tests.unit.broker.harness import Peer, World, consumer, payload_of, records, simulated

DAY_MS = 24 * 3600 * 1000


async def delayed(peer: Peer, number: int) -> None:
    header = {"topic": "t", "queue_id": 0, "tag_hash": 0, "delay_ms": DAY_MS}
    await peer.call(RequestCode.SEND_MESSAGE, header, payload_of(b"%d" % number, "t", ""))


async def retried(peer: Peer, number: int) -> None:
    """Send message 0 of the queue back, as a consumer does that has failed on it."""
    header = {"group": "g", "topic": "t", "queue_id": 0, "offset": 0, "max_attempts": 16, "delay_ms": DAY_MS}
    await peer.call(RequestCode.CONSUMER_SEND_MSG_BACK, header)


async def topic(peer: Peer, number: int) -> None:
    await peer.put_topic(f"{peer.client_id[0]}-{number}", 1)


async def auto_topic(peer: Peer, number: int) -> None:
    await peer.send(f"{peer.client_id[0]}-{number}")


async def group(peer: Peer, number: int) -> None:
    await peer.heartbeat(consumer(f"{peer.client_id[0]}-{number}"))


async def subscription(peer: Peer, number: int) -> None:
    """Subscribe to one more topic of 100 characters, which takes 301 bytes."""
    subscriptions = tuple(SubscriptionData(f"{n:0100}") for n in range(number + 1))
    await peer.heartbeat(consumer(peer.client_id[0], subscriptions=subscriptions))


async def half(peer: Peer, number: int) -> None:
    row = ["t", 0, 0, -1, encode_payload(Message("t", b"x"), 0, f"{peer.client_id}{number}")]
    await peer.call(RequestCode.SEND_HALF_MESSAGE, {"group": "p"}, [row])


async def held(peer: Peer, number: int) -> None:
    """Wait at an empty queue."""
    pull = await peer.begin_pull(queue_id=1 + number % 3, suspend_ms=60_000)
    await peer.pull()  # behind which it is parked or refused
    if pull.done():
        assert pull.result().code == ResponseCode.SYSTEM_BUSY
        raise SystemBusy(pull.result().header["remark"])


async def chunk(peer: Peer, number: int) -> None:
    header = {"query_id": peer.client_id, "batch_id": 0, "partition": 0, "attempt": 0, "seq": number}
    await peer.call(RequestCode.SINK_STAGE, header, [["t", 0, 0, payload_of(b"x", "t", "")]])


async def query(peer: Peer, number: int) -> None:
    header = {"query_id": f"{peer.client_id}{number}", "batch_id": 0, "partition": 0, "attempt": 0, "seq": 0}
    await peer.call(RequestCode.SINK_STAGE, header, [["t", 0, 0, payload_of(b"x", "t", "")]])


@dataclass(frozen=True)
class Table:
    """A table with a lower limit, what adds an entry, and how many of them are a quarter."""

    name: str
    limits: dict[str, int]
    add: Callable[[Peer, int], Awaitable[None]]
    is_stored: bool = True  # whether what one has of it is known after a restart
    share: int = 3


TABLES = [
    Table("delayed messages", {"broker.retry.delays.MAX_DELAYED_SENDS": 12}, delayed),
    Table("delayed messages and retries", {"broker.retry.delays.MAX_DELAYED_MESSAGES": 12}, retried),
    Table("topics", {"broker.topics.table.MAX_TOPICS": 28}, topic, share=7),
    Table("topics", {"broker.topics.table.MAX_TOPICS": 28}, auto_topic, share=7),
    Table("groups", {"broker.groups.capacity.MAX_GROUPS": 12}, group),
    Table("bytes of subscriptions", {"broker.groups.capacity.MAX_SUBSCRIPTION_BYTES": 12 * 301}, subscription, False),
    Table("open transactions", {"broker.transactions.service.MAX_OPEN_TRANSACTIONS": 12}, half),
    Table("parked pulls", {"broker.messages.pull.MAX_PARKED_REQUESTS": 12}, held, False),
    Table("staged chunks", {"broker.sink.stage_table.MAX_STAGED_CHUNKS": 12}, chunk),
    Table("queries of sinks", {"broker.sink.stage_table.MAX_SINK_QUERIES": 12}, query),
]


def with_limits(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, limit in table.limits.items():
        monkeypatch.setattr(name, limit)


async def started(world: World) -> tuple[Peer, Peer]:
    """A broker with a topic and a message that nobody's share counts, and two peers from different addresses."""
    await world.start_broker()
    own = world.peer("127.0.0.1")
    await own.put_topic()
    await own.send()
    return world.peer("a"), world.peer("b")


@pytest.mark.parametrize("table", TABLES, ids=lambda table: f"{table.name}, {table.add.__name__}")
@simulated
async def test_one_fills_its_share_of_a_table_and_others_go_on(
    world: World, monkeypatch: pytest.MonkeyPatch, table: Table
) -> None:
    with_limits(table, monkeypatch)
    a, b = await started(world)
    for number in range(table.share):
        await table.add(a, number)
    with pytest.raises(SystemBusy, match=rf"address a has [\d,]+ of the [\d,]+ {table.name} of this broker"):
        await table.add(a, table.share)
    for number in range(2):
        await table.add(b, number)
    assert await b.send(), "sends go on"
    await retried(b, 0)  # retries go on
    assert (await b.heartbeat(consumer("b-0")))["b-0"], "joins go on"
    refused = world.broker.shares.tables[table.name].refused
    assert refused == 1


@pytest.mark.parametrize("table", [each for each in TABLES if each.is_stored], ids=lambda table: table.add.__name__)
@simulated
async def test_a_restart_forgets_no_share_and_one_that_is_above_it_keeps_all_that_it_has(
    world: World, monkeypatch: pytest.MonkeyPatch, table: Table
) -> None:
    a, _ = await started(world)
    n = table.share + 2
    for number in range(n):
        await table.add(a, number)
    had = world.broker.shares.tables[table.name].of(find_sharer("a").number)
    assert had >= n
    await world.stop_broker()
    with_limits(table, monkeypatch)
    broker = await world.start_broker()
    assert broker.shares.tables[table.name].of(find_sharer("a").number) == had, "nothing is dropped"
    again, b = world.peer("a"), world.peer("b")
    with pytest.raises(SystemBusy, match=f"address a has {had} of the"):
        await table.add(again, n)
    await table.add(b, 0)


@simulated
async def test_retries_have_places_that_no_delayed_message_takes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.retry.delays.MAX_DELAYED_SENDS", 12)
    monkeypatch.setattr("broker.retry.delays.MAX_DELAYED_MESSAGES", 16)
    await started(world)
    users = [world.peer(name) for name in "cdef"]
    for user in users:
        for number in range(3):
            await delayed(user, number)
    late = world.peer("h")
    with pytest.raises(SystemBusy, match="12 delayed messages already"):
        await delayed(late, 0)
    for user in (*users[:3], late):
        await retried(user, 0)
    with pytest.raises(SystemBusy, match="16 delayed messages already"):
        await retried(late, 1)


@simulated
async def test_a_place_in_a_share_is_free_again_when_its_entry_is_gone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.topics.table.MAX_TOPICS", 12)
    monkeypatch.setattr("broker.messages.pull.MAX_PARKED_REQUESTS", 12)
    monkeypatch.setattr("broker.sink.stage_table.MAX_STAGED_CHUNKS", 12)
    a, _ = await started(world)
    for number in range(3):
        await topic(a, number)
        await held(a, number)
        await chunk(a, number)
    await a.call(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "a-0"})
    await topic(a, 3)
    await a.call(RequestCode.SINK_ABORT, {"query_id": a.client_id, "batch_id": 0})
    await chunk(a, 3)
    await a.close()
    await world.sleep(1)
    again = world.peer("a")
    await held(again, 0)
    shares = world.broker.shares.tables
    assert [shares[name].of(find_sharer("a").number) for name in ("topics", "parked pulls", "staged chunks")] == [
        3,
        1,
        1,
    ]


@simulated
async def test_many_pulls_of_one_at_a_queue_leave_places_to_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.messages.pull.MAX_PARKED_REQUESTS_PER_QUEUE", 8)
    a, b = await started(world)
    first = [await a.begin_pull(offset=1, suspend_ms=60_000) for _ in range(2)]
    assert (await a.pull(offset=1, suspend_ms=60_000)).code == ResponseCode.SYSTEM_BUSY
    others = await b.begin_pull(offset=1, suspend_ms=60_000)
    await b.send()
    for pull in (*first, others):
        assert len(records(await pull)) == 1


@simulated
async def test_with_access_control_users_of_one_address_have_a_share_each(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.topics.table.MAX_TOPICS", 12)
    rights = Rights(manage=NamePatterns(["*"]))
    await world.start_broker(access={name: derived_user(name, rights) for name in ("alice", "bob")})
    clients = {name: RemotingClient(rng=Random(0), key=derived_key(name)) for name in ("alice", "bob")}

    async def put(name: str, number: int) -> None:
        header: dict[str, Any] = {"topic": f"{name}-{number}", "read_queue_nums": 1, "write_queue_nums": 1, "perm": 6}
        with world.simulation.on_host("127.0.0.1"):
            await clients[name].request("10.0.0.1:10911", RequestCode.UPDATE_AND_CREATE_TOPIC, header, None, 60.0)

    for number in range(3):
        await put("alice", number)
    with pytest.raises(RlabError, match="user alice has 3 of the 12 topics"):
        await put("alice", 3)
    await put("bob", 0)
    for client in clients.values():
        await client.aclose()


@simulated
async def test_without_access_control_clients_of_this_machine_share_all_of_a_table(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.topics.table.MAX_TOPICS", 12)
    await world.start_broker()
    own = world.peer("127.0.0.1")
    for number in range(12 - len(world.broker.topics.table.configs())):
        await topic(own, number)
    with pytest.raises(SystemBusy, match="this broker has 12 topics already"):
        await topic(own, 12)
