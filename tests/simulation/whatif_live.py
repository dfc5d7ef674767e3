"""What `rlab whatif` predicts from one trace, held against runs under the rules that it predicts for.

No test; `python -m tests.simulation.whatif_live` prints the table of docs/reports.md. All runs are those of the real
brokers and clients, in virtual time: the same members join, leave and crash at the same moments in each, and all else,
such as how long a listener takes, is drawn anew.
"""

from __future__ import annotations

import math
import statistics
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from random import Random

import anyio

from client.allocate.registry import BUILT_IN_STRATEGIES
from client.trigger import Trigger
from model.event_log import decode_events, encode_events
from model.heartbeat import ConsumeFrom
from model.message import MessageExt
from model.quirks import Quirk
from pipeline.replay.job import read_group, try_rules
from pipeline.replay.recorded import RecordedGroup
from pipeline.replay.rules import Handover, Rules
from testbed.simulation.cluster.clients import SimulatedConsumer
from testbed.simulation.cluster.cluster import SimulatedCluster
from testbed.simulation.kernel.run import Simulation, run_simulation

LASTS_S, QUEUES, CHANGES = 300.0, 12, 40
RECORDED = Rules(strategy="AVG", interval_ms=20_000, timeout_ms=10_000, was_timeout_ms=10_000)
TRIED = (
    replace(RECORDED, strategy="AVG_BY_CIRCLE"),
    replace(RECORDED, strategy="CONSISTENT_HASH"),
    replace(RECORDED, strategy="BALANCED_STICKY"),
    replace(RECORDED, timeout_ms=20_000),
    replace(RECORDED, timeout_ms=5_000),
    replace(RECORDED, notify=False, interval_ms=5_000),
    replace(RECORDED, notify=False),
    replace(RECORDED, handover=Handover.OVERLAP),
    replace(RECORDED, strategy="BALANCED_STICKY", timeout_ms=20_000),
    replace(RECORDED, strategy="AVG_BY_CIRCLE", notify=False, interval_ms=10_000),
)


def run(rules: Rules, seed: int) -> RecordedGroup:
    """A run of the group under these rules; `seed` draws what is not planned."""

    async def main(simulation: Simulation) -> bytes:
        quirks = frozenset({Quirk.OVERLAPPING_HANDOVER} if rules.handover is Handover.OVERLAP else ())
        with tempfile.TemporaryDirectory() as folder:
            async with SimulatedCluster(simulation, Path(folder), quirks=quirks) as cluster:
                await live_through(cluster, rules)
                return encode_events(cluster.events)

    return read_group(decode_events(run_simulation(main, seed=seed))[0], "g")


async def live_through(cluster: SimulatedCluster, rules: Rules) -> None:
    """Let members join, leave and crash as planned, under these rules."""
    await cluster.create_topic("t", queues=QUEUES)
    chance, members = cluster.simulation.random, dict[int, SimulatedConsumer]()
    triggers = frozenset(Trigger) - (frozenset() if rules.notify else {Trigger.NOTIFY})

    async def work(message: MessageExt) -> None:
        await anyio.sleep(chance.random() * 0.05)

    async def send() -> None:
        producer = await cluster.start_producer()
        while True:
            await producer.send("t", b"x")
            await anyio.sleep(0.05)

    async def join(number: int) -> None:
        members[number] = cluster.make_consumer(
            "g",
            strategy=BUILT_IN_STRATEGIES[rules.strategy].make(),
            session_timeout_s=rules.timeout_ms / 1000,
            rebalance_interval_s=rules.interval_ms / 1000,
            triggers=triggers,
            host=f"m{number}",
            instance_name=f"m{number}",
            consume_from=ConsumeFrom.FIRST_OFFSET,
        )
        await members[number].subscribe("t", work=work)
        await members[number].start()

    async def change(at_s: float, step: str, number: int) -> None:
        await anyio.sleep(at_s)
        if step == "join":
            await join(number)
        elif step == "leave":
            await members[number].stop()
        else:
            await members[number].crash()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(send)
        for planned in plan():
            tasks.start_soon(change, *planned)
        await anyio.sleep(LASTS_S)
        tasks.cancel_scope.cancel()


def plan() -> list[tuple[float, str, int]]:
    """What happens in every run: when, what, and to which member."""
    draw, live, planned = Random(7), list[int](), list[tuple[float, str, int]]()
    number = 0
    for at_s in sorted(draw.uniform(1, LASTS_S - 40) for _ in range(CHANGES)):
        step = "join" if len(live) < 3 else draw.choice(["join", "leave", "crash"] if len(live) < 8 else ["leave"])
        if step == "join":
            live.append(number)
            planned.append((at_s, step, number))
            number += 1
        else:
            planned.append((at_s, step, live.pop(draw.randrange(len(live)))))
    return planned


def error(predicted: float, live: float) -> float:
    """How far a prediction is off, as a part of what happened."""
    return abs(predicted - live) / live if live else (0.0 if not predicted else math.inf)


def main() -> None:
    recorded = run(RECORDED, seed=1)
    say("| other than in the trace | moves | predicted | off by | orphan | predicted | off by |")
    say("|---|---:|---:|---:|---:|---:|---:|")
    off: tuple[list[float], list[float]] = [], []
    for seed, rules in enumerate(TRIED, 2):
        costs, figures = try_rules(recorded, rules).costs, run(rules, seed).figures
        pairs = ((costs.moves, figures.moves), (costs.orphan_s, figures.orphan_ms / 1000))
        for found, pair in zip(off, pairs, strict=True):
            found.append(error(*pair))
        cells = " | ".join(
            f"{live:,.{digits}f}{unit} | {predicted:,.{digits}f}{unit} | {error(predicted, live):.0%}"
            for (predicted, live), digits, unit in zip(pairs, (0, 1), ("", " s"), strict=True)
        )
        say(f"| {difference(rules)} | {cells} |")
    say(f"\nmedian off by: moves {statistics.median(off[0]):.0%}, orphan {statistics.median(off[1]):.0%}")
    say(f"in the trace: {recorded.figures.moves} moves, {recorded.figures.orphan_ms / 1000:.1f} s orphan")


def difference(rules: Rules) -> str:
    """The rules that are other than those of the trace, in words."""
    said = [
        rules.strategy if rules.strategy != RECORDED.strategy else "",
        f"session timeout {rules.timeout_ms / 1000:g} s" if rules.timeout_ms != RECORDED.timeout_ms else "",
        f"rebalance interval {rules.interval_ms / 1000:g} s" if rules.interval_ms != RECORDED.interval_ms else "",
        "" if rules.notify else "no notifications",
        "" if rules.handover == RECORDED.handover else f"handover {rules.handover.value}",
    ]
    return ", ".join(filter(None, said))


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
