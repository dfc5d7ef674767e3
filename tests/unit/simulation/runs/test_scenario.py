"""What is printed of many seeds while they run, and of each of a few."""

from __future__ import annotations

import logging
import os
from argparse import Namespace
from collections import Counter

import pytest
from anyio.abc import TaskGroup

from simulation.cluster.cluster import SimulatedCluster
from simulation.faults.full_disk import FillingDisks
from simulation.runs.scenario import SeedVerdict, faults_line, run_seed, run_seeds, seeds_parser


def run_one(seed: int) -> SeedVerdict:
    return SeedVerdict(seed, ["seven is unlucky", "twice"] if seed == 7 else [], took_s=1.0)


def run(first_seed: int, seeds: int) -> int:
    chosen = Namespace(seeds=seeds, first_seed=first_seed, processes=2)
    return run_seeds(chosen, SeedVerdict, lambda seed: seed, run_one, lambda verdict: "nothing sent")


def test_of_a_few_seeds_each_has_its_line_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(6, 3) == 1
    assert capsys.readouterr().out.splitlines() == [
        "seed 6: passed after 1 s; nothing sent ()",
        "seed 7: FAILED after 1 s; nothing sent ()",
        "  seven is unlucky",
        "  twice",
        "seed 8: passed after 1 s; nothing sent ()",
        "3 seeds, 1 failed; nothing sent; ",
    ]


def test_of_many_only_those_that_failed_have_one_and_now_and_then_how_far_it_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(0, 100) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "5 of 100 seeds, 0 failed"
    assert said[1].startswith("seed 7: FAILED")
    assert said[-2] == "100 of 100 seeds, 1 failed"
    assert len(said) == 24


def test_without_a_failure_the_exit_code_is_zero() -> None:
    assert run(8, 2) == 0


def test_faults_are_said_in_the_order_of_their_names() -> None:
    assert faults_line(Counter({"hang": 1200, "crash": 3})) == "crash 3, hang 1,200"


def test_a_command_runs_as_many_seeds_at_once_as_there_are_cores() -> None:
    chosen = seeds_parser("simulation.runs.order", "Order under churn.\n\nMore.").parse_args([])
    assert (chosen.seeds, chosen.first_seed, chosen.processes) == (500, 0, os.cpu_count())


def test_a_run_that_breaks_down_is_a_verdict_with_that_violation(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL + 1)

    async def fails(cluster: SimulatedCluster, disks: FillingDisks, tasks: TaskGroup) -> SeedVerdict:
        raise AssertionError("an index is wrong")

    verdict = run_seed(3, SeedVerdict, fails)
    assert verdict.seed == 3
    assert len(verdict.violations) == 1
    assert "an index is wrong" in verdict.violations[0]
