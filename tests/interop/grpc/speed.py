"""Sends at full speed of 64 threads of the gRPC client for Java, to our broker and to RocketMQ's proxy in turns."""

from __future__ import annotations

import subprocess
from statistics import median
from typing import NamedTuple

from tests.interop.grpc.rates import cpu_s
from tests.interop.grpc.run import Command, Endpoints
from tests.interop.servers import pause, say

TOPIC, SENDS_S, TURNS, GOAL = "sends", 8, 3, 0.5


class Sends(NamedTuple):
    """The median of sends a second, and of the processor time of the servers for each."""

    rate: float
    of_servers_us: float


def sends_in_turns(java: Command, servers: dict[str, Endpoints]) -> dict[str, Sends]:
    """Send to each kind of servers in turns; every send waits for its answer. Name -> what was found."""
    turns: dict[str, list[Sends]] = {name: [] for name in servers}
    for _ in range(TURNS):
        for name, endpoints in servers.items():
            turns[name].append(sent := _sends(java, endpoints))
            cost = f"{sent.of_servers_us:,.0f} us of the servers for each"
            say(f"64 threads over gRPC to {name}: {sent.rate:,.0f}/s, {cost}")
    return {name: Sends(*map(median, zip(*found, strict=True))) for name, found in turns.items()}


def _sends(java: Command, endpoints: Endpoints) -> Sends:
    with endpoints() as endpoint:
        endpoint.create(TOPIC, "NORMAL")
        pause(2)  # until every route has it
        command = [*java[:-1], "Sends", endpoint.address, TOPIC, str(SENDS_S)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            process.stdout.readline()
            before = sum(map(cpu_s, endpoint.pids))
            _, rate, failed = process.stdout.readline().split("\t")
            spent_s = sum(map(cpu_s, endpoint.pids)) - before
    if int(failed):
        raise RuntimeError(f"{failed.strip()} sends failed")
    return Sends(float(rate), 1e6 * spent_s / (int(rate) * SENDS_S))
