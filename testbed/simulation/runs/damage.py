"""Damage to the files of a broker: every acknowledged message that is lost is reported, counted and shown.

A trial fills a broker, stops or kills it, damages a random file (cut, removed, flipped bits, zeros) and starts it
again. Then a new group reads everything, perhaps an old one goes on, and more messages are sent:

    python -m testbed.simulation.runs.damage --trials 200 --seed 7

`metadata.sqlite` is left alone: it holds no message.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import anyio

from broker.store.disk.directory import METADATA_NAME
from broker.store.disk.options import StoreOptions
from client.admin.admin import Admin
from client.admin.records import GroupInfo, TopicInfo
from model.errors import RlabError
from model.events import EventKind
from model.heartbeat import ConsumeFrom
from model.message import SendResult
from model.record import FlushMode
from testbed.simulation.cluster.clients import SimulatedConsumer, SimulatedProducer
from testbed.simulation.cluster.cluster import SimulatedCluster
from testbed.simulation.faults.damage import damage_file
from testbed.simulation.kernel.run import Simulation, run_simulation

TOPIC, BROKER = "t", "broker-a"
SENT_AFTER = 12
"""Messages that are sent after the damage."""
READ_S = 60.0
"""Time limit to read everything that is left."""

Place = tuple[int, int]
"""(queue id, offset)."""


@dataclass(slots=True)
class DamageResult:
    """Result of several trials."""

    trials: int = 0
    done: Counter[str] = field(default_factory=Counter)  # trials by what the damaged file is
    messages: int = 0  # acknowledged before the damage
    lost: int = 0  # of them
    refused: int = 0  # trials in which the broker did not start, and said what to do
    findings: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        kinds = ", ".join(f"{n} {kind}" for kind, n in sorted(self.done.items()))
        return (
            f"{self.trials} trials ({kinds}): {self.lost} of {self.messages} messages lost and reported, "
            f"{self.refused} starts refused with what to do, {len(self.findings)} findings"
        )


class _Trial:
    """One trial; its faults go into `findings`."""

    def __init__(self, cluster: SimulatedCluster, data: Path, random: Random, result: DamageResult) -> None:
        self._cluster = cluster
        self._data = data
        self._random = random
        self._result = result
        self._stored: dict[Place, bytes] = {}
        self._what = ""

    def _find(self, text: str) -> None:
        self._result.findings.append(f"trial {self._result.trials} ({self._what}): {text}")

    async def run(self) -> None:
        cluster, random = self._cluster, self._random
        await cluster.create_topic(TOPIC, queues=random.randint(1, 4))
        producer = await cluster.start_producer()
        # In half of the trials no group has consumed, so no committed offset shows how many messages there were.
        early = None
        if random.random() < 0.5:
            early = await cluster.start_consumer("early", TOPIC, consume_from=ConsumeFrom.FIRST_OFFSET)
        await self._send(producer, random.randint(60, 200))
        await anyio.sleep(10)
        stored_before = dict(self._stored)
        broker = cluster.brokers[BROKER]
        await (broker.stop() if random.random() < 0.5 else broker.crash())
        self._damage()
        cluster.events.clear()
        self._result.messages += len(stored_before)
        try:
            await broker.start()
        except RlabError as error:
            self._result.refused += 1
            if ": " not in str(error):
                self._find(f"the start was refused without what to do: {error}")
            return
        await anyio.sleep(5)
        late = await cluster.start_consumer("late", TOPIC, consume_from=ConsumeFrom.FIRST_OFFSET)
        await self._send(producer, SENT_AFTER)
        await self._wait_read(late)
        lost_offsets = self._check_late(late, stored_before)
        self._result.lost += len(lost_offsets)
        if early is not None and (missed := self._stored.keys() - _read(early).keys()):
            self._find(f"a group that had read everything did not get {sorted(missed)} afterwards")
        await self._check_shown(late, len(lost_offsets))

    async def _send(self, producer: SimulatedProducer, n: int) -> None:
        for _ in range(n):
            body = b"%d " % len(self._stored) + self._random.randbytes(self._random.randrange(60))
            result: SendResult = await producer.send(TOPIC, body)
            queue_and_offset = result.queue.queue_id, result.offset
            if queue_and_offset in self._stored:
                self._find(f"offset {queue_and_offset} was given twice")
            self._stored[queue_and_offset] = body

    def _damage(self) -> None:
        files = [path for path in sorted(self._data.iterdir()) if not path.name.startswith(METADATA_NAME)]
        logs = [path for path in files if path.suffix == ".log"]
        path = self._random.choice(logs if self._random.random() < 0.6 else files)
        self._result.done[path.suffix.lstrip(".") or path.name] += 1
        self._what = damage_file(path, self._random)
        others = [other for other in logs if other != path]
        if path in logs and others and self._random.random() < 0.25:
            self._what += f", {damage_file(self._random.choice(others), self._random)}"

    async def _wait_read(self, late: SimulatedConsumer) -> None:
        with anyio.move_on_after(READ_S):
            while len(_read(late)) + late.consumer.missed.damaged < len(self._stored):  # noqa: ASYNC110
                await anyio.sleep(0.5)
        await anyio.sleep(5)

    def _check_late(self, late: SimulatedConsumer, stored_before: dict[Place, bytes]) -> set[Place]:
        """Compare a new group's messages with the acknowledged ones and the reported losses; returns the lost ones."""
        got = _read(late)
        if wrong := [
            queue_and_offset for queue_and_offset, body in got.items() if self._stored.get(queue_and_offset) != body
        ]:
            self._find(f"wrong bytes at {wrong}")
        lost_offsets = self._stored.keys() - got.keys()
        if newer := lost_offsets - stored_before.keys():
            self._find(f"lost after the damage: {sorted(newer)}")
        reported = [
            (event.queue_id, offset)
            for event in self._cluster.events_of(EventKind.MESSAGES_DAMAGED)
            if event.topic == TOPIC
            for offset in range(event.offset, event.offset + event.n)
        ]
        if sorted(reported) != sorted(lost_offsets):
            self._find(f"lost are {sorted(lost_offsets)}, the broker reported {sorted(reported)}")
        if late.consumer.missed.damaged != len(lost_offsets):
            self._find(f"{len(lost_offsets)} are lost, the consumer counted {late.consumer.missed.damaged}")
        return set(lost_offsets)

    async def _check_shown(self, late: SimulatedConsumer, n_lost: int) -> None:
        group, topic = await self._shown(late)
        of_topic = sum(held.damaged for held in topic.ranges) if topic is not None else -1
        of_group = sum(queue.damaged for queue in group.queues if queue.queue.topic == TOPIC)
        if not of_topic == of_group == n_lost:
            self._find(f"{n_lost} are lost, {of_topic} are shown for the topic and {of_group} for the group")

    async def _shown(self, late: SimulatedConsumer) -> tuple[GroupInfo, TopicInfo | None]:
        with self._cluster.simulation.on_host("operator"):
            async with Admin(self._cluster.addresses) as admin:
                return await admin.group(late.group), (await admin.broker_info(BROKER)).topic(TOPIC)


