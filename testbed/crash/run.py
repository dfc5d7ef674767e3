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
from statistics import median

import anyio

from client.admin.admin import Admin
from client.admin.records import QueueProgress
from client.config import wall_clock_ms
from model.errors import GroupNotExist, RlabError, ServiceNotAvailable
from model.message_queue import MessageQueue
from process.children import DAEMON, broker_name, module_process
from testbed.cluster.registered import wait_registered
from testbed.crash.audit import Audit, CrashVerdict
from testbed.crash.brokers import BrokerProcess, appending
from testbed.crash.ledger import GROUP, Ledger
from testbed.crash.load import TOPIC, CrashLoad, run_load
from testbed.crash.read_back import read_back
from testbed.crash.schedule import Kill, Moment, next_kill
from testbed.crash.simulated import SimulatedPart, cut_power, damage_files

QUEUES = 4
"""Queues on each broker."""
SURGE_S = 0.04
"""Time before a kill in which the lanes send without pauses."""
RESTORE_GRACE_S = 2.0
"""`--restore-grace` of the brokers: the default of 10 s is longer than most of their lives."""
DRAIN_QUIET_S = 15.0
"""Time without a delivery after which messages that the group has not consumed count as lost."""
DRAIN_POLL_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashOptions:
    """Options of a run."""

    directory: Path  # empty; for the brokers' files
    kills: int = 200  # the last one of each broker included
    seed: int = 0  # of the moments of kills
    brokers: int = 2
    producers: int = 4  # with `LANES` lanes each
    consumers: int = 3
    rate: float = 400.0  # sends per second of all producers together, between the surges around kills
    broker_arguments: tuple[str, ...] = ()  # of `rlab broker`
    power_cuts: int = 0  # simulated ones, afterwards
    damage: int = 0  # trials with damaged files of simulated brokers, afterwards


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Statistics of durations in seconds; all 0 if there are no durations."""

    n: int
    min_s: float
    median_s: float
    max_s: float


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
            async with run_load(
                name_server,
                self.ledger,
                seed=options.seed,
                producers=options.producers,
                consumers=options.consumers,
                rate=options.rate,
            ) as load:
                await self._kill_and_restart(load)
                self.phase = "draining"
                await load.fall_quiet()
                if not self._broken:
                    await self._drain(name_server)
            committed = {} if self._broken else _committed(await _progress(name_server))
            await self._kill_once_more()
            audit = Audit(self.ledger)
            if not self._broken:
                self.phase = "reading back"
                await self._wait_registered(name_server)
                audit.progress(committed, await _progress(name_server))
                await read_back(name_server, [broker.name for broker in self._brokers], TOPIC, audit.queue)
        duration_s = anyio.current_time() - started
        power_cuts = damage = None
        if options.power_cuts:
            self.phase = f"cutting the power of simulated brokers {options.power_cuts} times"
            power_cuts = await cut_power(options.seed, options.power_cuts)
        if options.damage:
            self.phase = f"damaging files of simulated brokers {options.damage} times"
            damage = await damage_files(options.seed, options.damage)
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
        stderr = stack.enter_context(appending(options.directory / "namesrv.log"))
        at = ("--listen", "127.0.0.1:0", *DAEMON)
        process = module_process("namesrv", "rlab", "namesrv", *at, stderr=stderr)
        name_server = (await stack.enter_async_context(process)).address
        arguments = ["--namesrv", name_server, "--no-auto-create", "--no-trace-topic"]
        arguments += ["--restore-grace", f"{RESTORE_GRACE_S:g}", *options.broker_arguments]
        for index in range(options.brokers):
            name = broker_name(index)
            data, log = options.directory / name, options.directory / f"{name}.log"
            self._brokers.append(await stack.enter_async_context(BrokerProcess(name, data, log, arguments)))
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
        rng = Random(f"{self._options.seed} {broker.name}")
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

    async def _drain(self, name_server: str) -> None:
        """Wait until the group has consumed and committed all messages, or is stuck for `DRAIN_QUIET_S`."""
        ledger = self.ledger
        async with Admin(name_server) as admin:
            seen, quiet_since = -1, anyio.current_time()
            while anyio.current_time() - quiet_since < DRAIN_QUIET_S:
                if not ledger.messages.lost and await _lag(admin) == 0:
                    return
                if ledger.deliveries != seen:
                    seen, quiet_since = ledger.deliveries, anyio.current_time()
                await anyio.sleep(DRAIN_POLL_S)

    def _result(
        self,
        verdict: CrashVerdict,
        duration_s: float,
        power_cuts: SimulatedPart | None,
        damage: SimulatedPart | None,
    ) -> CrashResult:
        lives = [life for broker in self._brokers for life in broker.lives]
        # The first start of a broker is on an empty directory.
        later = [life for broker in self._brokers for life in broker.lives[1:]]
        return CrashResult(
            ok=verdict.ok and all(part is None or part.ok for part in (power_cuts, damage)),
            seed=self._options.seed,
            kills=self.kills,
            moments=dict(sorted(Counter(life.killed for life in lives if life.killed is not None).items())),
            duration_s=duration_s,
            verdict=verdict,
            starts=spread([life.start_s for life in later]),
            recoveries=spread([life.recovery_s for life in later]),
            scanned_bytes_max=max((life.scanned_bytes for life in lives), default=0),
            torn_tails=sum(life.cut_bytes > 0 for life in lives),
            power_cuts=power_cuts,
            damage=damage,
        )


async def _lag(admin: Admin) -> int | None:
    try:
        group = await admin.group(GROUP)
    except RlabError:
        return None
    return None if group.unreachable else group.lag


async def _progress(name_server: str) -> tuple[QueueProgress, ...]:
    async with Admin(name_server) as admin:
        try:
            return (await admin.group(GROUP)).queues
        except GroupNotExist:
            return ()


def _committed(queues: tuple[QueueProgress, ...]) -> dict[MessageQueue, int]:
    return {queue.queue: queue.committed for queue in queues if queue.committed is not None}


def spread(durations: list[float | None]) -> Spread:
    """Statistics of durations; unknown ones are None, and left out."""
    known = sorted(duration for duration in durations if duration is not None)
    if not known:
        return Spread(n=0, min_s=0.0, median_s=0.0, max_s=0.0)
    return Spread(n=len(known), min_s=known[0], median_s=median(known), max_s=known[-1])
