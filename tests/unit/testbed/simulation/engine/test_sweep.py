"""A sweep has the outcomes of its cases in their order, however many processes it has."""

from __future__ import annotations

import os
import signal
import tempfile
from multiprocessing import active_children
from pathlib import Path

import anyio
import pytest

from model.errors import ConfigError
from testbed.simulation.engine.draw import draw
from testbed.simulation.engine.run import Outcome
from testbed.simulation.engine.sweep import Case, run_case, sweep
from testbed.simulation.engine.text import write_programme
from testbed.simulation.kernel.loop import MAX_TIME_S
from testbed.simulation.kernel.run import Simulation, run_simulation
from testbed.simulation.kernel.selector import SimulationTimeout

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


def run_for_long(case: Case) -> Outcome:
    """Interrupt the sweep, and run on; the file `text` shows that this came to its end."""

    async def main(_: Simulation) -> None:
        if case.seed == 0:
            os.kill(os.getppid(), signal.SIGINT)
        while True:  # noqa: ASYNC110 - for some seconds of real time
            await anyio.sleep(1)

    with tempfile.TemporaryDirectory(dir=case.text), pytest.raises(SimulationTimeout):
        run_simulation(main, limit_s=MAX_TIME_S)
    Path(case.text, "ended").touch()
    raise AssertionError("the sweep waits for its cases")


@pytest.mark.process
def test_a_sweep_that_is_interrupted_ends_its_processes_in_the_middle_of_a_case(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(KeyboardInterrupt):
        list(sweep([Case(seed=seed, text=str(tmp_path)) for seed in range(40)], 2, run_for_long))
    assert capfd.readouterr().err == ""
    assert active_children() == []
    assert list(tmp_path.iterdir()) == [], "no case came to its end, and none left files"
