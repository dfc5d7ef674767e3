"""One crash run, from the first server to the verdict.

start the servers -> load -> kill, restart, kill ... -> stop producing -> let the group drain
-> kill every broker once more -> read everything back -> compare with the ledger
"""

from __future__ import annotations

from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random

import anyio

from client.admin.admin import Admin
from client.config import wall_clock_ms
from model.errors import ServiceNotAvailable
from process.children import broker_name
from testbed.cluster.registered import wait_registered
from testbed.crash.audit import Audit, CrashVerdict
from testbed.crash.brokers import BrokerProcess, name_server_process
from testbed.crash.group import committed_offsets, drain, progress_of_group
from testbed.crash.ledger import Ledger
from testbed.crash.load import DEFAULT_SIZE, SURGE_S, TOPIC, CrashLoad, LoadSize, run_load
from testbed.crash.read_back import read_back
from testbed.crash.schedule import Kill, Moment, next_kill
from testbed.crash.simulated import SimulatedPart, cut_power, damage_files
from testbed.crash.spread import Spread, spread

QUEUES = 4
"""Queues on each broker."""
RESTORE_GRACE_S = 2.0
"""`--restore-grace` of the brokers: the default of 10 s is longer than most of their lives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashOptions:
    """Options of a run."""

    directory: Path  # empty; for the brokers' files
    kills: int = 200  # the last one of each broker included
    load: LoadSize = DEFAULT_SIZE  # its seed is also the one of the moments of kills
    brokers: int = 2
    broker_arguments: tuple[str, ...] = ()  # of `rlab broker`
    power_cuts: int = 0  # simulated ones, afterwards
    damage: int = 0  # trials with damaged files of simulated brokers, afterwards


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashResult:
    """Result of a run: the document of `rlab crash --json`."""

    ok: bool
    seed: int
    kills: int
    moments: dict[str, int]  # kills by moment
    duration_s: float  # from the first server to the verdict
    verdict: CrashVerdict
    starts: Spread  # from the start of a broker process until it listens
    recoveries: Spread  # the parts of these starts in which a broker opened its files
    scanned_bytes_max: int  # the most bytes that one recovery read
    torn_tails: int  # recoveries that cut off a torn write
    power_cuts: SimulatedPart | None
    damage: SimulatedPart | None


class CrashRun:
    """One run; `progress` describes its state in a line."""

    def __init__(self, options: CrashOptions) -> None:
        self.ledger = Ledger(wall_clock_ms)
        self.kills = 0  # so far
        self.phase = "starting"
        self._options = options
        self._kills_left = options.kills - options.brokers
        self._brokers: list[BrokerProcess] = []

    async def run(self) -> CrashResult:
        """Run it.

        Raises:
            RlabError: the cluster could not be started, or another error prevents a verdict.

        Cancellation: all processes are stopped; the files stay.
        """
        options, started = self._options, anyio.current_time()
        async with AsyncExitStack() as stack:
            name_server = await self._start_servers(stack)
            async with run_load(name_server, self.ledger, options.load) as load:
                await self._kill_and_restart(load)
                self.phase = "draining"
                await load.fall_quiet()
                if not self._broken:
                    await drain(name_server, self.ledger)
            committed = {} if self._broken else committed_offsets(await progress_of_group(name_server))
            await self._kill_once_more()
            audit = Audit(self.ledger)
            if not self._broken:
                self.phase = "reading back"
                await self._wait_registered(name_server)
                audit.progress(committed, await progress_of_group(name_server))
                await read_back(name_server, [broker.name for broker in self._brokers], TOPIC, audit.queue)
        duration_s = anyio.current_time() - started
        power_cuts = damage = None
        if options.power_cuts:
            self.phase = f"cutting the power of simulated brokers {options.power_cuts} times"
            power_cuts = await cut_power(options.load.seed, options.power_cuts)
        if options.damage:
            self.phase = f"damaging files of simulated brokers {options.damage} times"
            damage = await damage_files(options.load.seed, options.damage)
        self.phase = "done"
        return self._result(audit.verdict(), duration_s, power_cuts, damage)

    def progress(self) -> str:
        """The progress in a line."""
        counted = self.ledger.messages
        return (
            f"{self.phase}: {self.kills} of {self._options.kills} kills, {counted.sent:,} acknowledged, "
            f"{counted.failed_sends:,} failed, {counted.lost:,} to consume, {counted.duplicates:,} consumed twice"
        )

    # --- the cluster -------------------------------------------------------------------------------------------------

    async def _start_servers(self, stack: AsyncExitStack) -> str:
        """Start the servers and create the topic; returns the address of the name server."""
        options = self._options
        name_server = await stack.enter_async_context(name_server_process(options.directory))
        arguments = ["--namesrv", name_server, "--no-auto-create", "--no-trace-topic"]
        arguments += ["--restore-grace", f"{RESTORE_GRACE_S:g}", *options.broker_arguments]
        for index in range(options.brokers):
            name = broker_name(index)
            data, log = options.directory / name, options.directory / f"{name}.log"
            broker = BrokerProcess(name, data, log, ["--name", name, *arguments])
            self._brokers.append(await stack.enter_async_context(broker))
        async with anyio.create_task_group() as tasks:
            for broker in self._brokers:
                tasks.start_soon(broker.start)
        await self._wait_registered(name_server)
        async with Admin(name_server) as admin:
            await admin.create_topic(TOPIC, QUEUES)
        return name_server

    async def _wait_registered(self, name_server: str) -> None:
        async with Admin(name_server) as admin:
            await wait_registered(admin, [broker.address for broker in self._brokers])

    @property
    def _broken(self) -> bool:
        return any(broker.failures for broker in self._brokers)

    # --- killing -----------------------------------------------------------------------------------------------------

    async def _kill_and_restart(self, load: CrashLoad) -> None:
        self.phase = "killing"
        async with anyio.create_task_group() as tasks:
            for broker in self._brokers:
                tasks.start_soon(self._torment, broker, load)

    async def _torment(self, broker: BrokerProcess, load: CrashLoad) -> None:
        """Kill and restart one broker while kills are left; the broker is running at the end."""
        rng = Random(f"{self._options.load.seed} {broker.name}")
        try:
            while self._kills_left > 0 and not self._broken:
                self._kills_left -= 1
                kill = next_kill(rng)
                if await broker.live(kill):
                    await self._wait_moment(broker, kill, load)
                self.kills += 1
            await broker.start()
        except ServiceNotAvailable as error:
            if not broker.failures:
                raise
            self.ledger.findings.add("no restart", str(error))

    async def _wait_moment(self, broker: BrokerProcess, kill: Kill, load: CrashLoad) -> None:
        """Wait for the moment of the kill, and kill the broker, which listens."""
        if kill.moment is not Moment.STARTED:
            await load.wait_flow(broker.name)
        if kill.moment is Moment.LOADED:
            await anyio.sleep(kill.delay)
        with load.turns.surge():
            if kill.moment is Moment.ROLLING:
                await broker.wait_segment()
            await anyio.sleep(SURGE_S if kill.moment is Moment.LOADED else kill.delay)
            await broker.kill(kill.moment)

    async def _kill_once_more(self) -> None:
        """Kill and restart every broker without load, so that all its data comes from its files."""
        for broker in self._brokers:
            if self._broken:
                return
            try:
                await broker.kill(Moment.LAST)
                self.kills += 1
                await broker.start()
            except ServiceNotAvailable as error:
                self.ledger.findings.add("no restart", str(error))

    # --- the end -----------------------------------------------------------------------------------------------------

    def _result(
        self,
        verdict: CrashVerdict,
        duration_s: float,
        power_cuts: SimulatedPart | None,
        damage: SimulatedPart | None,
    ) -> CrashResult:
        lives = [broker_run for broker in self._brokers for broker_run in broker.lives]
        # The first start of a broker is on an empty directory.
        later = [broker_run for broker in self._brokers for broker_run in broker.lives[1:]]
        return CrashResult(
            ok=verdict.ok and all(part is None or part.ok for part in (power_cuts, damage)),
            seed=self._options.load.seed,
            kills=self.kills,
            moments=dict(
                sorted(Counter(broker_run.killed for broker_run in lives if broker_run.killed is not None).items())
            ),
            duration_s=duration_s,
            verdict=verdict,
            starts=spread([broker_run.start_s for broker_run in later]),
            recoveries=spread([broker_run.recovery_s for broker_run in later]),
            scanned_bytes_max=max((broker_run.scanned_bytes for broker_run in lives), default=0),
            torn_tails=sum(broker_run.cut_bytes > 0 for broker_run in lives),
            power_cuts=power_cuts,
            damage=damage,
        )
