"""One run with copies, from the first server to the verdict.

start the set -> load -> fault, handover, loss ... -> stop producing -> let the group drain
-> kill all replicas and start them again -> let each become the master, and read everything back from it
-> compare with the ledger
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import anyio

from client.admin.admin import Admin
from client.config import wall_clock_ms
from model.counted import plural
from model.errors import RlabError
from testbed.crash.audit import Audit, CrashVerdict
from testbed.crash.brokers import name_server_process
from testbed.crash.copies.kinds import BLIND, COPIES_KINDS, NO_RESTART, find_violations
from testbed.crash.copies.replicas import SET, SetProcesses, run_set, start_all
from testbed.crash.copies.schedule import DEFAULT_STEPS, Act, Steps, draw_steps
from testbed.crash.copies.steps import SetSteps
from testbed.crash.copies.watch import Effects, StepWatch
from testbed.crash.group import committed_offsets, drain, progress_of_group
from testbed.crash.ledger import Ledger
from testbed.crash.load import DEFAULT_SIZE, TOPIC, CrashLoad, LoadSize, run_load
from testbed.crash.read_back import read_back
from testbed.crash.schedule import Moment
from testbed.crash.spread import Spread, spread

QUEUES = 8
SETTLE_S = 1.0
"""Time after a member has joined or left until its queues have moved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiesOptions:
    """Options of a run."""

    directory: Path  # empty; for the files of the replicas
    copies: int = 2  # the master included
    steps: Steps = DEFAULT_STEPS
    load: LoadSize = DEFAULT_SIZE  # its seed is also the one of the steps; members stay, so that only steps move queues
    broker_arguments: tuple[str, ...] = ()  # of `rlab broker`


@dataclass(frozen=True, slots=True, kw_only=True)
class ActFigures:
    """The effects of all steps of one kind; see `Effects`."""

    n: int
    gap: Spread
    held: Spread
    failed: int
    moved: int
    two_owners_ms: float
    twice: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFigures:
    """One step: logs of the replicas and their clients show what they did then."""

    act: Act
    seconds: float  # how long the replica was paused or away
    began_ms: float  # wall-clock time
    effects: Effects


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiesResult:
    """Result of a run: the document of `rlab crash --copies N --json`."""

    ok: bool
    seed: int
    copies: int
    duration_s: float  # from the first server to the verdict
    verdict: CrashVerdict
    acts: dict[str, ActFigures]
    steps: tuple[StepFigures, ...]
    moved_by_joins: int  # queues that moved when a member joined and left: the counter of moved queues works
    read_back: int  # replicas from which everything was read as the master


