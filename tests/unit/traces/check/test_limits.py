from __future__ import annotations

from model.limits import MAX_GROWTH_WAIT_S, MAX_NEW_GROUP_WAIT_S, REBALANCE_INTERVAL_S
from traces.check.limits import HistoryLimits


def test_the_defaults_let_a_lost_notification_and_a_new_group_pass() -> None:
    limits = HistoryLimits()
    assert limits.orphan_ms > REBALANCE_INTERVAL_S * 1000
    assert limits.stale_ms > 2 * REBALANCE_INTERVAL_S * 1000
    assert limits.notification_ms > max(MAX_NEW_GROUP_WAIT_S, MAX_GROWTH_WAIT_S) * 1000
