from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console

from testbed.crash.audit import KINDS, CrashVerdict
from testbed.crash.report import verdict_table
from testbed.crash.run import CrashResult
from testbed.crash.simulated import SimulatedPart
from testbed.crash.spread import Spread

VERDICT = CrashVerdict(
    ok=True,
    acknowledged=12_345,
    given_up=67,
    in_doubt=6,
    stored=12_350,
    stored_unacknowledged=5,
    stored_twice=4,
    consumed=12_350,
    consumed_twice=89,
    deliveries=12_500,
    findings=dict.fromkeys(KINDS, 0),
    examples=(),
)
RESULT = CrashResult(
    ok=True,
    seed=7,
    kills=20,
    moments={"last": 2, "loaded": 18},
    duration_s=31.24,
    verdict=VERDICT,
    starts=Spread(n=18, min_s=0.4, median_s=0.5, p99_s=0.7, max_s=0.75),
    recoveries=Spread(n=0, min_s=0.0, median_s=0.0, p99_s=0.0, max_s=0.0),
    scanned_bytes_max=1_048_576,
    torn_tails=1,
    power_cuts=None,
    damage=None,
)


def drawn(result: CrashResult) -> list[str]:
    console = Console(width=120, file=io.StringIO())
    console.print(verdict_table(result))
    assert isinstance(console.file, io.StringIO)
    return [" ".join(line.split()) for line in console.file.getvalue().splitlines()]


def test_the_table_has_every_figure_and_every_kind_of_finding() -> None:
    lines = drawn(RESULT)
    assert lines[0] == "PASSED"
    assert "sends failed 67 their broker was down; 6 may be stored" in lines
    assert "brokers killed 20 2 last, 18 loaded" in lines
    assert "messages acknowledged 12,345 in 31.2 s" in lines
    assert "restarts 18 0.400 to 0.750 s, median 0.500 s" in lines
    assert "recoveries" in lines
    assert "largest recovery scan 1,048,576 B 1 torn tails cut off" in lines
    assert [line for line in lines if line.endswith(KINDS["lost"])] == [f"lost 0 {KINDS['lost']}"]
    assert all(any(line.startswith(f"{kind} 0 ") for line in lines) for kind in KINDS)


def test_a_run_that_lost_something_says_so_first() -> None:
    lost = replace(RESULT, ok=False, verdict=replace(VERDICT, ok=False, findings={**VERDICT.findings, "lost": 3}))
    lines = drawn(lost)
    assert lines[0] == "FAILED"
    assert f"lost 3 {KINDS['lost']}" in lines


def test_power_cuts_have_a_line_of_their_own() -> None:
    cuts = SimulatedPart(ok=True, summary="9 power cuts in 5 virtual seconds", findings=())
    assert (
        drawn(replace(RESULT, power_cuts=cuts))[-1]
        == "guarantees of --flush sync kept 9 power cuts in 5 virtual seconds"
    )
    broken = replace(RESULT, ok=False, power_cuts=replace(cuts, ok=False))
    assert drawn(broken)[-1].startswith("guarantees of --flush sync broken")


def test_damage_has_a_line_of_its_own() -> None:
    damage = SimulatedPart(ok=True, summary="9 trials", findings=())
    assert drawn(replace(RESULT, damage=damage))[-1] == "damage to files reported 9 trials"
    assert drawn(replace(RESULT, ok=False, damage=replace(damage, ok=False)))[-1].startswith(
        "damage to files not reported"
    )
