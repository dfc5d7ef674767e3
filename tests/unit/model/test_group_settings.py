from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.errors import InvalidParameter
from model.group_settings import DEFAULT_SETTINGS, OWN_ATTEMPTS, GroupSettings
from model.limits import MAX_CONFIGURED_ATTEMPTS, MAX_INVISIBLE_MS, MAX_RETRY_DELAYS, MAX_RETRY_QUEUES

SETTINGS = st.builds(
    GroupSettings,
    consume=st.booleans(),
    broadcast=st.booleans(),
    retry_queues=st.integers(1, MAX_RETRY_QUEUES),
    max_attempts=st.integers(OWN_ATTEMPTS, MAX_CONFIGURED_ATTEMPTS),
    fifo=st.booleans(),
    retry_delays_ms=st.lists(st.integers(0, MAX_INVISIBLE_MS), max_size=MAX_RETRY_DELAYS).map(tuple),
)


@given(settings=SETTINGS)
def test_settings_come_through_the_wire_as_they_were(settings: GroupSettings) -> None:
    assert GroupSettings.from_wire(settings.to_wire(), settings.added) == settings


def test_the_settings_of_a_broker_of_an_earlier_version_have_the_defaults_of_what_it_does_not_know() -> None:
    assert GroupSettings.from_wire([True, True, 1, OWN_ATTEMPTS], {"is_set": False}) == DEFAULT_SETTINGS


@given(delays=st.lists(st.integers(0, 9), min_size=1, max_size=4).map(tuple), attempts=st.integers(1, 8))
def test_each_retry_has_its_delay_and_the_last_one_is_repeated(delays: tuple[int, ...], attempts: int) -> None:
    every = [*delays, *[delays[-1]] * 8]
    assert GroupSettings(retry_delays_ms=delays).retry_delay_ms(attempts) == every[attempts - 1]
    assert DEFAULT_SETTINGS.retry_delay_ms(attempts) is None


@pytest.mark.parametrize("delays", [(-1,), (MAX_INVISIBLE_MS + 1,), (1,) * (MAX_RETRY_DELAYS + 1), "5", 5, (0.5,)])
def test_other_delays_are_refused(delays: Any) -> None:
    with pytest.raises(InvalidParameter, match="retry_delays_ms"):
        GroupSettings(retry_delays_ms=delays)


def test_the_text_names_every_setting() -> None:
    words = "consume=on broadcast=on retry_queues=1 max_attempts=own fifo=off retry_delays=default"
    assert str(DEFAULT_SETTINGS) == words
    other = GroupSettings(consume=False, broadcast=False, retry_queues=4, max_attempts=0, fifo=True)
    assert str(other) == "consume=off broadcast=off retry_queues=4 max_attempts=0 fifo=on retry_delays=default"
    assert str(GroupSettings(retry_delays_ms=(100, 2_000))).endswith(" retry_delays=0.1s,2s")
