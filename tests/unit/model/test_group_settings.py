from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from model.group_settings import DEFAULT_SETTINGS, OWN_ATTEMPTS, GroupSettings
from model.limits import MAX_CONFIGURED_ATTEMPTS, MAX_RETRY_QUEUES

SETTINGS = st.builds(
    GroupSettings,
    consume=st.booleans(),
    broadcast=st.booleans(),
    retry_queues=st.integers(1, MAX_RETRY_QUEUES),
    max_attempts=st.integers(OWN_ATTEMPTS, MAX_CONFIGURED_ATTEMPTS),
)


@given(settings=SETTINGS)
def test_settings_come_through_the_wire_as_they_were(settings: GroupSettings) -> None:
    assert GroupSettings.from_wire(settings.to_wire()) == settings


def test_the_text_names_every_setting() -> None:
    assert str(DEFAULT_SETTINGS) == "consume=on broadcast=on retry_queues=1 max_attempts=own"
    other = GroupSettings(consume=False, broadcast=False, retry_queues=4, max_attempts=0)
    assert str(other) == "consume=off broadcast=off retry_queues=4 max_attempts=0"
