"""Detects leaks of a run: counts everything that could grow, whenever a repaired cluster has rested."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections import Counter

from broker.store.disk.options import MIB
from testbed.simulation.checks.leaks import LeakDetector, Margin, object_counts, table_sizes
from testbed.simulation.checks.process_usage import process_usage
from testbed.simulation.cluster.cluster import SimulatedCluster
from testbed.simulation.faults.full_disk import FillingDisks, FillingDisksWithPowerCuts

WARM_UP = 2
"""Counts that are left out: tables and caches fill first."""
_MARGINS = {
    "consumer: EventLog._buffer": Margin(1.2, 200, trend=False),  # events of the last second
    # A member list is fetched again only after a change, so it may be from any moment before the repair.
    "consumer: GroupView._members_of": Margin(1.5, 64, trend=False),
    "consumer: GroupView.members": Margin(1.5, 64, trend=False),
    # The history check remembers this many events of each kind, and a run of an hour fills that.
    "objects: Event": Margin(2.0, 10_000, trend=False),
    "memory: blocks": Margin(1.2, 50_000, trend=False),
    "memory: RSS MiB": Margin(1.1, 16, trend=False),
}


class LeakCounts:
    """The counts of one run."""

    def __init__(
        self, cluster: SimulatedCluster, disks: FillingDisks | FillingDisksWithPowerCuts, warm_up: int = WARM_UP
    ) -> None:
        self._cluster, self._disks = cluster, disks
        self._detector = LeakDetector(warm_up=warm_up, margins=_MARGINS)

    def sample(self) -> None:
        """Count everything now."""
        self._detector.add_sample(self._sample())

    def grown(self) -> list[str]:
        """A line for each count that has grown from rest to rest; empty if there were too few."""
        return self._detector.grown()

    def _sample(self) -> dict[str, float]:
        gc.collect()
        cluster, usage = self._cluster, process_usage()
        loop = cluster.simulation.loop
        sample: dict[str, float] = {
            "asyncio: tasks": len(asyncio.all_tasks(loop)),
            "asyncio: timers": sum(not timer.cancelled() for _, _, timer in loop.timers),
            "asyncio: timers, with cancelled": len(loop.timers),
            "network: connections": cluster.simulation.network.statistics().connections_open,
            "store: descriptors": len(self._disks.open_files),
            "process: descriptors": usage.fds,
            "memory: blocks": sys.getallocatedblocks(),
            "memory: RSS MiB": usage.rss_bytes / MIB,
        }
        roots: dict[str, list[object]] = {
            "broker": [server.process for server in cluster.brokers.values()],
            "name server": [server.process for server in cluster.name_servers.values()],
            "consumer": [consumer.consumer for consumer in cluster.consumers],
            "producer": [producer.producer for producer in cluster.producers],
        }
        for kind, objects in roots.items():
            sizes = sum((table_sizes(each) for each in objects), Counter[str]())
            sample |= {f"{kind}: {name}": size for name, size in sizes.items()}
        return sample | {f"objects: {name}": n for name, n in object_counts().items()}
