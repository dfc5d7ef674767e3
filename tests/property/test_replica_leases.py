"""Laws of the lease of a master: it never serves when a replica may have been elected, whatever the clocks do."""

from __future__ import annotations

from dataclasses import dataclass, field

import hypothesis.strategies as st
from hypothesis import given

from replica.lease.master_lease import NEVER, MasterLease
from replica.lease.promise import Promise, rank_delay_s

LEASE_S = 2.0
RATES = st.sampled_from((0.955, 1.0, 1.045)) | st.floats(0.955, 1.045)  # they differ by less than a tenth
IDS = (2, 3, 4)


@dataclass
class Member:
    """A replica with a clock of its own, and the frames that are under way from and to it."""

    rate: float
    ahead: float
    promise: Promise = field(init=False)
    coming: list[float] = field(default_factory=list)  # send times of frames, by the master's clock
    going: list[float] = field(default_factory=list)  # of confirmed ones

    def __post_init__(self) -> None:
        self.promise = Promise(self.ahead)

    def now(self, real: float) -> float:
        return self.ahead + self.rate * real


STEPS = st.lists(
    st.tuples(
        st.sampled_from(("beat", "send", "receive", "confirm", "lose", "restart", "wait", "void")),
        st.sampled_from(IDS),
        st.floats(0.0, 1.5),
    ),
    max_size=60,
)


@given(RATES, st.lists(st.tuples(RATES, st.floats(-1e4, 1e4)), min_size=1, max_size=3), STEPS)
def test_while_a_master_serves_no_replica_may_stand(
    rate: float, clocks: list[tuple[float, float]], steps: list[tuple[str, int, float]]
) -> None:
    real = 0.0
    lease, members = MasterLease(LEASE_S), {each: Member(*clock) for each, clock in zip(IDS, clocks, strict=False)}
    for what, who, seconds in steps:
        real += seconds
        member, own = members.get(who, members[2]), rate * real
        match what:
            case "beat":  # a frame and its confirmation, at once
                member.promise.give(member.now(real))
                lease.confirmed(who if who in members else 2, own)
            case "send":
                member.coming.append(own)
            case "receive" if member.coming:
                member.promise.give(member.now(real))
                member.going.append(member.coming.pop(0))
            case "confirm" if member.going:
                lease.confirmed(who if who in members else 2, member.going.pop(0))
            case "lose":
                member.coming.clear()
                member.going.clear()
            case "restart":  # its process forgets the promise, and not that it may have given one
                member.promise = Promise(member.now(real))
                member.coming.clear()
            case "void":
                lease.void(own)
        ends = lease.ends_at(members)
        if own < ends:  # and the master serves until then, if nothing more comes
            for each in members.values():
                assert each.now(ends / rate) < each.promise.ends_at(LEASE_S)


@given(st.lists(st.tuples(st.sampled_from((*IDS, 0)), st.floats(0, 100)), max_size=40), st.sets(st.sampled_from(IDS)))
def test_the_lease_is_what_a_list_of_all_confirmations_says(
    events: list[tuple[int, float]], waits_for: set[int]
) -> None:
    seen: list[tuple[int, float]] = []
    lease, void = MasterLease(LEASE_S), NEVER
    for who, at in events:
        if who == 0:
            lease.void(at)
            seen, void = [], at
        else:
            lease.confirmed(who, at)
            seen.append((who, at))
    ends = [max((at for who, at in seen if who == each and at > void), default=NEVER) + LEASE_S for each in waits_for]
    assert lease.ends_at(sorted(waits_for)) == min(ends, default=float("inf"))


@given(st.lists(st.tuples(st.integers(1, 90), st.booleans()), min_size=1, unique_by=lambda each: each[0]))
def test_no_two_replicas_stand_at_the_same_moment(found: list[tuple[int, bool]]) -> None:
    ids = sorted(each for each, _ in found)
    delays = {each: rank_delay_s(each, ids, lacks=lacks) for each, lacks in found}
    assert len(set(delays.values())) == len(found)
    complete = [delays[each] for each, lacks in found if not lacks]
    behind = [delays[each] for each, lacks in found if lacks]
    assert not complete or not behind or max(complete) < min(behind)
