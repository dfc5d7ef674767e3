from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline.replay.figures import replay_figures, silent_ms
from pipeline.replay.recorded import read_recorded
from pipeline.replay.replay import replay
from tests.unit.pipeline.replay.golden_trace import golden_events
from tests.unit.pipeline.replay.test_replay import rules


def test_a_replay_is_counted_as_a_trace_is() -> None:
    recorded = read_recorded(golden_events(), "g")
    totals = replay_figures(recorded, replay(recorded, rules()))
    assert (totals.moves, totals.acquisitions, totals.members) == (6, 6, 1)
    assert (totals.double_ms, totals.orphans) == (0, 0)
    assert totals.orphan_ms == pytest.approx(76, abs=0.1)


def test_a_member_that_comes_back_before_its_lease_has_ended_was_silent_until_then() -> None:
    recorded = read_recorded(golden_events(), "g")
    outcome = replay(recorded, rules())
    [silent] = [span for span in outcome.spans if span.ended == "silent"]
    assert silent_ms(recorded, outcome) == pytest.approx(5_000, abs=1)
    back = silent._replace(from_ms=silent.to_ms + 300, to_ms=silent.to_ms + 900, ended="revoked")
    assert silent_ms(recorded, replace(outcome, spans=(*outcome.spans, back))) == pytest.approx(300, abs=1)
    assert silent_ms(recorded, replace(outcome, expired=())) == pytest.approx(10_000, abs=1)
