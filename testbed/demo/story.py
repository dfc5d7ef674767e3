"""The life of a group in eleven steps, on an embedded cluster under load: the script of `rlab demo`.

A step ends when the group has converged and no queue has moved for `SETTLE_S`, or after `ABANDON_AFTER_S`. Its time is
measured from the action to the last moment at which the group converged. For a consumer that goes silent the action is
the begin of the silence, so the time includes the session timeout.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import anyio

from model.heartbeat import ConsumeFrom
from model.limits import LEASE_CLOSE_GRACE_S
from model.message_queue import MessageQueue
from process.runtime import wait_until
from testbed.demo.cluster import EmbeddedCluster, run_cluster
from testbed.demo.state import DemoState, Health
from testbed.simulation.checks.ownership import RebalanceStep
from testbed.swarm.members import Swarm, SwarmOptions, run_swarm
from traces.check.words import headline

TOPIC, GROUP = "orders", "demo"
NAMES = ("c1", "c2", "c3", "c4", "c5", "c6")
STEPS = 11
BROKERS = 2
QUEUES, MORE_QUEUES = 8, 12
"""Queues on each broker, before and after the topic is scaled."""
PRODUCERS = 2
SESSION_TIMEOUT_S = 3.0
SETTLE_S = 0.8
ABANDON_AFTER_S = 15.0
DRAIN_S = 10.0
_HOST = "127.0.0.1"
_POLL_S = 0.01
_CUT_S = LEASE_CLOSE_GRACE_S * 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioOptions:
    """Options of a demo."""

    data_dir: Path  # of the brokers
    rate: float = 2_000.0  # messages per second of all producers together
    pace_s: float = 1.2  # pause after each step, for the viewer
    console_port: int | None = None  # port of a console during the demo; None for no console


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoResult:
    """Result of a demo: the document of `rlab demo --json`."""

    ok: bool
    sent: int
    received_unique: int
    lost: int
    duplicates: int
    consumers: int
    queues: int
    double_owner_ms: float
    orphan_ms: float
    broken: tuple[str, ...]  # a line for each anomaly of the history, as `rlab check` has it
    rebalances: list[RebalanceStep]


async def run_scenario(options: ScenarioOptions, state: DemoState) -> DemoResult:
    """Run a demo from the first server to the verdict, and keep the state up to date.

    Raises:
        RlabError: a server could not be started.

    Cancellation: clients and servers are stopped in order, and none is left running.
    """
    state.steps_planned = STEPS
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(run_cluster(options.data_dir, BROKERS, state.event, state.clock_ms))
        if options.console_port is not None:
            from console.server import ConsoleOptions, run_console

            console_options = ConsoleOptions(
                name_servers=cluster.name_server, listen=f"127.0.0.1:{options.console_port}"
            )
            await stack.enter_async_context(run_console(console_options))
        await cluster.admin.create_topic(TOPIC, QUEUES)
        swarm_options = SwarmOptions(
            name_servers=cluster.name_server,
            topic=TOPIC,
            group=GROUP,
            run=int(state.clock_ms()),
            prefix="",
            producers=PRODUCERS,
            rate=options.rate,
            client_options={
                "client_ip": _HOST,
                "heartbeat_interval_s": SESSION_TIMEOUT_S / 3,
                "route_poll_interval_s": 0.5,
                "offset_persist_interval_s": 1.0,
                "clock_ms": state.clock_ms,
            },
            consumer_options={"session_timeout_s": SESSION_TIMEOUT_S, "consume_from": ConsumeFrom.FIRST_OFFSET},
            clock_ms=state.clock_ms,
        )
        async with run_swarm(swarm_options, state) as swarm:
            story = _DemoScenario(options, state, cluster, swarm)
            try:
                await story.live()
                return await story.verdict()
            finally:
                cluster.heal()  # a silent consumer could not leave


class _DemoScenario:
    """The steps; each method is one change to the group."""

    def __init__(self, options: ScenarioOptions, state: DemoState, cluster: EmbeddedCluster, swarm: Swarm) -> None:
        self._options = options
        self._state = state
        self._cluster = cluster
        self._swarm = swarm
        self._queues_per_broker = QUEUES

    async def live(self) -> None:
        """Run all steps."""
        self._swarm.start_producing()
        for name in NAMES[:4]:
            await self._step(f"{name} starts", self._start, name)
        await self._step("c5 and c6 join", self._start, "c5", "c6")
        await self._step("c2 leaves", self._leave, "c2")
        await self._step("c3 is cut off", self._cut, "c3")
        await self._step("c4 goes silent", self._silence, "c4")
        await self._step("c4 speaks again", self._speak, "c4")
        n_before, self._queues_per_broker = self._queues_per_broker * BROKERS, MORE_QUEUES
        await self._step(f"{n_before} to {MORE_QUEUES * BROKERS} queues", self._scale)
        await self._step("broker-b restarts", self._restart, "broker-b")

    async def verdict(self) -> DemoResult:
        """Stop the producers, wait for pending messages, and count the messages."""
        state = self._state
        state.step = "the producers stop"
        await self._swarm.fall_quiet()
        await wait_until(lambda: not state.messages.lost, DRAIN_S, _POLL_S)
        # Duplicates arrive shortly after the first delivery.
        await anyio.sleep(min(SETTLE_S, self._options.pace_s))
        state.tracker.figures.advance(state.clock_ms())
        totals, counted = state.tracker.figures.totals(), state.messages
        anomalies = state.history.finish(state.clock_ms()).anomalies
        broken = tuple(headline(anomaly) for anomaly in anomalies if not anomaly.doubt)
        return DemoResult(
            ok=not broken and all(step.converged_ms is not None for step in state.steps),
            sent=counted.sent,
            received_unique=counted.received,
            lost=counted.lost,
            duplicates=counted.duplicates,
            consumers=len(self._members()),
            queues=len(self._queues()),
            double_owner_ms=totals.double_ms,
            orphan_ms=totals.orphan_ms,
            broken=broken,
            rebalances=state.steps,
        )

    # --- one step ----------------------------------------------------------------------------------------------------

    async def _step(self, name: str, action: Callable[..., Awaitable[None]], *args: str) -> None:
        state, tracker = self._state, self._state.tracker
        state.begin_step(name)
        await action(*args)
        await wait_until(
            lambda: tracker.converged and tracker.quiet_ms(state.clock_ms()) >= SETTLE_S * 1000,
            ABANDON_AFTER_S,
            _POLL_S,
        )
        state.end_step()
        await anyio.sleep(self._options.pace_s)

    def _expect(self) -> None:
        self._state.tracker.expect(self._members(), self._queues(), self._state.clock_ms())

    def _members(self) -> list[str]:
        return [f"{_HOST}@{name}" for name, health in self._state.health.items() if health is Health.LIVE]

    def _queues(self) -> list[MessageQueue]:
        return [
            MessageQueue(TOPIC, broker, queue_id)
            for broker in self._cluster.brokers
            for queue_id in range(self._queues_per_broker)
        ]

    def _is_now(self, name: str, health: Health) -> None:
        self._state.health[name] = health
        self._expect()

    # --- changes to the group ----------------------------------------------------------------------------------------

    async def _start(self, *names: str) -> None:
        for name in names:
            self._state.health[name] = Health.LIVE
        self._expect()
        async with anyio.create_task_group() as starting:
            for name in names:
                starting.start_soon(self._swarm.join, name)

    async def _leave(self, name: str) -> None:
        self._is_now(name, Health.LEFT)
        await self._swarm.leave(name)

    async def _cut(self, name: str) -> None:
        # New connections are refused, too: else it would reconnect within the grace period, and no queue would move.
        self._cluster.begin("refuse", name)
        self._state.add_note(f"{name}: its connections were cut")
        await anyio.sleep(_CUT_S)
        self._cluster.heal()

    async def _silence(self, name: str) -> None:
        self._cluster.begin("pause", name)
        self._is_now(name, Health.SILENT)
        self._state.add_note(f"{name}: goes silent, with its connections open")

    async def _speak(self, name: str) -> None:
        self._is_now(name, Health.LIVE)
        self._cluster.heal()
        self._state.add_note(f"{name}: speaks again")

    async def _scale(self) -> None:
        self._expect()
        await self._cluster.admin.scale_topic(TOPIC, read=MORE_QUEUES, write=MORE_QUEUES)

    async def _restart(self, broker: str) -> None:
        await self._cluster.restart_broker(broker)
