from __future__ import annotations

import pytest

from testbed.crash.copies.kinds import COPIES_KINDS, MOVED, TWICE, findings_of
from testbed.crash.copies.schedule import HANDOVERS, Act
from testbed.crash.copies.watch import Effects

BAD = Effects(gap_s=0.0, held_s=0.0, failed=0, moved=2, twice=3)


@pytest.mark.parametrize("act", HANDOVERS)
def test_a_handover_may_move_no_queue_and_repeat_no_message(act: Act) -> None:
    assert list(findings_of(act, BAD)) == [(MOVED, "2 queues"), (TWICE, "3 messages")]
    assert list(findings_of(act, BAD._replace(moved=0, twice=0))) == []
    assert {MOVED, TWICE} <= COPIES_KINDS.keys()


def test_messages_may_are_redelivered_after_a_lost_master() -> None:
    assert list(findings_of(Act.MASTER_LOST, BAD)) == []
