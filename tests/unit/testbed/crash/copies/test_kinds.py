from __future__ import annotations

import pytest

from testbed.crash.copies.kinds import COPIES_KINDS, MOVED, OWNERS, STALLED, STALLED_S, TWICE, find_violations
from testbed.crash.copies.schedule import HANDOVERS, Act
from testbed.crash.copies.watch import Effects

GOOD = Effects(gap_s=STALLED_S, held_s=0.0, failed=0, moved=0, two_owners_ms=0.0, twice=0)
UNDER_WAY = 100


@pytest.mark.parametrize("act", Act)
def test_no_act_may_move_a_queue_or_give_it_two_owners_or_stop_the_sends(act: Act) -> None:
    assert list(find_violations(act, GOOD, UNDER_WAY)) == []
    bad = GOOD._replace(moved=2, two_owners_ms=0.5, gap_s=STALLED_S + 1)
    assert [kind for kind, _ in find_violations(act, bad, UNDER_WAY)] == [MOVED, OWNERS, STALLED]
    assert {MOVED, OWNERS, TWICE, STALLED} <= COPIES_KINDS.keys()


@pytest.mark.parametrize("act", Act)
def test_a_handover_repeats_no_message_and_a_fault_at_most_those_that_were_under_way(act: Act) -> None:
    allowed = 0 if act in HANDOVERS else UNDER_WAY
    assert list(find_violations(act, GOOD._replace(twice=allowed), UNDER_WAY)) == []
    assert [kind for kind, _ in find_violations(act, GOOD._replace(twice=allowed + 1), UNDER_WAY)] == [TWICE]
