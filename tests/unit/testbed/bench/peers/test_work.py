from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import anyio

from testbed.bench.peers.systems.protocol import Sender, System, Take
from testbed.bench.peers.work import BATCH, Meter, batch_rate, consume_rate, send_rate
from testbed.simulation.kernel.run import Simulation, run_simulation


class _Counting:
    def __init__(self) -> None:
        self.sent: list[int] = []
        self.at_once = self.most_at_once = 0

    async def send(self, body: bytes) -> None:
        await self.send_batch([body])

    async def send_batch(self, bodies: Sequence[bytes]) -> None:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await anyio.sleep(0.01)
        self.at_once -= 1
        self.sent.append(len(bodies))


def test_as_many_sends_are_awaited_as_the_name_says() -> None:
    async def main(simulation: Simulation) -> None:
        sender = _Counting()
        assert await send_rate(cast(Sender, sender), 64, 0.1) > 0
        assert sender.most_at_once == 64
        assert set(sender.sent) == {1}

    run_simulation(main)


def test_batches_count_by_their_messages() -> None:
    async def main(simulation: Simulation) -> None:
        sender = _Counting()
        assert await batch_rate(cast(Sender, sender), 0.1) > 0
        assert set(sender.sent) == {BATCH}

    run_simulation(main)


def test_every_round_is_a_new_group_that_ends_with_the_last_message() -> None:
    groups: list[str] = []

    async def consume(address: str, topic: str, group: str, batch: int, take: Take) -> None:
        groups.append(group)
        for _ in range(10):
            take([b"x"] * batch)
        await anyio.sleep_forever()

    async def main(simulation: Simulation) -> None:
        system: Any = SimpleNamespace(name="fake", consume=consume)
        for _ in range(2):
            assert await consume_rate(cast(System, system), "address", "topic", 320, 32, 1e9) > 0

    run_simulation(main)
    assert len(set(groups)) == 2


def test_the_clock_starts_with_the_first_call_whose_messages_do_not_count() -> None:
    times = iter([10.0, 12.0])
    meter = Meter(30, lambda: next(times))
    assert (meter.rate(), meter.elapsed(), meter.done) == (0.0, 0.0, False)
    meter.count([b"a"] * 10)
    meter.count([b"a"] * 10)
    meter.count([b"a"] * 10)
    assert meter.done
    assert meter.rate() == 10.0  # 20 messages in 2 s, and the clock stands still after the last one
    assert meter.elapsed() == 2.0


def test_a_round_that_ends_early_counts_what_has_come() -> None:
    times = iter([0.0, 4.0, 4.0])
    meter = Meter(1000, lambda: next(times))
    meter.count([b"a"])
    meter.count([b"a"] * 8)
    assert not meter.done
    assert meter.rate() == 2.0
