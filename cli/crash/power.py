"""Simulated power cuts, which no signal can cause: the second part of a crash run (`simulation/runs/power_cuts.py`).

They run in a process of their own, because the simulation has its own event loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from subprocess import PIPE

import anyio

from cli.servers.children import MODULE


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerCuts:
    """Result of power cuts."""

    ok: bool  # every guarantee of `flush = sync` was kept
    summary: str  # one line
    findings: tuple[str, ...]  # losses, changes and messages out of order, or the error of the simulation


async def cut_power(seed: int, cuts: int) -> PowerCuts:
    """Cut the power of simulated brokers that answer a send only after a sync.

    Cancellation: the simulation is stopped.
    """
    command = [*MODULE, "simulation.runs.power_cuts", "--cuts", str(cuts), "--seed", str(seed)]
    done = await anyio.run_process(command, stderr=PIPE, check=False)
    summary, *findings = done.stdout.decode().splitlines() or ["the simulation did not finish"]
    if done.returncode:
        findings += done.stderr.decode().splitlines()
    return PowerCuts(ok=done.returncode == 0, summary=summary, findings=tuple(findings))
