from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from testbed.bench.peers import side
from testbed.bench.peers.pace import HELLO, NS, read_stamp, stamp_body
from testbed.bench.peers.systems.protocol import Take
from testbed.simulation.kernel.run import Simulation, run_simulation

MS = NS // 1000


def _clock(simulation: Simulation) -> int:
    return round(simulation.loop.time() * NS)


def test_a_slow_server_makes_sends_late_and_moves_no_intended_time(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[int, int, int]] = []

    async def main(simulation: Simulation) -> None:
        class Slow:
            async def send(self, body: bytes) -> None:
                number, intended_ns = read_stamp(body)
                sent.append((number, intended_ns, _clock(simulation)))
                await anyio.sleep(0.1)

        @asynccontextmanager
        async def sender(address: str, topic: str) -> AsyncIterator[Slow]:
            yield Slow()

        monkeypatch.setattr(side, "SYSTEMS", {"slow": SimpleNamespace(sender=sender)})
        await side.produce("slow", "address", "topic", 10_000, 1_000, partial(_clock, simulation))

    run_simulation(main)
    assert [number for number, _, _ in sent] == list(range(1_000))
    first = sent[0][1]
    assert [intended - first for _, intended, _ in sent] == [number * NS // 10_000 for number in range(1_000)]
    assert sent[200][2] - sent[200][1] < 2 * MS  # up to the number that may be awaited, they are sent in time
    assert sent[side.IN_FLIGHT][2] - sent[side.IN_FLIGHT][1] > 70 * MS


def test_the_consumer_measures_from_the_intended_time_and_leaves_the_warm_up_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def main(simulation: Simulation) -> None:
        def body(number: int, ago_ms: int) -> bytes:
            return stamp_body(number, _clock(simulation) - ago_ms * MS, 256)

        async def consume(address: str, topic: str, group: str, batch: int, take: Take) -> None:
            await anyio.sleep(1)
            take([stamp_body(HELLO, 0, 256)])
            take([body(0, 500), body(1, 10), body(1, 900)])  # the first is the warm-up, the last came twice
            take([body(2, 30)])
            await anyio.sleep_forever()

        system: Any = SimpleNamespace(consume=consume, measurements=frozenset({"consume"}))
        monkeypatch.setattr(side, "SYSTEMS", {"fake": system})
        await side.consume("fake", "address", "topic", 4, 1, partial(_clock, simulation))

    run_simulation(main)
    announced, result = map(json.loads, capsys.readouterr().out.splitlines())
    assert announced["address"] == "address"
    assert (result["p50"], result["missing"]) == (30.0, 1)
    assert result["p99"] == float("inf")


def test_a_consumer_without_a_way_by_message_gets_large_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    batches: list[int] = []

    async def main(simulation: Simulation) -> None:
        async def consume(address: str, topic: str, group: str, batch: int, take: Take) -> None:
            batches.append(batch)
            take([stamp_body(HELLO, 0, 256), stamp_body(0, 0, 256)])
            await anyio.sleep_forever()

        system: Any = SimpleNamespace(consume=consume, measurements=frozenset({"consume-32"}))
        monkeypatch.setattr(side, "SYSTEMS", {"fake": system})
        await side.consume("fake", "address", "topic", 1, 0, partial(_clock, simulation))

    run_simulation(main)
    assert batches == [side.MANY]
