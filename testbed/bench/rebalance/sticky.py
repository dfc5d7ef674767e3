"""sticky-first, sticky-change: time that BALANCED_STICKY takes to assign 10,000 queues to 1,000 members.

`sticky-first` is a new instance, `sticky-change` one whose group has just lost or gained a member, as in a running
client. The baseline is CONSISTENT_HASH for the same member: it remembers nothing, and its result is uneven. Figures are
medians of CPU time, because nothing here waits.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from client.allocate import AllocateMessageQueueBalancedSticky, AllocateMessageQueueConsistentHash
from model.message_queue import MessageQueue
from testbed.bench.kit.report import Result
from testbed.bench.kit.rounds import Progress, Sizes

QUEUES, MEMBERS = 10_000, 1_000
_PER_BROKER, _PER_TOPIC = 100, 2_000


async def bench_sticky(sizes: Sizes, progress: Progress) -> list[Result]:
    """Measure both."""
    progress(f"assigning {QUEUES:,} queues to {MEMBERS:,} members, {sizes.repeat} times")
    queues = [
        MessageQueue(f"topic-{n // _PER_TOPIC}", f"broker-{n % _PER_TOPIC // _PER_BROKER:02}", n % _PER_BROKER)
        for n in range(QUEUES)
    ]
    members = sorted(f"10.0.{n // 256}.{n % 256}@{n * 7919}" for n in range(MEMBERS))
    kept = AllocateMessageQueueBalancedSticky()
    kept.allocate("bench", members[0], queues, members)  # imports numpy as well
    times: dict[str, list[float]] = {"first": [], "change": [], "peer": []}
    for number in range(sizes.repeat):
        present = members[: MEMBERS - number % 2]
        fresh = AllocateMessageQueueBalancedSticky()
        times["first"].append(_cpu_ms(lambda: fresh.allocate("bench", members[0], queues, present)))  # noqa: B023
        times["change"].append(_cpu_ms(lambda: kept.allocate("bench", members[0], queues, present)))  # noqa: B023
        peer = AllocateMessageQueueConsistentHash()
        times["peer"].append(_cpu_ms(lambda: peer.allocate("bench", members[0], queues, present)))  # noqa: B023
    elapsed = {case: statistics.median(measured) for case, measured in times.items()}
    note = "against CONSISTENT_HASH"
    return [
        Result(
            name=f"sticky-{case}",
            value=elapsed[case],
            unit="ms",
            baseline_value=elapsed["peer"],
            ratio=elapsed[case] / elapsed["peer"],
            note=note,
        )
        for case in ("first", "change")
    ]


def _cpu_ms(call: Callable[[], object]) -> float:
    started = time.thread_time()
    call()
    return (time.thread_time() - started) * 1000
