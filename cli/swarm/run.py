"""One run of `rlab swarm`: join, produce, live, fall quiet, count, leave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import anyio

from cli.swarm.parts import SwarmPart, run_parts
from client.admin.admin import Admin
from client.allocate.registry import strategy_named
from client.config import wall_clock_ms
from client.options import ConsumeMode, ConsumeOrder, ConsumerOptions
from model.errors import ConfigError, NetworkError, ServiceNotAvailable, TopicNotExist
from remoting.tasks import background_tasks
from simulation.checks.ownership import Rebalance
from simulation.swarm.observer import SwarmObserver, SwarmSummary
from simulation.swarm.swarm import SwarmOptions

READY_TIMEOUT_S = 10.0
"""How long the cluster may take to have a broker: compose starts everything at once."""
BALANCE_TIMEOUT_S = 30.0
DRAIN_TIMEOUT_S = 5.0
SETTLE_MS = 200.0
"""How long events of other processes are held back; several times what they take to come."""
STATUS_INTERVAL_S = 10.0
KEYS = 100
"""Keys of each producer, when consumers keep them in order."""
_LOOK_S = 0.05
_ROUTE_INTERVAL_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConductOptions:
    """Options of a run.

    Attributes:
        name_servers: addresses, separated by commas.
        topic: the topic; it is created if it does not exist.
        group: the group, which should have no other members.
        queues: queues on each broker, if the topic is created.
        consumers, producers, rate, body_bytes, churn_s, seed: see `SwarmOptions`; of all parts together.
        processes: how many parts.
        duration_s: how long producers run; 0 until the run is cancelled.
        session_timeout_s: how long brokers keep a consumer without hearing of it.
        order: what consumers keep in order: `none`, `queue` or `key`.
        strategy: name of the one with which consumers share queues.
        mode: what they share: whole queues (`pull`) or single messages (`pop`), where there is no balance to find.
        clock_ms: wall clock in milliseconds.

    Raises:
        ConfigError: there is no such order, strategy or mode, or the mode does not keep the order.
    """

    name_servers: str
    topic: str
    group: str
    queues: int
    consumers: int
    producers: int
    rate: float
    body_bytes: int
    churn_s: float
    seed: int
    processes: int
    duration_s: float
    session_timeout_s: float
    order: str = ConsumeOrder.NONE
    strategy: str = "AVG"
    mode: str = ConsumeMode.PULL
    clock_ms: Callable[[], float] = wall_clock_ms

    def __post_init__(self) -> None:
        if self.order not in list(ConsumeOrder):
            raise ConfigError(f"no order {self.order!r}; there are {', '.join(ConsumeOrder)}")
        strategy_named(self.strategy)
        if self.mode not in list(ConsumeMode):
            raise ConfigError(f"no mode {self.mode!r}; there are {', '.join(ConsumeMode)}")
        ConsumerOptions(order=self.order, mode=self.mode)  # before a topic is created for nothing


def parts_of(options: ConductOptions, run: int) -> list[SwarmOptions]:
    """Split a swarm: every part has its share of consumers and producers, and none has neither. Pure.

    Args:
        options: of the whole.
        run: tells this run's messages and clients from those of others.
    """
    n = max(1, min(options.processes, options.consumers + options.producers))
    consumers = _shares(options.consumers, n)
    # From the other end, so that with fewer members than processes every process has one.
    producers = _shares(options.producers, n)[::-1]
    with_consumers = sum(count > 0 for count in consumers)
    return [
        SwarmOptions(
            name_servers=options.name_servers,
            topic=options.topic,
            group=options.group,
            run=run,
            prefix=f"swarm{run % 100_000:05d}-{part}-",
            consumers=consumers[part],
            producers=producers[part],
            first_producer=sum(producers[:part]),
            rate=options.rate * producers[part] / max(1, options.producers),
            body_bytes=options.body_bytes,
            churn_s=options.churn_s * with_consumers if consumers[part] else 0.0,
            seed=options.seed,
            strategy=options.strategy,
            keys=KEYS if options.order == ConsumeOrder.KEY else 0,
            consumer_options={
                "session_timeout_s": options.session_timeout_s,
                "order": options.order,
                "mode": options.mode,
            },
            client_options={"heartbeat_interval_s": options.session_timeout_s / 4},
            clock_ms=options.clock_ms,
        )
        for part in range(n)
    ]


def _shares(total: int, n: int) -> list[int]:
    each, rest = divmod(total, n)
    return [each + (part < rest) for part in range(n)]


class Conductor:
    """A run. `summary` is there once `run` has ended, however it did.

    Args:
        options: see `ConductOptions`.
        on_rebalance: called with each rebalance that ended.
        on_status: called when the producers begin, and now and then while it runs, with how it stands.
    """

    def __init__(
        self,
        options: ConductOptions,
        *,
        on_rebalance: Callable[[Rebalance], object] = lambda rebalance: None,
        on_status: Callable[[SwarmSummary], object] = lambda summary: None,
    ) -> None:
        self.summary: SwarmSummary | None = None
        self._options = options
        self._on_status = on_status
        self._shares_queues = options.mode == ConsumeMode.PULL
        self._parts = parts_of(options, int(options.clock_ms()))
        self._observer = SwarmObserver(
            options.group,
            options.topic,
            strategy_named(options.strategy),
            settle_ms=SETTLE_MS if len(self._parts) > 1 else 0.0,
            # That the consumers leave at the end is no news.
            on_rebalance=lambda rebalance: (
                on_rebalance(rebalance) if self.summary is None and self._shares_queues else None
            ),
        )

    async def run(self) -> None:
        """Run to the end of its time, or until it is cancelled; in both cases to a summary.

        Raises:
            RlabError: the cluster cannot be reached, or a part of the swarm failed.

        Cancellation: producers fall quiet, messages under way get `DRAIN_TIMEOUT_S`, consumers leave properly.
        """
        options = self._options
        async with Admin(options.name_servers) as admin, background_tasks() as tasks:
            await self._ensure_topic(admin)
            tasks.start_soon(self._watch_route, admin)
            tasks.start_soon(self._keep_time)
            try:
                async with run_parts(self._parts, self._observer) as parts:
                    try:
                        await self._wait_until(lambda: self._observer.balanced, BALANCE_TIMEOUT_S)
                        await _each(parts, "produce")
                        tasks.start_soon(self._tell_status)
                        await (anyio.sleep(options.duration_s) if options.duration_s else anyio.sleep_forever())
                    finally:
                        with anyio.CancelScope(shield=True):
                            await self._finish(parts)
            finally:
                if self.summary is not None:  # its consumers have left by now
                    self.summary = replace(self.summary, in_all=self._observer.in_all())

    async def _finish(self, parts: list[SwarmPart]) -> None:
        """Let what is under way arrive, and count before the consumers leave."""
        observer = self._observer
        try:
            with anyio.move_on_after(DRAIN_TIMEOUT_S):
                await _each(parts, "quiet")
            await self._wait_until(lambda: observer.balanced and not observer.check.lost, DRAIN_TIMEOUT_S)
        finally:
            self.summary = observer.summary()

    async def _ensure_topic(self, admin: Admin) -> None:
        """Create the topic if it does not exist, and let the observer know its queues."""
        options = self._options
        deadline = anyio.current_time() + READY_TIMEOUT_S
        while True:
            try:
                await self._look_at_route(admin)
                return
            except TopicNotExist:
                pass
            try:
                await admin.create_topic(options.topic, options.queues)
            except ServiceNotAvailable:
                if anyio.current_time() >= deadline:
                    raise
                await anyio.sleep(_LOOK_S)

    async def _look_at_route(self, admin: Admin) -> None:
        route = await admin.route(self._options.topic)
        # Whoever pops owns no queue, so there is none that has to be anybody's.
        queues = route.subscribe_queues() if self._shares_queues else ()
        self._observer.set_queues(queues, self._options.clock_ms())

    async def _watch_route(self, admin: Admin) -> None:
        while True:
            await anyio.sleep(_ROUTE_INTERVAL_S)
            try:
                await self._look_at_route(admin)
            except (NetworkError, TopicNotExist):
                continue  # nothing new is known; the consumers keep what they have, too

    async def _keep_time(self) -> None:
        while True:
            self._observer.advance(self._options.clock_ms())
            await anyio.sleep(_LOOK_S)

    async def _tell_status(self) -> None:
        while True:
            self._on_status(self._observer.summary())
            await anyio.sleep(STATUS_INTERVAL_S)

    async def _wait_until(self, condition: Callable[[], bool], timeout_s: float) -> None:
        with anyio.move_on_after(timeout_s):
            while not condition():  # noqa: ASYNC110 - the books are plain numbers
                await anyio.sleep(_LOOK_S)


async def _each(parts: list[SwarmPart], action: str) -> None:
    async with anyio.create_task_group() as tasks:
        for part in parts:
            tasks.start_soon(getattr(part, action))
