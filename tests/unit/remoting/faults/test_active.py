"""The table of active faults: which one is done to a frame, how often, and when it is over."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.errors import InvalidParameter
from model.limits import MAX_FAULTS
from remoting.faults.active import ActiveFaults
from remoting.faults.fault import TO_SERVER, ConnectionFault, Traffic
from remoting.request_code import RequestCode

FRAME = Traffic(RequestCode.SEND_MESSAGE, TO_SERVER, False, "h@c1", ("g",), "h:1")
DROP = ConnectionFault(do="drop")


def table() -> ActiveFaults:
    return ActiveFaults(Random(0))


@given(one_in=st.integers(1, 5), n=st.integers(0, 5), frames=st.integers(0, 40))
def test_it_is_done_to_each_so_many_th_frame_and_at_most_so_often(one_in: int, n: int, frames: int) -> None:
    faults = table()
    faults.begin(ConnectionFault(do="drop", one_in=one_in, n=n), "", 0.0)
    fates = [faults.choose(FRAME) is not None for _ in range(frames)]
    due = [number % one_in == 0 and (not n or number // one_in <= n) for number in range(1, frames + 1)]
    assert fates == due


def test_the_first_that_hits_is_done_and_only_that() -> None:
    faults = table()
    first, second = (
        faults.begin(ConnectionFault(do="drop", n=1), "", 0.0),
        faults.begin(ConnectionFault(do="duplicate"), "", 0.0),
    )
    assert [faults.choose(FRAME), faults.choose(FRAME)] == [first, second]
    assert [active.done for active in faults.all()] == [1, 1]


def test_a_fault_is_over_when_its_time_has_passed_or_it_was_done_as_often_as_it_should_be() -> None:
    faults = table()
    timed = faults.begin(ConnectionFault(do="drop", for_s=5.0, client="c2"), "", 10.0)
    counted = faults.begin(ConnectionFault(do="drop", n=1), "", 10.0)
    endless = faults.begin(ConnectionFault(do="drop", client="c3"), "", 10.0)
    assert (faults.next_deadline(), faults.expire(14.9)) == (15.0, [])
    faults.choose(FRAME)
    assert faults.expire(14.9) == [counted]
    assert timed.document(14.0)["left_s"] == 1.0
    assert faults.expire(15.0) == [timed]
    assert (faults.next_deadline(), faults.all()) == (None, [endless])


def test_connections_that_a_fault_holds_are_let_go_when_it_is_healed_and_not_when_it_is_used_up() -> None:
    faults = table()
    held = faults.begin(ConnectionFault(do="half_open", n=1), "", 0.0)
    refused = faults.begin(ConnectionFault(do="refuse", n=1), "", 0.0)
    held.done = refused.done = 1
    assert faults.expire(99.0) == [refused]
    assert faults.heal(held.number) == [held]
    assert faults.heal(held.number) == []


def test_the_last_fault_that_fits_is_taken_and_the_next_one_is_not() -> None:
    faults = table()
    for _ in range(MAX_FAULTS):
        faults.begin(DROP, "", 0.0)
    with pytest.raises(InvalidParameter, match="heal some"):
        faults.begin(DROP, "", 0.0)
    assert len(faults.heal()) == MAX_FAULTS
    assert len(faults) == 0


@given(seed=st.integers(0, 9))
def test_a_delay_is_at_least_its_time_and_at_most_its_jitter_longer(seed: int) -> None:
    faults = ActiveFaults(Random(seed))
    assert faults.late_by_s(ConnectionFault(do="delay", by_s=1.0)) == 1.0
    assert 1.0 <= faults.late_by_s(ConnectionFault(do="delay", by_s=1.0, jitter_s=0.5)) <= 1.5
