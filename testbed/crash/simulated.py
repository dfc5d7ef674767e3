"""The simulated parts of a crash run: power cuts (`rlab sim`) and damaged files, which no signal can cause.

They run in a separate process, because the simulation has its own event loop.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from subprocess import PIPE

import anyio

from process.children import MODULE

CUTS_OF_A_PROGRAMME = 5
"""A drawn programme of the kind `power` has at least as many power cuts on average."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedPart:
    """Result of a simulated part."""

    ok: bool  # every promise was kept
    summary: str  # one line
    findings: tuple[str, ...]  # broken promises, or the error of the simulation


async def cut_power(seed: int, cuts: int) -> SimulatedPart:
    """Cut the power of simulated brokers about `cuts` times. The brokers answer a send only after a sync.

    Cancellation: the simulation is stopped.
    """
    seeds = max(2, math.ceil(cuts / CUTS_OF_A_PROGRAMME))  # for a single seed rlab sim prints another document
    words = ["--kind", "power", "--seed", str(seed), "--seeds", str(seeds), "--json"]
    ok, lines, errors = await _simulate("rlab", "sim", *words)
    if not lines:
        return SimulatedPart(ok=False, summary=_NOT_FINISHED, findings=errors)
    result = json.loads(lines[-1])
    done, sent, failed = result["steps"].get("power_cut", 0), result["messages"], len(result["failed"])
    summary = f"{done} power cuts in {seeds} programmes: {sent:,} acknowledged, {failed} programmes failed"
    return SimulatedPart(ok=ok, summary=summary, findings=() if ok else errors)


async def damage_files(seed: int, trials: int) -> SimulatedPart:
    """Damage files of simulated brokers, one in each trial. Cancellation: the simulation is stopped."""
    ok, lines, errors = await _simulate("testbed.simulation.runs.damage", "--trials", str(trials), "--seed", str(seed))
    summary, *findings = lines or (_NOT_FINISHED,)
    return SimulatedPart(ok=ok, summary=summary, findings=(*findings, *(() if ok else errors)))


_NOT_FINISHED = "the simulation did not finish"


async def _simulate(*arguments: str) -> tuple[bool, tuple[str, ...], tuple[str, ...]]:
    """Run a simulation. Returns whether it succeeded, and the lines of its stdout and of its stderr."""
    done = await anyio.run_process([*MODULE, *arguments], stderr=PIPE, check=False)
    return done.returncode == 0, tuple(done.stdout.decode().splitlines()), tuple(done.stderr.decode().splitlines())
