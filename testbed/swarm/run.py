"""One run of `rlab swarm`: join, produce, churn, stop producing, count, leave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import anyio

from client.admin.admin import Admin
from client.allocate.registry import strategy_named
from client.config import wall_clock_ms
from client.options import ConsumeMode, ConsumeOrder, ConsumerOptions
from model.errors import NetworkError, ServiceNotAvailable, TopicNotExist
from process.runtime import wait_until
from remoting.tasks import background_tasks
from testbed.swarm.members import SwarmOptions
from testbed.swarm.observer import Convergence, SwarmObserver, SwarmSummary
from testbed.swarm.parts import OpenParts, SwarmPart, run_parts
from testbed.swarm.unread import UnreadSearch

READY_TIMEOUT_S = 10.0
"""Time for a broker to appear in the cluster: compose starts all services at once."""
BALANCE_TIMEOUT_S = 30.0
DRAIN_TIMEOUT_S = 5.0
SETTLE_MS = 1_000.0
"""Events of other processes are held back for this time, twenty times their usual delay, to sort them."""
STATUS_INTERVAL_S = 10.0
KEYS = 100
"""Keys of each producer, if consumers keep the order of keys."""
_POLL_S = 0.05
_ROUTE_INTERVAL_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SwarmRunOptions:
    """Options of a run; an option that `SwarmOptions` has as well is for all parts together.

    Raises:
        ConfigError: there is no such order, strategy or mode, or the mode does not keep the order.
    """

    name_servers: str
    topic: str  # created if it does not exist
    group: str  # should have no other members
    queues: int  # on each broker, if the topic is created
    consumers: int
    producers: int
    rate: float
    body_bytes: int
    churn_s: float
    seed: int
    processes: int  # number of parts
    duration_s: float  # time for which producers run; 0 until the run is cancelled
    session_timeout_s: float
    order: str = ConsumeOrder.NONE
    strategy: str = "AVG"
    mode: str = ConsumeMode.PULL  # with `pop`, queues have no owners and nothing has to converge
    clock_ms: Callable[[], float] = wall_clock_ms

    def __post_init__(self) -> None:
        # Both raise before the topic is created.
        strategy_named(self.strategy)
        ConsumerOptions(order=self.order, mode=self.mode)


def split_options(options: SwarmRunOptions, run: int) -> list[SwarmOptions]:
    """Split a swarm into parts, each with some consumers or producers.

    `run` distinguishes the messages and clients of this run from other runs.
    """
    n = max(1, min(options.processes, options.consumers + options.producers))
    consumers = _split(options.consumers, n)
    # In reverse, so that a process without a consumer has a producer.
    producers = _split(options.producers, n)[::-1]
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


def _split(total: int, n: int) -> list[int]:
    each, remainder = divmod(total, n)
    return [each + (part < remainder) for part in range(n)]


class SwarmRun:
    """A run; `summary` is set when `run` has ended, even if by an error or a signal.

    `on_converged` is called each time that the group has converged, `on_status` when the producers begin and every
    `STATUS_INTERVAL_S`. `elsewhere` opens the parts in other places, see `run_parts`.
    """

    def __init__(
        self,
        options: SwarmRunOptions,
        *,
        elsewhere: OpenParts | None = None,
        on_converged: Callable[[Convergence], object] = lambda convergence: None,
        on_status: Callable[[SwarmSummary], object] = lambda summary: None,
    ) -> None:
        self.summary: SwarmSummary | None = None
        self._options = options
        self._on_status = on_status
        self._elsewhere = elsewhere
        self._pulls = options.mode == ConsumeMode.PULL
        self._parts = split_options(options, int(options.clock_ms()))
        self._observer = observer = SwarmObserver(
            options.group,
            options.topic,
            strategy_named(options.strategy),
            settle_ms=SETTLE_MS if len(self._parts) > 1 or elsewhere else 0.0,
            # The leaves at the end are not reported.
            on_converged=lambda convergence: (
                on_converged(convergence) if self.summary is None and self._pulls else None
            ),
        )
        self._search = UnreadSearch(options.topic, options.group, self._parts[0].run, observer.check.is_missing)

    async def run(self) -> None:
        """Run for the given time or until cancelled; in both cases `summary` is set.

        Raises:
            RlabError: the cluster cannot be reached, or a part of the swarm failed.

        Cancellation: producers stop, pending messages get `DRAIN_TIMEOUT_S`, consumers unregister.
        """
        options = self._options
        async with Admin(options.name_servers) as admin, background_tasks() as tasks:
            await self._ensure_topic(admin)
            await self._search.begin(admin)
            tasks.start_soon(self._watch_route, admin)
            tasks.start_soon(self._keep_time)
            try:
                async with run_parts(self._parts, self._observer, self._elsewhere) as parts:
                    try:
                        await wait_until(lambda: self._observer.balanced, BALANCE_TIMEOUT_S, _POLL_S)
                        await _each(parts, "produce")
                        tasks.start_soon(self._report_status)
                        await (anyio.sleep(options.duration_s) if options.duration_s else anyio.sleep_forever())
                    finally:
                        with anyio.CancelScope(shield=True):
                            await self._finish(parts)
            finally:
                if self.summary is not None:  # the consumers have left, and have committed all received messages
                    with anyio.CancelScope(shield=True):
                        self.summary = await self._final(admin, self.summary)

    async def _finish(self, parts: list[SwarmPart]) -> None:
        """Wait for pending messages, and make the summary before the consumers leave."""
        observer = self._observer
        try:
            with anyio.move_on_after(DRAIN_TIMEOUT_S):
                await _each(parts, "quiet")
            await wait_until(lambda: observer.balanced and not observer.check.lost, DRAIN_TIMEOUT_S, _POLL_S)
        finally:
            self.summary = observer.summary()

    async def _final(self, admin: Admin, summary: SwarmSummary) -> SwarmSummary:
        """Search for the messages that were not received, and make the summary of the whole run."""
        missing, search = self._observer.check.lost, self._search
        if missing:
            await search.search(admin, missing)
        unknown = 0 if search.complete else missing - search.found
        return self._observer.final(summary, unread=search.found, unknown=unknown)

    async def _ensure_topic(self, admin: Admin) -> None:
        """Create the topic if it does not exist, and set the observer's queues."""
        options = self._options
        deadline = anyio.current_time() + READY_TIMEOUT_S
        while True:
            try:
                await self._update_queues(admin)
                return
            except TopicNotExist:
                pass
            try:
                await admin.create_topic(options.topic, options.queues)
            except ServiceNotAvailable:
                if anyio.current_time() >= deadline:
                    raise
                await anyio.sleep(_POLL_S)

    async def _update_queues(self, admin: Admin) -> None:
        route = await admin.route(self._options.topic)
        self._search.add_brokers(broker.broker_name for broker in route.brokers)
        # In mode pop queues have no owners, so the observer expects none.
        queues = route.subscribe_queues() if self._pulls else ()
        self._observer.set_queues(queues, self._options.clock_ms())

    async def _watch_route(self, admin: Admin) -> None:
        while True:
            await anyio.sleep(_ROUTE_INTERVAL_S)
            try:
                await self._update_queues(admin)
            except (NetworkError, TopicNotExist):
                continue  # the consumers keep their queues in this case, too

    async def _keep_time(self) -> None:
        while True:
            self._observer.advance(self._options.clock_ms())
            await anyio.sleep(_POLL_S)

    async def _report_status(self) -> None:
        while True:
            self._on_status(self._observer.summary())
            await anyio.sleep(STATUS_INTERVAL_S)


async def _each(parts: list[SwarmPart], action: str) -> None:
    async with anyio.create_task_group() as tasks:
        for part in parts:
            tasks.start_soon(getattr(part, action))
