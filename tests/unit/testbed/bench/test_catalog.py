from __future__ import annotations

import pytest

from cli.testbed.bench import NAMES
from testbed.bench import catalog
from testbed.bench.kit.report import Result
from testbed.bench.kit.rounds import Progress, Sizes
from testbed.simulation.kernel.run import Simulation, run_simulation


def test_the_command_offers_exactly_the_benchmarks_that_there_are() -> None:
    assert tuple(catalog.BENCHMARKS) == NAMES


def test_benchmarks_run_in_the_order_they_were_asked_for_and_say_where_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def one(sizes: Sizes, progress: Progress) -> list[Result]:
        progress("begins")
        return [Result(name="one", value=sizes.seconds, unit="s")]

    async def two(sizes: Sizes, progress: Progress) -> list[Result]:
        return [Result(name="two", value=0, unit="s"), Result(name="two-p95", value=0, unit="s")]

    monkeypatch.setattr(catalog, "BENCHMARKS", {"one": one, "two": two})
    said: list[str] = []

    async def main(simulation: Simulation) -> list[Result]:
        return await catalog.run_benchmarks(["two", "one"], Sizes(seconds=7.0), said.append)

    results = run_simulation(main)
    assert [result.name for result in results] == ["two", "two-p95", "one"]
    assert results[-1].value == 7.0
    assert said == ["2/2 one: begins"]
