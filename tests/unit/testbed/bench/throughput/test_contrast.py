from __future__ import annotations

import pytest

from testbed.bench.throughput.contrast import (
    MEMBERS,
    PER_S,
    QUEUES,
    WAYS,
    ContrastOutcome,
    make_results,
    measure_contrast,
)

WAY = {way.name: way for way in WAYS}


@pytest.mark.simulation
def test_who_shares_queues_waits_for_the_slow_member_and_who_shares_messages_does_not() -> None:
    by_queue, by_message = (measure_contrast(WAY[name], 3.0) for name in ("queues", "messages"))
    assert sum(by_queue.finished) == sum(by_message.finished) == 3 * PER_S
    assert [n > 0 for n in by_queue.finished] == [number < QUEUES for number in range(MEMBERS)]
    assert all(by_message.finished), "every member gets work"
    assert max(by_queue.backlog) > 100 > MEMBERS >= max(by_message.backlog)
    assert max(by_queue.latencies_s) > 10
    assert max(by_message.latencies_s) < 0.11, "what the slow one takes for one message"


def test_the_figures_are_the_largest_backlog_and_latencies_and_report_who_worked() -> None:
    latencies = tuple(n / 100 for n in range(1, 101))
    outcome = ContrastOutcome(backlog=(0, 7, 3, 0), latencies_s=latencies, finished=(60, 40, 0), drained_s=12.34)
    backlog, median, high = make_results(WAY["queues"], outcome)
    assert (backlog.name, backlog.value) == ("contrast-queues-backlog", 7)
    assert backlog.note == "2 of 3 members got work; 100 done after 12.3 s"
    assert (median.name, median.value, median.unit) == ("contrast-queues-p50", 500.0, "ms")
    assert (high.name, high.value) == ("contrast-queues-p99", 990.0)
