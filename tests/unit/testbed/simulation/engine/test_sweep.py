"""A sweep has the outcomes of its cases in their order, however many processes it has."""

from __future__ import annotations

import pytest

from model.errors import ConfigError
from testbed.simulation.engine.draw import draw
from testbed.simulation.engine.sweep import Case, run_case, sweep
from testbed.simulation.engine.text import write_programme

SHORT = """
lasts_s = 10.0
[[step]]
at_s = 1.0
do = "flap"
who = "billing-1"
n = 3
period_s = 2.0
[[step]]
at_s = 2.0
do = "crash"
who = "broker-a"
"""


def test_a_case_is_its_programme() -> None:
    drawn = draw(3, "pop")
    assert Case(seed=3, kind="pop").programme() == drawn
    assert Case(seed=3, text=write_programme(drawn)).programme() == drawn
    assert Case(seed=4, text=write_programme(drawn)).programme().seed == 4
    assert Case(seed=3, quirks=("RANDOM_VIEW",)).programme() == draw(3).with_quirks(["RANDOM_VIEW"])
    with pytest.raises(ConfigError):
        Case(seed=0, text="nothing = 1").programme()


def test_a_sweep_has_the_outcomes_of_its_cases_in_their_order() -> None:
    cases = [Case(seed=seed, text=SHORT) for seed in (5, 3)]
    outcomes = list(sweep(cases))
    assert [outcome.seed for outcome in outcomes] == [5, 3]
    assert outcomes == [run_case(case) for case in cases]


@pytest.mark.process
def test_processes_that_hash_strings_differently_have_the_same_events(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [Case(seed=seed, text=SHORT) for seed in range(4)]
    monkeypatch.setenv("PYTHONHASHSEED", "1")  # of the four processes; ours has its own
    outcomes = list(sweep(cases, 4))
    assert outcomes == list(sweep(cases))
    assert len({outcome.digest for outcome in outcomes}) == 4
