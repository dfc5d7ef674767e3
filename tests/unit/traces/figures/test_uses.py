from __future__ import annotations

import pytest

from model.events import EventKind
from traces.figures.uses import KINDS, OWNER_KINDS, USES


def test_progress_of_an_owner_changes_no_owner_and_no_rebalance() -> None:
    progress = {kind for kind, use in USES.items() if use.progress is not None}
    assert progress == {EventKind.FIRST_PULL, EventKind.FIRST_MESSAGE, EventKind.MESSAGES_HANDED_OUT}
    assert progress == KINDS - OWNER_KINDS
    for kind in progress:
        use = USES[kind]
        assert (use.step, use.is_of_cause, use.is_of_members, use.is_route) == (None, False, False, False), kind


@pytest.mark.walk
def test_every_other_kind_has_a_use_and_is_found_by_its_plain_text() -> None:
    for kind in OWNER_KINDS:
        use = USES[str(kind.value)]
        assert use.step is not None or use.is_of_cause or use.is_of_members, kind
