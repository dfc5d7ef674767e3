from __future__ import annotations

import io

from rich.console import Console

from testbed.crash.audit import CrashVerdict
from testbed.crash.copies.kinds import COPIES_KINDS
from testbed.crash.copies.report import LABELS, copies_table
from testbed.crash.copies.run import CopiesResult, sum_effects
from testbed.crash.copies.schedule import Act
from testbed.crash.copies.watch import Effects

EFFECTS = Effects(gap_s=0.1234, held_s=0.25, failed=1, moved=2, two_owners_ms=0.0, twice=3)


def result(**findings: int) -> CopiesResult:
    return CopiesResult(
        ok=not findings,
        seed=7,
        copies=3,
        duration_s=31.24,
        verdict=CrashVerdict(
            ok=not findings,
            acknowledged=12_345,
            given_up=67,
            in_doubt=6,
            stored=12_350,
            stored_unacknowledged=5,
            stored_twice=4,
            consumed=12_350,
            consumed_twice=89,
            deliveries=12_500,
            findings={**dict.fromkeys(COPIES_KINDS, 0), **findings},
            examples=(),
        ),
        acts={act.value: sum_effects([EFFECTS, EFFECTS]) for act in Act},
        steps=(),
        moved_by_joins=10,
        read_back=3,
    )


def drawn(shown: CopiesResult) -> list[str]:
    console = Console(width=160, file=io.StringIO())
    console.print(copies_table(shown))
    assert isinstance(console.file, io.StringIO)
    return [" ".join(line.split()) for line in console.file.getvalue().splitlines()]


def test_the_table_has_the_figures_of_each_act_and_every_kind_of_finding() -> None:
    lines = drawn(result())
    assert lines[:3] == [
        "PASSED",
        "copies 3 everything was read back from 3 of them as the master",
        "messages acknowledged 12,345 in 31.2 s",
    ]
    for label in LABELS.values():
        assert f"{label} 2 4 queues moved, 6 messages twice, 2 sends failed" in lines
    assert lines.count(
        "longest time without an acknowledged send 0.123 s p99 0.123 s, 0.123 to 0.123 s, median 0.123 s"
    ) == len(LABELS)
    assert all(any(line.startswith(f"{kind} 0 ") for line in lines) for kind in COPIES_KINDS)


def test_a_queue_that_moved_makes_it_fail() -> None:
    lines = drawn(result(**{"queue moved": 1}))
    assert lines[0] == "FAILED"
    assert f"queue moved 1 {COPIES_KINDS['queue moved']}" in lines