def _read(consumer: SimulatedConsumer) -> dict[Place, bytes]:
    """The messages of the topic that a consumer received, by place."""
    messages = [delivery.message for delivery in consumer.deliveries]
    return {(message.queue.queue_id, message.offset): message.body for message in messages}


def run_damage(seed: int, trials: int) -> DamageResult:
    """Run trials, each in a new world and directory; equal arguments give equal results."""
    result = DamageResult()
    for number in range(1, trials + 1):
        result.trials = number
        random = Random(f"{seed} {number}")
        with tempfile.TemporaryDirectory() as root:
            directory = Path(root)

            async def trial(simulation: Simulation, directory: Path = directory, random: Random = random) -> None:
                store = StoreOptions(segment_bytes=random.choice([1_500, 4_000, 10**6]), tail_bytes=2_000)
                flush = random.choice(list(FlushMode))
                async with SimulatedCluster(simulation, directory, brokers=1, store=store, flush=flush) as cluster:
                    await _Trial(cluster, directory / BROKER, random, result).run()

            run_simulation(trial, seed=number)
    return result


def main() -> int:
    """Run it from the command line; 0 if nothing was found."""
    parser = argparse.ArgumentParser(
        prog="python -m testbed.simulation.runs.damage", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.CRITICAL)
    result = run_damage(arguments.seed, arguments.trials)
    sys.stdout.write("".join(f"{line}\n" for line in (str(result), *result.findings)))
    return 1 if result.findings else 0


if __name__ == "__main__":
    raise SystemExit(main())
