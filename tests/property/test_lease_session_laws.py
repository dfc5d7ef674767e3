"""What a member believes of its leases against what the broker's own tables say, whatever the network does."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.groups.table import GroupTable
from client.instance.lease_session import LeaseSession, LeaseSessions
from model.heartbeat import ConsumeFrom, ConsumerData, ConsumeType, MessageModel
from model.subscription import SubscriptionData

TIMEOUT_S, GRACE_S, TICK_S = 3.0, 0.25, 0.125  # exact in binary

DATA = ConsumerData(
    group="g",
    consume_type=ConsumeType.PASSIVELY,
    model=MessageModel.CLUSTERING,
    consume_from=ConsumeFrom.LAST_OFFSET,
    strategy="AVG",
    session_timeout_s=TIMEOUT_S,
    subscriptions=(SubscriptionData("t"),),
)


@dataclass
class Wire:
    number: int
    closed: bool = False
    there: list[tuple[float, float, float]] = field(default_factory=list)  # (arrives, sent at, answer takes), in order
    back: list[tuple[float, float, bool]] = field(default_factory=list)  # (arrives, sent at, joined), in order
    broker_sees_close_at: float = float("inf")


steps = st.lists(
    st.one_of(
        st.tuples(st.just("beat"), st.integers(0, 40), st.integers(0, 40)),
        st.tuples(st.just("cut"), st.integers(0, 1), st.just(0)),
        st.tuples(st.just("wait"), st.integers(1, 30), st.just(0)),
    ),
    max_size=40,
)


@settings(max_examples=200)
@given(steps)
def test_a_lease_that_its_member_takes_for_good_was_not_ended_by_its_broker(
    program: list[tuple[str, int, int]],
) -> None:
    table, sessions, now = GroupTable(close_grace_s=GRACE_S), LeaseSessions(), 0.0
    wires = [Wire(0)]
    ended = 0  # how many times the broker has ended the membership
    confirmed: tuple[LeaseSession, int] | None = None  # a lease: the session it was asked for in, `ended` at the grant

    def turn() -> None:
        nonlocal ended, confirmed
        for wire in wires:
            while wire.there and wire.there[0][0] <= now:
                _, sent_at, answer_s = wire.there.pop(0)
                if wire.broker_sees_close_at > now:
                    outcome = table.heartbeat("c", DATA, connection=wire.number, cause="", now=now, now_ms=0)
                    answered = max([now + answer_s, *(at for at, _, _ in wire.back)])
                    wire.back.append((answered, sent_at, outcome.joined))
            if wire.broker_sees_close_at <= now:
                wire.broker_sees_close_at = float("inf")
                table.connection_closed(wire.number, now)
                wire.there.clear()
        ended += len(table.expire(now, cause=""))
        for wire in wires:
            while wire.back and wire.back[0][0] <= now:
                _, sent_at, joined = wire.back.pop(0)
                if not wire.closed:
                    sessions.record_answer("g", "a:1", wire, good_until=sent_at + TIMEOUT_S, joined=joined, now=now)
        session = sessions.current("g", "a:1", now)
        info = table.get("g")
        if session is not None and info is not None and "c" in info.members:
            # The member asks again for what is not of this session, and the broker answers at once.
            confirmed = confirmed if confirmed and confirmed[0] is session else (session, ended)
        if confirmed is not None and confirmed[0].good(now):
            assert confirmed[1] == ended, "the broker may have given the queue to somebody else"

    for verb, first, second in program:
        wire = wires[-1]
        if verb == "beat":
            arrives = max([now + first * TICK_S, *(at for at, _, _ in wire.there)])
            wire.there.append((arrives, now, second * TICK_S))
        elif verb == "cut":
            wire.closed = True  # the member sees it at once, the broker with this packet or the next
            wire.broker_sees_close_at = now + first * TICK_S
            wires.append(Wire(len(wires)))
        for _ in range(first if verb == "wait" else 1):
            now += TICK_S
            turn()
