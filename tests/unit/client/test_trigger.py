"""Triggers, and which of them a replay takes from the trace."""

from __future__ import annotations

import pytest

from client.trigger import Trigger

pytestmark = pytest.mark.walk


def test_a_member_sets_off_its_own_passes_only_by_the_timer_and_by_leases() -> None:
    assert [trigger for trigger in Trigger if not trigger.from_outside] == [Trigger.TIMER, Trigger.LOCK]
