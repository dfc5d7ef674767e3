"""The second part of the verdict: power cuts, which no signal can make, simulated (`simulation/runs/power_cuts.py`).

In a process of its own, because the simulation brings its own loop, and takes as long as it takes.
"""

from __future__ import annotations

from dataclasses import dataclass
from subprocess import PIPE

import anyio

from cli.servers.children import MODULE


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerCuts:
    """What came of power cuts.

    Attributes:
        ok: whether every promise of `flush = sync` was kept.
        summary: how it went, in a line.
        findings: what was lost, changed or out of order, if anything was; or what the simulation died of.
    """

    ok: bool
    summary: str
    findings: tuple[str, ...]


async def cut_power(seed: int, cuts: int) -> PowerCuts:
    """Cut the power of simulated brokers that answer a send only after a sync.

    Args:
        seed: decides everything.
        cuts: how often.

    Cancellation: the simulation is ended.
    """
    command = [*MODULE, "simulation.runs.power_cuts", "--cuts", str(cuts), "--seed", str(seed)]
    done = await anyio.run_process(command, stderr=PIPE, check=False)
    summary, *findings = done.stdout.decode().splitlines() or ["the simulation did not come to its end"]
    if done.returncode:
        findings += done.stderr.decode().splitlines()
    return PowerCuts(ok=done.returncode == 0, summary=summary, findings=tuple(findings))
