from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from model.limits import NAME_SERVER_STARTING_S
from namesrv.beginning import Beginning
from namesrv.registration import BrokerKey

A, B = BrokerKey("broker-a", 0), BrokerKey("broker-b", 0)


def test_it_ends_after_its_time_anyone_who_has_registered() -> None:
    beginning = Beginning(100.0)
    assert not beginning.is_complete(100.0)
    beginning.registered(A, newcomer=False, now=101.0)
    assert not beginning.is_complete(100.0 + NAME_SERVER_STARTING_S - 0.01)
    assert beginning.is_complete(100.0 + NAME_SERVER_STARTING_S)


@given(st.lists(st.tuples(st.sampled_from([A, B]), st.booleans()), max_size=8))
def test_before_that_all_is_known_exactly_while_each_broker_that_came_came_as_a_new_member(
    registrations: list[tuple[BrokerKey, bool]],
) -> None:
    beginning = Beginning(0.0)
    first: dict[BrokerKey, bool] = {}
    for key, newcomer in registrations:
        beginning.registered(key, newcomer=newcomer, now=1.0)
        first.setdefault(key, newcomer)
    assert beginning.is_complete(1.0) == (bool(first) and all(first.values()))
