from __future__ import annotations

import pytest

from broker.transactions import checks
from broker.transactions.table import TransactionOptions
from model.errors import GroupNotExist, SystemBusy
from model.events import EventKind
from model.limits import CHECKS_AT_ONCE, LINES_AT_ONCE, MAX_WAITING_CHECKS
from remoting import connection
from remoting.request_code import RequestCode
from tests.unit.broker.harness import Peer, World, simulated, unpacked
from tests.unit.broker.transactions.test_service import COMMIT, UNKNOWN, end, half


async def join(peer: Peer, group: str = "p") -> None:
    await peer.heartbeat(producer_groups=(group,), checkers=(group,))


def asked(peer: Peer) -> list[tuple[int, int]]:
    """(offset, number of the check) of those that it got."""
    return [(header["offset"], header["n"]) for header in peer.pushed(RequestCode.CHECK_TRANSACTION_STATE)]


@simulated
async def test_a_check_names_the_queue_of_its_message_and_its_cause(world: World) -> None:
    await world.start_broker()
    a = world.peer("a")
    await a.put_topic()
    await join(a)
    await half(a, "x", queue_id=3)
    await world.sleep(7)
    (header,) = a.pushed(RequestCode.CHECK_TRANSACTION_STATE)
    cause = world.events[[event.kind for event in world.events].index("HALF_STORED")].id
    place = {"group": "p", "topic": "t", "queue_id": 3, "offset": 0}
    assert header == {**place, "n": 1, "cause": cause, "client_id": "a@1"}


@simulated
async def test_a_producer_that_answers_no_checks_is_not_asked(world: World) -> None:
    await world.start_broker()
    a, b = world.peer("a"), world.peer("b")
    await a.put_topic()
    await a.heartbeat(producer_groups=("p",))
    await half(a, "x")
    await world.sleep(100)
    assert asked(a) == []
    await join(b)
    await world.sleep(0.1)
    assert asked(b) == [(0, 1)], "the waiting counted no check"


@simulated
async def test_a_producer_that_leaves_its_group_or_is_gone_is_asked_no_more(world: World) -> None:
    await world.start_broker()
    a, b = world.peer("a"), world.peer("b")
    await a.put_topic()
    await join(a)
    await join(b)
    await half(a, "x")
    await a.heartbeat(producer_groups=("other",), checkers=("other",))
    await b.close()
    await world.sleep(100)
    assert (asked(a), asked(b)) == ([], [])
    assert list(world.broker.groups.checkers) == ["other"]


@simulated
async def test_many_checks_go_out_a_few_at_a_time_and_no_producer_gets_more_than_it_keeps(world: World) -> None:
    await world.start_broker()
    a = world.peer("a")
    await a.put_topic()
    await join(a)
    n = MAX_WAITING_CHECKS + CHECKS_AT_ONCE
    await half(a, *(f"{number:04}" for number in range(n)))
    await world.sleep(8)
    assert len(asked(a)) == MAX_WAITING_CHECKS
    await end(a, *((offset, f"{offset:04}", COMMIT) for offset, _ in asked(a)), from_check=True)
    await world.sleep(3)
    assert len(asked(a)) == n, "it has room again, and those that had none were not counted"
    assert {number for _, number in asked(a)} == {1}


@simulated
async def test_the_answer_unknown_leaves_it_open_until_the_next_check(world: World) -> None:
    await world.start_broker()
    a = world.peer("a")
    await a.put_topic()
    await join(a)
    await half(a, "x")
    await world.sleep(7)
    assert await end(a, (0, "x", UNKNOWN), from_check=True) == [0]
    await world.sleep(30)
    assert asked(a) == [(0, 1), (0, 2)]


@simulated
async def test_operators_see_every_group_its_members_and_its_oldest_transactions(world: World) -> None:
    await world.start_broker()
    a, b, operator = world.peer("a"), world.peer("b"), world.peer("operator")
    await a.put_topic()
    await join(a)
    await b.heartbeat(producer_groups=("p", "plain"))
    await half(a, "x", group="gone")
    await world.sleep(1)
    await half(a, "y", "z")
    await world.sleep(7)
    rows = unpacked(await operator.call(RequestCode.GET_ALL_PRODUCER_INFO))
    assert [(group, members, n, waiting) for group, members, n, _, waiting in rows] == [
        ("gone", 0, 1, 1),
        ("p", 2, 2, 0),
        ("plain", 1, 0, 0),
    ]
    assert [round(age_s) for _, _, _, age_s, _ in rows] == [8, 7, 0]
    members, transactions, n = unpacked(await operator.call(RequestCode.GET_PRODUCER_CONNECTION_LIST, {"group": "p"}))
    assert [(client, checks) for client, _, checks in members] == [(a.client_id, True), (b.client_id, False)]
    assert n == 2
    assert [(name, topic, checks) for name, topic, _, checks, _ in transactions] == [("y", "t", 1), ("z", "t", 1)]
    assert transactions[0][2] == pytest.approx(7, abs=0.1)
    assert transactions[0][4] == pytest.approx(29, abs=0.1)
    with pytest.raises(GroupNotExist, match="no member and no open transaction"):
        await operator.call(RequestCode.GET_PRODUCER_CONNECTION_LIST, {"group": "unknown"})


@simulated
async def test_transactions_that_are_abandoned_together_are_events_and_fill_no_log(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await world.start_broker(transactions=TransactionOptions(keep_h=0.01))
    a = world.peer("a")
    await a.put_topic()
    await join(a)
    await half(a, *(f"{n}" for n in range(3 * LINES_AT_ONCE)))
    await world.sleep(120)
    assert sum(event.n for event in world.of_kind(EventKind.TRANSACTION_GIVEN_UP)) == 3 * LINES_AT_ONCE
    assert caplog.text.count("is abandoned (age)") == LINES_AT_ONCE


@simulated
async def test_a_producer_with_more_open_messages_than_it_may_leave_unread_is_asked_and_not_cut_off(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "MAX_UNSENT_BYTES", 2_000_000)
    monkeypatch.setattr(checks, "CHECKED_BYTES_AT_ONCE", 500_000)
    await world.start_broker()
    a, b = world.peer("a"), world.peer("b")
    await a.put_topic()
    for number in range(40):
        await half(a, f"{number:02}" + 100_000 * "x")
    await world.sleep(10)
    await join(b)
    await world.sleep(10)
    assert sorted(asked(b)) == [(offset, 1) for offset in range(40)]
    assert await b.members() == [], "over the same connection"
    assert len(world.broker.groups.clients) == 1


@simulated
async def test_transactions_are_abandoned_later_if_their_topic_cannot_be_made_now(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise SystemBusy("too many topics")

    broker = await world.start_broker(transactions=TransactionOptions(keep_h=0.01))
    a = world.peer("a")
    await a.put_topic()
    await join(a)
    await half(a, "x")
    with monkeypatch.context() as patch:
        patch.setattr(broker.topics, "ensure_abandoned", refuse)
        await world.sleep(60)
        assert (len(broker.transactions.table), world.of_kind(EventKind.TRANSACTION_GIVEN_UP)) == (1, [])
    await world.sleep(2)
    assert len(broker.transactions.table) == 0
