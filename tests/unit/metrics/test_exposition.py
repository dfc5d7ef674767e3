from __future__ import annotations

import anyio
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from metrics.exposition import SAMPLE_INTERVAL_S, add_table, histogram, watch_loop_delay
from metrics.families import CONNECTIONS, LAG, LOOP_DELAY, MOVES, REQUESTS, Samples
from remoting.tasks import background_tasks
from testbed.simulation.kernel.run import Simulation, run_simulation


def test_a_table_is_read_at_each_scrape() -> None:
    registry, connections = CollectorRegistry(), 0

    def read() -> list[Samples]:
        return [(CONNECTIONS, [((), connections)]), (LAG, [(("g", "t"), 7)]), (MOVES, [(("g",), 2)])]

    add_table(registry, read)
    for connections in (3, 4):
        text = generate_latest(registry).decode()
        assert f"rlab_connections {float(connections)}" in text
        assert 'rlab_group_lag{group="g",topic="t"} 7.0' in text
        assert 'rlab_queue_moves_total{group="g"} 2.0' in text


def test_a_label_may_be_any_name() -> None:
    registry = CollectorRegistry()
    add_table(registry, lambda: [(MOVES, [(('a"b\\c\n',), 1)])])
    assert 'rlab_queue_moves_total{group="a\\"b\\\\c\\n"} 1.0' in generate_latest(registry).decode()


def test_a_histogram_has_its_buckets_and_no_series_of_when_it_was_made() -> None:
    registry = CollectorRegistry()
    histogram(registry, REQUESTS).labels(code="SEND_MESSAGE", result="SUCCESS").observe(0.002)
    text = generate_latest(registry).decode()
    assert 'rlab_request_seconds_bucket{code="SEND_MESSAGE",le="0.0025",result="SUCCESS"} 1.0' in text
    assert 'rlab_request_seconds_bucket{code="SEND_MESSAGE",le="0.001",result="SUCCESS"} 0.0' in text
    assert "created" not in text


@pytest.mark.simulation
def test_the_delay_of_the_loop_is_observed_a_few_times_a_second() -> None:
    registry = CollectorRegistry()

    async def main(simulation: Simulation) -> None:
        async with background_tasks() as tasks:
            tasks.start_soon(watch_loop_delay, registry)
            await anyio.sleep(10 * SAMPLE_INTERVAL_S + 0.01)

    run_simulation(main)
    assert f"{LOOP_DELAY.name}_count 10.0" in generate_latest(registry).decode()
