from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

from testbed.bench import catalog
from testbed.bench.kit.report import Result
from testbed.bench.kit.rounds import Progress, Sizes
from testbed.simulation.kernel.run import Simulation, run_simulation

pytestmark = pytest.mark.walk

FOLDER = Path(catalog.__file__).parent


def test_every_name_is_a_coroutine_function_of_sizes_and_progress() -> None:
    for name in catalog.BENCHMARKS:
        function = catalog.benchmark(name)
        assert inspect.iscoroutinefunction(function), name
        assert list(inspect.signature(function).parameters) == ["sizes", "progress"], name
    assert set(catalog.BY_NAME_ONLY) < set(catalog.BENCHMARKS)


def test_every_benchmark_of_the_package_has_one_name() -> None:
    source = {
        f"{'.'.join(file.relative_to(FOLDER).with_suffix('').parts)}:{node.name}"
        for file in FOLDER.rglob("*.py")
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.AsyncFunctionDef) and node.name.startswith("bench_")
    }
    assert sorted(catalog.BENCHMARKS.values()) == sorted(source)


def test_benchmarks_run_in_the_order_they_were_asked_for_and_say_where_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def one(sizes: Sizes, progress: Progress) -> list[Result]:
        progress("begins")
        return [Result(name="one", value=sizes.seconds, unit="s")]

    async def two(sizes: Sizes, progress: Progress) -> list[Result]:
        return [Result(name="two", value=0, unit="s"), Result(name="two-p95", value=0, unit="s")]

    monkeypatch.setattr(catalog, "benchmark", {"one": one, "two": two}.__getitem__)
    said: list[str] = []

    async def main(simulation: Simulation) -> list[Result]:
        return await catalog.run_benchmarks(["two", "one"], Sizes(seconds=7.0), said.append)

    results = run_simulation(main)
    assert [result.name for result in results] == ["two", "two-p95", "one"]
    assert results[-1].value == 7.0
    assert said == ["2/2 one: begins"]
