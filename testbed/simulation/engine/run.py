"""Runs one programme in its own simulated world and directory, and checks it.

    start everything; do each step at its time; repair; the groups converge; every message is settled

Invariant: equal programmes give equal outcomes, and the same events, whose digest is part of the outcome.
"""

from __future__ import annotations

import hashlib
import logging
import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio

from broker.retention.plan import RetentionOptions
from broker.store.disk.options import MIB, StoreOptions
from broker.transactions.table import TransactionOptions
from model.counted import plural
from model.errors import RlabError
from model.event_log import EventSink
from model.events import Event
from model.message_queue import MessageQueue
from model.record import FlushMode
from model.replica_set import Acks, Elect
from remoting.tasks import background_tasks
from testbed.simulation.cluster.access import SERVER_ACCESS
from testbed.simulation.cluster.cluster import SimulatedCluster
from testbed.simulation.engine.acts import Acts
from testbed.simulation.engine.checkers import Checkers, Finding
from testbed.simulation.engine.load import SimulatedLoad
from testbed.simulation.engine.pops import count_unacknowledged, watch_brokers
from testbed.simulation.engine.programme import ClockPart, Programme
from testbed.simulation.engine.rest import LeakCounts
from testbed.simulation.engine.sets.live import SetLiveness
from testbed.simulation.engine.sets.watch import SetWatch
from testbed.simulation.faults.full_disk import FillingDisks, FillingDisksWithPowerCuts
from testbed.simulation.faults.request_filters import RequestFilters
from testbed.simulation.kernel.run import EPOCH_MS, Simulation, run_simulation
from testbed.simulation.kernel.selector import SimulationDeadlock, SimulationTimeout

logger = logging.getLogger(__name__)

