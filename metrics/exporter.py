"""The exporter: follows the trace of a cluster, and shows the metrics of its groups.

`metrics/endpoint.py` serves the metrics; `rlab exporter` starts both.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import anyio
from prometheus_client import CollectorRegistry

from client.admin.admin import Admin
from client.config import wall_clock_ms
from metrics.exposition import add_table, histogram
from metrics.families import GROUP_BALANCE
from metrics.trace_counts import SETTLE_MS, TraceCounts
from model.errors import NetworkError
from traces.check.words import clock_text
from traces.figures.clocks.live import LiveClocks
from traces.figures.records import Rebalance

logger = logging.getLogger(__name__)

READ_INTERVAL_S = 0.5


def make_counts(registry: CollectorRegistry, settle_ms: float = SETTLE_MS) -> TraceCounts:
    """Create counts of a trace that a registry shows; see `TraceCounts`."""
    balance = histogram(registry, GROUP_BALANCE)

    def ended(rebalance: Rebalance) -> None:
        balance.labels(group=rebalance.group, cause=rebalance.kind).observe(max(0.0, rebalance.balance_ms / 1000))

    counts = TraceCounts(settle_ms=settle_ms, on_rebalance=ended)
    add_table(registry, counts.metrics)
    return counts


async def follow_trace(
    name_servers: str,
    counts: TraceCounts,
    *,
    since_ms: float | None = None,
    clock_ms: Callable[[], float] = wall_clock_ms,
) -> None:
    """Count the events of a cluster until cancelled, including the events of brokers that register later.

    Args:
        name_servers: addresses, separated by commas.
        counts: receives the events.
        since_ms: wall clock in milliseconds; by default the counts begin with the oldest events that the brokers still
            have.
        clock_ms: wall clock in milliseconds.

    Raises:
        ConnectFailed: no name server answers at the start.

    Cancellation: harmless.
    """
    loop, clocks = asyncio.get_running_loop(), LiveClocks()
    async with Admin(name_servers) as admin:
        trace = admin.trace(since_ms)
        while True:
            try:
                counts.add(clocks.correct(await trace.read(), loop.time()))
                for fault in clocks.news():
                    logger.warning("%s", clock_text(fault))
                missing = await trace.missing()
                # Only new missing parts are logged: a line for all of them at each read would fill the log.
                if missing.parts.keys() - counts.missing.parts.keys():
                    logger.warning("the figures of groups are incomplete: %s", missing)
                counts.missing = missing
            except NetworkError as error:
                # The next read goes on where this one failed.
                logger.warning("the trace cannot be read for now: %s", error)
            counts.advance(clock_ms())
            await anyio.sleep(READ_INTERVAL_S)
