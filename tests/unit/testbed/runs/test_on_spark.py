"""A case and its outcome travel to any worker and back; `tests/spark/test_sim_sweep.py` sends them through Spark."""

from __future__ import annotations

import pickle

from testbed.simulation.engine.sweep import Case, run_case


def test_a_case_and_its_outcome_survive_the_way_to_another_machine() -> None:
    case = Case(seed=1, text="lasts_s = 1.0", quirks=("SILENT_EXPIRY",))
    there: Case = pickle.loads(pickle.dumps(case))
    assert there == case
    outcome = run_case(there)
    assert pickle.loads(pickle.dumps(outcome)) == outcome
