"""The simulated parts of a crash run, which no signal can cause: power cuts and damaged files (`simulation/runs`).

They run in a process of their own, because the simulation has its own event loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from subprocess import PIPE

import anyio

from cli.servers.children import MODULE


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedPart:
    """Result of a simulated part."""

    ok: bool  # every promise was kept
    summary: str  # one line
    findings: tuple[str, ...]  # broken promises, or the error of the simulation


async def cut_power(seed: int, cuts: int) -> SimulatedPart:
    """Cut the power of simulated brokers that answer a send only after a sync.

    Cancellation: the simulation is stopped.
    """
    return await _simulate("simulation.runs.power_cuts", "--cuts", str(cuts), "--seed", str(seed))


async def damage_files(seed: int, trials: int) -> SimulatedPart:
    """Damage files of simulated brokers, one in each trial. Cancellation: the simulation is stopped."""
    return await _simulate("simulation.runs.damage", "--trials", str(trials), "--seed", str(seed))


async def _simulate(*arguments: str) -> SimulatedPart:
    done = await anyio.run_process([*MODULE, *arguments], stderr=PIPE, check=False)
    summary, *findings = done.stdout.decode().splitlines() or ["the simulation did not finish"]
    if done.returncode:
        findings += done.stderr.decode().splitlines()
    return SimulatedPart(ok=done.returncode == 0, summary=summary, findings=tuple(findings))
