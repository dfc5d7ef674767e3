"""What is said of many seeds while they run, and of each of a few."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field

import pytest

from simulation.runs.many_seeds import faults_line, run_seeds, seeds_parser, verdict_line


@dataclass
class Seed:
    seed: int
    violations: list[str] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    took_s: float = 1.0


def run_one(seed: int) -> Seed:
    return Seed(seed, ["seven is unlucky"] if seed == 7 else [])


def line_of(verdict: Seed) -> str:
    return verdict_line(verdict, "nothing sent")


def test_of_a_few_seeds_each_has_its_line_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    verdicts = list(run_seeds(run_one, [6, 7, 8], 2, line_of))
    assert [verdict.seed for verdict in verdicts] == [6, 7, 8]
    assert capsys.readouterr().out.splitlines() == [
        "seed 6: passed after 1 s; nothing sent ()",
        "seed 7: FAILED after 1 s; nothing sent ()",
        "  seven is unlucky",
        "seed 8: passed after 1 s; nothing sent ()",
    ]


def test_of_many_only_those_that_failed_have_one_and_now_and_then_how_far_it_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert len(list(run_seeds(run_one, range(100), 2, line_of))) == 100
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "5 of 100 seeds, 0 failed"
    assert said[1].startswith("seed 7: FAILED")
    assert said[-1] == "100 of 100 seeds, 1 failed"
    assert len(said) == 22


def test_faults_are_said_in_the_order_of_their_names() -> None:
    assert faults_line(Counter({"hang": 1200, "crash": 3})) == "crash 3, hang 1,200"


def test_a_command_runs_as_many_seeds_at_once_as_there_are_cores() -> None:
    chosen = seeds_parser("simulation.runs.order", "Order under churn.\n\nMore.").parse_args([])
    assert (chosen.seeds, chosen.first_seed, chosen.processes) == (500, 0, os.cpu_count())
