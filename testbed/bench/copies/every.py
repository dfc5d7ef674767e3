"""copies: sends to sets of one and of two replicas, and replicas that copy the log. Run only by name."""

from __future__ import annotations

from testbed.bench.copies.catch_up import measure_copies
from testbed.bench.copies.sends import measure_sends
from testbed.bench.kit.report import Result
from testbed.bench.kit.rounds import Progress, Sizes


async def bench_copies(sizes: Sizes, progress: Progress) -> list[Result]:
    """Measure sends, and then the copies of a log."""
    return [*await measure_sends(sizes, progress), *await measure_copies(sizes, progress)]
