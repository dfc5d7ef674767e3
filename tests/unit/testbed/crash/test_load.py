from __future__ import annotations

from pathlib import Path

import anyio

from testbed.crash.audit import Audit
from testbed.crash.ledger import LANES, Ledger
from testbed.crash.load import TOPIC, LoadSize, fails_on, run_load
from testbed.crash.read_back import read_back
from testbed.simulation.kernel.run import Simulation, run_simulation
from tests.unit.testbed.bench.embedded import embedded
from traces.check.ledger import SentMessage

SIZE = LoadSize(seed=1, producers=1, consumers=2, rate=200.0)


def test_without_a_crash_everything_is_acknowledged_consumed_and_in_its_place(tmp_path: Path) -> None:
    ledger = Ledger(float)

    async def main(simulation: Simulation) -> Audit:
        async with embedded(simulation, tmp_path, TOPIC, 4) as cluster:
            async with run_load(cluster.name_server, ledger, SIZE) as load:
                await load.wait_flow("broker-a")
                await anyio.sleep(10)
                with load.turns.surge():
                    await anyio.sleep(0.05)
                await load.fall_quiet()
                await anyio.sleep(5)
            audit = Audit(ledger)
            await read_back(cluster.name_server, ["broker-a"], TOPIC, audit.queue)
            return audit

    verdict = run_simulation(main, seed=3).verdict()
    assert verdict.ok, verdict.examples
    assert {sent.lane for sent in ledger.acknowledged} == set(range(LANES))
    assert verdict.acknowledged == verdict.consumed == verdict.stored > 2_000
    assert verdict.deliveries > verdict.consumed, "some listeners failed, and their messages came again"
    assert (verdict.given_up, verdict.consumed_twice, verdict.stored_twice) == (0, 0, 0)


def test_listeners_fail_on_few_messages_and_at_most_twice() -> None:
    failing = [sent for number in range(5_000) if fails_on(sent := SentMessage(1, number), 0)]
    assert 0 < len(failing) < 50
    assert any(fails_on(sent, 1) for sent in failing)
    assert not any(fails_on(sent, 2) for sent in failing)


def test_as_many_messages_are_under_way_as_lanes_and_listeners_have_in_their_hands() -> None:
    assert LoadSize(producers=4, consumers=3).under_way == 4 * (17 + 8) + 3 * 8
