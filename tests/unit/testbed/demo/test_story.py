"""The whole demo in virtual time: the same story, cluster and clients as on the terminal, only quicker."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from client.allocate import AllocateMessageQueueAveragely
from testbed.demo import story
from testbed.demo.state import DemoState, Health
from testbed.demo.story import GROUP, NAMES, SESSION_TIMEOUT_S, STEPS, TOPIC, DemoResult, ScenarioOptions, run_scenario
from testbed.simulation.checks.ownership import RebalanceStep
from testbed.simulation.kernel.run import Simulation, run_simulation

pytestmark = pytest.mark.simulation


@dataclass(frozen=True)
class Ran:
    """A demo that ended; `duplicates` has how many there were by the end of each step."""

    result: DemoResult
    state: DemoState
    duplicates: dict[str, int]

    @property
    def steps(self) -> dict[str, RebalanceStep]:
        return {step.step: step for step in self.result.rebalances}


def run_demo(data_dir: Path, *, drop_one: bool = False, rate: float = 100.0) -> Ran:
    async def main(simulation: Simulation) -> Ran:
        duplicates: dict[str, int] = {}
        state = DemoState(GROUP, TOPIC, AllocateMessageQueueAveragely(), NAMES, simulation.clock_ms)
        state.on_step = lambda step: duplicates.update({step.step: state.messages.duplicates})
        if drop_one:
            received = state.received
            state.received = lambda producer, number: None if number == 7 else received(producer, number)  # type: ignore[method-assign]  # the fault
        return Ran(
            await run_scenario(ScenarioOptions(data_dir=data_dir, rate=rate, pace_s=0.2), state), state, duplicates
        )

    return run_simulation(main, seed=1, jitter_s=0.001)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return run_demo(tmp_path_factory.mktemp("demo"))


def test_the_group_converges_after_every_step_and_no_message_is_lost(ran: Ran) -> None:
    result, steps = ran.result, ran.steps
    assert result.ok
    assert (result.lost, result.double_owner_ms, result.consumers, result.queues) == (0, 0, 5, 24)
    assert result.sent == result.received_unique > 1_000
    assert ran.state.messages.failed_sends == 0
    assert len(steps) == STEPS == ran.state.steps_planned
    assert [name for name, step in steps.items() if step.converged_ms is None] == []
    for name in ("c1 starts", "c2 starts", "c3 starts", "c4 starts", "c5 and c6 join", "c2 leaves"):
        assert (steps[name].converged_ms or 0) < 150, name


def test_who_joins_or_leaves_in_good_order_costs_no_message_a_second_delivery(ran: Ran) -> None:
    assert ran.duplicates["c2 leaves"] == 0
    assert ran.duplicates["broker-b restarts"] == ran.duplicates["c4 speaks again"]
    assert ran.result.duplicates == ran.duplicates["broker-b restarts"]


def test_each_step_has_its_cause_its_triggers_and_its_moves(ran: Ran) -> None:
    result, steps = ran.result, ran.steps
    assert {name: step.cause for name, step in steps.items()} == {
        "c1 starts": "MEMBER_JOIN",
        "c2 starts": "MEMBER_JOIN",
        "c3 starts": "MEMBER_JOIN",
        "c4 starts": "MEMBER_JOIN",
        "c5 and c6 join": "MEMBER_JOIN",
        "c2 leaves": "MEMBER_LEAVE unregister",
        "c3 is cut off": "MEMBER_LEAVE close",
        "c4 goes silent": "MEMBER_LEAVE expiry",
        "c4 speaks again": "MEMBER_JOIN",
        "16 to 24 queues": "ROUTE_CHANGED",
        "broker-b restarts": "BROKER_DOWN",
    }
    assert [step.members for step in result.rebalances] == [1, 2, 3, 4, 6, 5, 5, 4, 5, 5, 5]
    assert [step.queues_moved for step in result.rebalances][:2] == [16, 8]
    assert "RECONNECT" in steps["c3 is cut off"].trigger
    assert "ROUTE" in steps["16 to 24 queues"].trigger
    assert "RECONNECT" in steps["broker-b restarts"].trigger
    assert ran.state.health == {**dict.fromkeys(NAMES, Health.LIVE), "c2": Health.LEFT}


def test_a_silent_consumer_is_replaced_as_soon_as_its_session_ends(ran: Ran) -> None:
    silent, session_ms = ran.steps["c4 goes silent"], SESSION_TIMEOUT_S * 1000
    assert silent.noticed_ms is not None
    assert silent.converged_ms is not None
    assert session_ms - 1_000 <= silent.noticed_ms <= session_ms
    assert silent.converged_ms <= session_ms + 200


def test_a_message_that_is_acknowledged_and_never_received_fails_the_demo(tmp_path: Path) -> None:
    result = run_demo(tmp_path, drop_one=True, rate=20.0).result
    assert not result.ok
    assert result.lost == 2  # one of each producer
    assert [line.partition(":")[0] for line in result.broken] == ["lost-write", "lost-write"]
    assert all(step.converged_ms is not None for step in result.rebalances)


def test_a_group_that_does_not_converge_fails_the_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(story, "ABANDON_AFTER_S", 0.002)
    result = run_demo(tmp_path, rate=20.0).result
    assert not result.ok
    assert result.lost == 0
    assert any(step.converged_ms is None for step in result.rebalances)