SMALL_STORE = StoreOptions(segment_bytes=MIB // 4, tail_bytes=MIB // 32, index_cache_bytes=MIB // 64)
"""For brokers that live minutes: segments end, and reads miss the caches, as they do in days."""
SMALLEST_STORE = StoreOptions(segment_bytes=8_192, tail_bytes=8_192)
"""For brokers that lose power, and replicas whose logs are cut: both hit the change from one segment to the next."""
_BREAKDOWNS = (
    *(RlabError, ExceptionGroup, SimulationDeadlock, SimulationTimeout, TimeoutError),
    *(AssertionError, ArithmeticError, LookupError, TypeError, ValueError),
)
"""The exceptions of a server or client with a bug: a finding, which must not end a sweep."""
MEMORY, ROOM_BYTES = Path("/dev/shm"), 1024 * MIB
"""The space that a file system in memory needs to have free, which is far more than a run stores."""
POLL_S = 0.25
"""How often a repaired cluster is checked: the precision of the time that it needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of a run.

    Attributes:
        digest: SHA-256 of all events of all nodes, in their order.
        converged_s: how long the groups took after each repair.
        again: deliveries of a message that its consumers got before.
        acts: verb -> how often it was done.
    """

    seed: int
    findings: tuple[Finding, ...]
    digest: str
    events: int
    took_s: float  # virtual seconds
    converged_s: tuple[float, ...]
    sent: int
    failed_sends: int
    deliveries: int
    again: int
    dead_letters: int
    round_trips: int  # packets that arrived, halved: about the number of requests with their answers
    acts: dict[str, int]

    @property
    def ok(self) -> bool:
        """Whether every promise was kept."""
        return not self.findings

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of the findings, each once, sorted."""
        return tuple(sorted({finding.kind for finding in self.findings}))


def run_programme(programme: Programme, *, watch: EventSink | None = None) -> Outcome:
    """Run a programme; `watch` is called with every event.

    A run that breaks down, because for instance a server does not start again, has that as its finding.
    """
    state = _State(programme)
    with tempfile.TemporaryDirectory(dir=_directory()) as root:
        try:
            run_simulation(
                lambda world: _Run(state, world, Path(root), watch).run(), seed=programme.seed, jitter_s=0.001
            )
        except _BREAKDOWNS as error:
            logger.debug("seed %d", programme.seed, exc_info=error)
            state.checkers.find("breakdown", f"{type(error).__name__}: {_first_line(error)}")
    return state.outcome()


def _directory() -> Path | None:
    """The folder for the files of a run: in memory if there is room, because a real disk would only be slower."""
    has_room = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= ROOM_BYTES
    return MEMORY if has_room else None


def _first_line(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error).partition("\n")[0] or repr(error)


class _State:
    """The state that outlives the world of a run: its checkers and its figures."""

    def __init__(self, programme: Programme) -> None:
        self.programme = programme
        self.world: Simulation | None = None  # once there is one
        self.checkers = Checkers(programme, self.now_ms)
        self.digest = hashlib.sha256()
        self.all_consumed = False  # whether it came to its end
        self.events = 0
        self.converged_s: list[float] = []
        self.took_s = 0.0
        self.round_trips = 0
        self.acts: Counter[str] = Counter()

    def now_ms(self) -> float:
        """The true time, whatever the clocks of hosts say."""
        return EPOCH_MS + (self.world.loop.kernel.now_s * 1000 if self.world is not None else 0.0)

    def event(self, event: Event) -> None:
        self.events += 1
        self.digest.update(repr(tuple(event)).encode())
        self.checkers.event(event)

    def outcome(self) -> Outcome:
        checkers = self.checkers
        return Outcome(
            seed=self.programme.seed,
            findings=checkers.finish(all_consumed=self.all_consumed),
            digest=self.digest.hexdigest(),
            events=self.events,
            took_s=round(self.took_s, 3),
            converged_s=tuple(round(each, 3) for each in self.converged_s),
            sent=checkers.sent,
            failed_sends=checkers.failed_sends,
            deliveries=checkers.deliveries,
            again=checkers.redelivered,
            dead_letters=checkers.dead_letters,
            round_trips=self.round_trips,
            acts=dict(sorted(self.acts.items())),
        )


class _Run:
    """One run."""

    def __init__(self, state: _State, simulation: Simulation, data_dir: Path, watch: EventSink | None) -> None:
        self.state, self.simulation, self.data_dir = state, simulation, data_dir
        self.programme, self.checkers = state.programme, state.checkers
        state.world = simulation
        self.clock_s = 0.0  # virtual time when the programme's own clock stood at 0
        cuts_power = any(step.do == "power_cut" for step in self.programme.step)
        self.disks = FillingDisksWithPowerCuts(data_dir) if cuts_power else FillingDisks(data_dir)
        part = self.programme.cluster
        simulation.loop.blocking_s = part.sync_s
        self.cluster = SimulatedCluster(
            simulation,
            data_dir,
            name_servers=part.name_servers,
            brokers=part.brokers,
            copies=part.copies,
            set_options={
                **{"acks": Acks(part.acks), "min_in_sync": part.min_in_sync, "elect": Elect(part.elect)},
                "rates_apart": part.rates_apart,
            },
            store=SMALLEST_STORE if cuts_power or part.copies > 1 else SMALL_STORE,
            files=self.disks,
            flush=FlushMode(part.flush),
            quirks=part.broker_quirks,
            **(SERVER_ACCESS if part.access else {}),
            # Never abandoned, so that every transaction ends.
            transactions=TransactionOptions(timeout_s=part.check_s, check_interval_s=part.check_s, max_checks=10_000),
            # Stored messages must not be what grows.
            retention=RetentionOptions(retain_bytes=MIB) if self.programme.rest_s else RetentionOptions(),
        )
        self.cluster.keeps_events = False
        self.cluster.clocks |= {clock.who: partial(self._ahead_ms, clock) for clock in self.programme.clock}
        self.leaks = LeakCounts(self.cluster, self.disks)
        self.sets = SetWatch(self.programme, self.cluster, self.checkers) if part.copies > 1 else None
        lives = any(step.do == "heal_core" for step in self.programme.step) or self.programme.promise.recover_s
        self.live = SetLiveness(self.cluster, self.checkers) if part.copies > 1 and lives else None
        self.cluster.watchers += [state.event, *([watch] if watch is not None else [])]

    def _ahead_ms(self, clock: ClockPart) -> int:
        return clock.ahead_ms(self.simulation.loop.kernel.now_s)

    async def run(self) -> None:
        programme, loop = self.programme, self.simulation.loop
        with RequestFilters(loop, None if self.sets is None else self.sets.answered) as filters:
            async with self.cluster, background_tasks() as tasks:
                for topic in programme.topic:
                    await self.cluster.create_topic(topic.name, queues=topic.queues)
                load = SimulatedLoad(programme, self.cluster, self.checkers, tasks)
                acts = Acts(self.cluster, load, self.disks, filters, tasks)
                await load.start()
                if self.live is not None:
                    await self.live.start()
                if self.checkers.pops:
                    tasks.start_soon(watch_brokers, self.cluster, self.checkers.pops)
                if self.sets is not None:
                    tasks.start_soon(self.sets.watch)
                load.resume()
                self.clock_s = loop.time()
                try:
                    await self._steps(acts, load)
                finally:
                    if self.sets is not None:
                        self.sets.report_violations()
                    self.state.acts = acts.done
                    self.state.took_s = loop.time()
                    self.state.round_trips = self.simulation.network.statistics().deliveries // 2

    async def _steps(self, acts: Acts, load: SimulatedLoad) -> None:
        for step in self.programme.step:
            await self._wait_for(step.at_s)
            if self.checkers.is_broken:
                return  # one broken thing breaks more
            if step.do == "heal":
                await self._heal(acts, load, for_good=False)
            elif step.do == "heal_core":
                await self._heal_core(acts)
            else:
                acts.begin(step)
        await self._wait_for(self.programme.lasts_s)
        await self._heal(acts, load, for_good=True)
        self.state.all_consumed = True

    async def _wait_for(self, at_s: float) -> None:
        await anyio.sleep(max(0.0, self.clock_s + at_s - self.simulation.loop.time()))

    async def _heal_core(self, acts: Acts) -> None:
        """Repair everything except some replicas, and check that the sets serve; the programme's clock stands still."""
        began_s = self.simulation.loop.time()
        await acts.make_whole()
        if self.live is not None:
            await self.live.wait_serving(await acts.of_sets.fail_all_but_one())
        self.clock_s += self.simulation.loop.time() - began_s

    async def _heal(self, acts: Acts, load: SimulatedLoad, *, for_good: bool) -> None:
        """Repair everything and check it; the programme's clock stands still until then."""
        loop, promise = self.simulation.loop, self.programme.promise
        began_s = loop.time()
        await acts.make_whole()
        repaired_s = loop.time()
        left = self.cluster.differences(retry_topics=True)
        while left and loop.time() - repaired_s < promise.converge_s:
            await anyio.sleep(POLL_S)
            left = self.cluster.differences(retry_topics=True)
        self.state.converged_s.append(loop.time() - repaired_s)
        if left:
            text = f"not converged {promise.converge_s:g} s after the repair: {'; '.join(left[:3])}"
            self.checkers.find("orphan", text, _queue_of(left[0]))
        if self.live is not None and promise.recover_s and not self.checkers.is_broken:
            await self.live.wait_whole(repaired_s, promise.recover_s)
        await load.fall_quiet(for_good=for_good)
        until_s = loop.time() + promise.settle_s
        while not self._is_done(load) and loop.time() < until_s and not self.checkers.is_broken:  # noqa: ASYNC110
            await anyio.sleep(POLL_S)
        if not self.checkers.is_broken:
            for group, check in self.checkers.pops.items():
                check.rested(count_unacknowledged(self.cluster, group))
        if load.transactions is not None:
            load.transactions.compare()
        if self.sets is not None and not self.checkers.is_broken:
            await self.sets.wait_in_sync(promise.settle_s)
        if self.checkers.lag and not for_good:
            self.checkers.find(
                "lost-write",
                f"{plural(self.checkers.lag, 'message', 'is', 'are')} not processed {promise.settle_s:g} s after it",
            )
        if self.programme.rest_s and not self.checkers.is_broken:
            await anyio.sleep(self.programme.rest_s)
            self.leaks.sample()
            if for_good:
                for grown in self.leaks.grown():
                    self.checkers.find("leak", grown)
        load.resume()
        self.clock_s += loop.time() - began_s

    def _is_done(self, load: SimulatedLoad) -> bool:
        """Whether every message is processed, and no broker waits for the acknowledgement of one."""
        popped = any(count_unacknowledged(self.cluster, group) for group in self.checkers.pops)
        return not (self.checkers.lag or load.open or popped)


def _queue_of(difference: str) -> MessageQueue:
    """The queue that a difference is about, as in `orders@broker-a:0 should belong to ...`."""
    topic, _, broker_and_queue = difference.partition(" ")[0].rpartition("@")
    broker, _, queue_id = broker_and_queue.rpartition(":")
    return MessageQueue(topic, broker, int(queue_id))