class CopiesRun:
    """One run; `progress` describes its state in a line."""

    def __init__(self, options: CopiesOptions) -> None:
        self.ledger = Ledger(wall_clock_ms)
        self.phase = "starting"
        self._options = options
        self._watch = StepWatch()
        self._steps: list[StepFigures] = []
        self._moved_by_joins = 0
        self._read_back = 0

    async def run(self) -> CopiesResult:
        """Run it.

        Raises:
            RlabError: the set could not be started, or another error prevents a verdict.

        Cancellation: all processes are stopped; the files stay.
        """
        options, started = self._options, anyio.current_time()
        async with AsyncExitStack() as stack:
            elections = ("--elections", str(options.directory / "elections"))
            name_server = await stack.enter_async_context(name_server_process(options.directory, *elections))
            admin = await stack.enter_async_context(Admin(name_server))
            arguments = ("--no-auto-create", "--no-trace-topic", *options.broker_arguments)
            replicas = await stack.enter_async_context(
                run_set(name_server, admin, options.directory, options.copies, arguments)
            )
            await admin.create_topic(TOPIC, QUEUES)
            watch = self._watch
            size = replace(options.load, churn_s=0.0)
            async with run_load(name_server, self.ledger, size, watch.acknowledged, watch.note) as load:
                await self._count_a_join(load)
                await self._take_steps(replicas, load)
                self.phase = "draining"
                await load.fall_quiet()
                if NO_RESTART not in self.ledger.findings.counts:
                    await drain(name_server, self.ledger)
            audit = await self._read_back_from_all(replicas, name_server)
        self.phase = "done"
        return self._result(audit.verdict(), anyio.current_time() - started)

    def progress(self) -> str:
        """The progress in a line."""
        options, counted = self._options, self.ledger.messages
        return (
            f"{self.phase}: {len(self._steps)} of {sum(options.steps)} steps, {counted.sent:,} acknowledged, "
            f"{counted.failed_sends:,} failed, {counted.lost:,} to consume, {counted.duplicates:,} consumed twice"
        )

    # --- the steps ---------------------------------------------------------------------------------------------------

    async def _count_a_join(self, load: CrashLoad) -> None:
        """Let a member join and leave: a counter that shows nothing then would show nothing in a handover either."""
        await anyio.sleep(SETTLE_S)
        moved_before = self._watch.moved
        name = await load.join()
        await anyio.sleep(SETTLE_S)
        await load.leave(name)
        await anyio.sleep(SETTLE_S)
        self._moved_by_joins = self._watch.moved - moved_before
        if not self._moved_by_joins:
            self.ledger.findings.add(BLIND, f"{plural(len(load.consumers), 'member')}, {QUEUES} queues")

    async def _take_steps(self, replicas: SetProcesses, load: CrashLoad) -> None:
        options = self._options
        rng = Random(f"{options.load.seed} {SET}")
        taking = SetSteps(replicas, load, self._watch, rng)
        for step in draw_steps(rng, options.steps):
            self.phase = step.act.value
            began_ms = wall_clock_ms()
            try:
                effects = await taking.take(step)
            except RlabError as error:
                self.ledger.findings.add(NO_RESTART, f"step {len(self._steps) + 1}, {step.act}: {error}")
                return
            self._steps.append(StepFigures(act=step.act, seconds=step.seconds, began_ms=began_ms, effects=effects))
            for kind, text in find_violations(step.act, effects, options.load.under_way):
                self.ledger.findings.add(kind, f"step {len(self._steps)}, {step.act}: {text}")

    # --- the end -----------------------------------------------------------------------------------------------------

    async def _read_back_from_all(self, replicas: SetProcesses, name_server: str) -> Audit:
        """Kill and start all replicas without load; then read everything back from each, as the master."""
        self.phase = "reading back"
        audit = Audit(self.ledger, COPIES_KINDS)
        if NO_RESTART in self.ledger.findings.counts:
            return audit
        try:
            committed = committed_offsets(await progress_of_group(name_server))
            for process in replicas.processes:
                await process.kill(Moment.LAST)
            await start_all(replicas.processes)
            for replica_id in (await replicas.wait_whole()).row.in_sync:
                if self._read_back:
                    audit.find_missing()
                    audit = Audit(self.ledger, COPIES_KINDS)
                if (await replicas.wait_whole()).row.master != replica_id:
                    await replicas.hand_over(replica_id)
                await replicas.wait_whole()
                await replicas.wait_registered()
                audit.progress(committed, await progress_of_group(name_server))
                await read_back(name_server, [SET], TOPIC, audit.queue)
                self._read_back += 1
        except RlabError as error:
            self.ledger.findings.add(NO_RESTART, f"when everything was read back: {error}")
        return audit

    def _result(self, verdict: CrashVerdict, duration_s: float) -> CopiesResult:
        effects_of: dict[str, list[Effects]] = {}
        for step in self._steps:
            effects_of.setdefault(step.act.value, []).append(step.effects)
        return CopiesResult(
            ok=verdict.ok,
            seed=self._options.load.seed,
            copies=self._options.copies,
            duration_s=duration_s,
            verdict=verdict,
            acts={act.value: sum_effects(effects_of[act.value]) for act in Act if act.value in effects_of},
            steps=tuple(self._steps),
            moved_by_joins=self._moved_by_joins,
            read_back=self._read_back,
        )


def sum_effects(effects: Iterable[Effects]) -> ActFigures:
    """Sum up the effects of the steps of one kind."""
    all_effects = list(effects)
    return ActFigures(
        n=len(all_effects),
        gap=spread([each.gap_s for each in all_effects]),
        held=spread([each.held_s for each in all_effects]),
        failed=sum(each.failed for each in all_effects),
        moved=sum(each.moved for each in all_effects),
        two_owners_ms=sum(each.two_owners_ms for each in all_effects),
        twice=sum(each.twice for each in all_effects),
    )
