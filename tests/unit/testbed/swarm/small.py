"""A swarm of a second, for tests."""

from __future__ import annotations

from testbed.swarm.run import SwarmRunOptions


def small_swarm(name_servers: str, processes: int, *, name: str = "t", consumers: int = 3) -> SwarmRunOptions:
    return SwarmRunOptions(
        name_servers=name_servers,
        topic=name,
        group=name,
        queues=6,
        consumers=consumers,
        producers=2,
        rate=200.0,
        body_bytes=64,
        churn_s=0.2,
        seed=0,
        processes=processes,
        duration_s=1.0,
        session_timeout_s=20.0,
    )
