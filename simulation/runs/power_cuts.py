"""Power cuts: brokers lose power again and again under load, and then every promise is checked.

Producers send plain and delayed messages from several lanes at once; consumers fail some, which are redelivered through
the retry topic. Syncs take virtual time, so cuts hit writes that wait for one. With `FlushMode.SYNC` no acknowledged
message is lost; with `FlushMode.ASYNC` some are, sooner or later, which shows that the check can fail:

    python -m simulation.runs.power_cuts --cuts 200 --seed 7
    python -m simulation.runs.power_cuts --cuts 20 --seed 7 --flush async
"""

from __future__ import annotations

import argparse
import logging
import shutil
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from broker.durability.metadata import FILE_NAME, MetadataStore
from broker.store.disk.options import StoreOptions
from client.listeners.listener import ConsumeResult
from model.errors import RlabError
from model.heartbeat import ConsumeFrom
from model.message import Message, MessageExt, SendResult
from model.message_queue import MessageQueue
from model.record import FlushMode
from remoting.tasks import background_tasks
from simulation.cluster.clients import SimulatedProducer
from simulation.cluster.cluster import SimulatedCluster
from simulation.faults.power_cut_files import PowerCutFiles
from simulation.kernel.run import Simulation, run_simulation

TOPIC, GROUP = "t", "g"
QUEUES = 1
PRODUCERS, LANES, CONSUMERS = 2, 4, 2
SYNC_S = 0.004
"""How long a sync takes; a cut in this time finds messages written and not yet acknowledged."""
SEGMENT_BYTES = 8_192
"""Small, so that cuts hit the change from one segment to the next."""
DRAINED_S = 120.0
"""Time limit to consume every acknowledged message after the last cut; routes are polled every 30 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerCutResult:
    """Result of a run.

    Attributes:
        out_of_order: first deliveries of a queue after one with a higher offset, and acknowledged messages of one lane
            whose offsets are not in the order of sending.
    """

    cuts: int
    acknowledged: int
    failed: int  # sends that ended with an error; the messages may be stored or not
    duplicates: int  # deliveries beyond the first of each message
    lost: tuple[str, ...]  # messages acknowledged and never consumed
    changed: tuple[str, ...]  # offsets under which two different messages were acknowledged or delivered
    out_of_order: tuple[str, ...]
    took_s: float  # virtual seconds

    @property
    def kept_every_promise(self) -> bool:
        """Whether nothing was lost or changed, and all was in order."""
        return not (self.lost or self.changed or self.out_of_order)

    def __str__(self) -> str:
        return (
            f"{self.cuts} power cuts in {self.took_s:.0f} virtual seconds: {self.acknowledged} acknowledged, "
            f"{self.failed} failed, {self.duplicates} duplicates, {len(self.lost)} lost, {len(self.changed)} changed, "
            f"{len(self.out_of_order)} out of order"
        )


def _last_topic_id(directory: Path) -> int:
    with MetadataStore(directory) as metadata:
        return metadata.number("last_topic_id")


@dataclass
class _PowerCutRun:
    """One run: the load on a cluster, and the record of it."""

    cluster: SimulatedCluster
    data_dir: Path
    files: PowerCutFiles
    flush: FlushMode
    acknowledged: dict[str, SendResult] = field(default_factory=dict)
    finished: set[str] = field(default_factory=set)
    failed: int = 0

    # --- load --------------------------------------------------------------------------------------------------------

    async def lane(self, producer: SimulatedProducer, lane: int) -> None:
        """Send sequentially to one queue; every fourth lane sends delayed messages."""
        simulation = self.cluster.simulation
        brokers = sorted(self.cluster.brokers)
        queue = MessageQueue(TOPIC, brokers[lane % len(brokers)], lane // len(brokers) % QUEUES)
        number = 0
        while True:
            number += 1
            body = f"{producer.host}.{lane}.{number:06}"
            later = 300 if lane % 4 == 3 else None
            try:
                with simulation.on_host(producer.host):
                    self.acknowledged[body] = await producer.producer.send(
                        Message(TOPIC, body.encode()), queue=queue, delay_ms=later
                    )
            except RlabError:
                self.failed += 1
            await anyio.sleep(simulation.random.random() * 0.01)

    async def work(self, message: MessageExt) -> ConsumeResult | None:
        """Fail every twentieth message the first time."""
        body = message.body.decode()
        if message.times_delivered == 0 and int(body[-6:]) % 20 == 0:
            return ConsumeResult.RECONSUME_LATER
        self.finished.add(body)
        return None

    # --- power -------------------------------------------------------------------------------------------------------

    async def cut_one(self) -> None:
        """Cut the power of a broker, and start it again."""
        random = self.cluster.simulation.random
        await anyio.sleep(random.uniform(0.05, 0.6))
        name = random.choice(sorted(self.cluster.brokers))
        server = self.cluster.brokers[name]
        await server.crash(self._lose)
        self.files.forget(self.data_dir / name)
        await anyio.sleep(random.uniform(0.0, 0.3))
        await server.start()
        self.note_metadata(name)

    def _lose(self, directory: Path, survivor: Path) -> None:
        random = self.cluster.simulation.random
        self.files.cut(directory, survivor, random)
        if self.flush is FlushMode.ASYNC and random.random() < 0.5:
            # Commits of the database reach the disk late and in order: perhaps none since the start has. But one that
            # makes a topic waits for the disk.
            noted = self._noted(directory.name)
            if _last_topic_id(noted) == _last_topic_id(survivor):
                for path in survivor.glob(f"{FILE_NAME}*"):
                    path.unlink()
                for path in sorted(noted.iterdir()):
                    shutil.copy(path, survivor)

    def _noted(self, name: str) -> Path:
        return self.data_dir / f"{name}.metadata"

    def note_metadata(self, name: str) -> None:
        """Keep the database of a broker as it is now."""
        shutil.rmtree(self._noted(name), ignore_errors=True)
        self._noted(name).mkdir()
        for path in sorted((self.data_dir / name).glob(f"{FILE_NAME}*")):
            shutil.copy(path, self._noted(name))

    # --- verdict -----------------------------------------------------------------------------------------------------

    @property
    def unfinished(self) -> list[str]:
        return sorted(self.acknowledged.keys() - self.finished)

    async def drain(self) -> None:
        with anyio.move_on_after(DRAINED_S):
            while self.unfinished:  # noqa: ASYNC110  # consumers offer no event to wait for
                await anyio.sleep(0.5)

    def result(self, cuts: int) -> PowerCutResult:
        deliveries = sorted(
            (delivery for consumer in self.cluster.consumers for delivery in consumer.deliveries),
            key=lambda delivery: delivery.time_s,
        )
        bodies: dict[tuple[MessageQueue, int], str] = {}
        changed, out_of_order = [], []
        newest: dict[MessageQueue, int] = {}
        for delivery in deliveries:
            queue, offset, body = delivery.message.queue, delivery.message.offset, delivery.body.decode()
            # The order of first deliveries counts for each queue; a retried message is a new one of the retry topic.
            if (queue, offset) not in bodies and offset < newest.get(queue, -1):
                out_of_order.append(f"{queue}+{offset} after {newest[queue]}")
            if bodies.setdefault((queue, offset), body) != body:
                changed.append(f"{queue}+{offset}: {bodies[queue, offset]}, {body}")
            newest[queue] = max(newest.get(queue, -1), offset)
        last: dict[tuple[str, MessageQueue], int] = {}
        for body, (queue, offset, _) in sorted(self.acknowledged.items()):
            if offset < 0:
                continue
            lane = body.rpartition(".")[0], queue
            if offset <= last.get(lane, -1):
                out_of_order.append(f"{body} at {queue}+{offset} after {last[lane]}")
            last[lane] = offset
            if bodies.get((queue, offset), body) != body:
                changed.append(f"{queue}+{offset}: {body} was acknowledged, {bodies[queue, offset]} delivered")
        return PowerCutResult(
            cuts=cuts,
            acknowledged=len(self.acknowledged),
            failed=self.failed,
            duplicates=len(deliveries) - len(bodies),
            lost=tuple(self.unfinished),
            changed=tuple(changed),
            out_of_order=tuple(out_of_order),
            took_s=self.cluster.simulation.loop.time(),
        )


async def power_cuts(
    simulation: Simulation, data_dir: Path, *, cuts: int, flush: FlushMode = FlushMode.SYNC
) -> PowerCutResult:
    """Cut the power of brokers under load, `cuts` times; their data is below the empty `data_dir`.

    The simulation's executors are slow from now on. The result is not judged here.

    Raises:
        RlabError: a broker did not start again.

    Cancellation: everything is stopped.
    """
    simulation.loop.blocking_s = SYNC_S
    files = PowerCutFiles()
    options = StoreOptions(segment_bytes=SEGMENT_BYTES, tail_bytes=SEGMENT_BYTES)
    async with SimulatedCluster(simulation, data_dir, brokers=2, flush=flush, files=files, store=options) as cluster:
        run = _PowerCutRun(cluster, data_dir, files, flush)
        await cluster.create_topic(TOPIC, QUEUES)
        for name in cluster.brokers:
            run.note_metadata(name)
        for _ in range(CONSUMERS):
            await cluster.start_consumer(
                GROUP, TOPIC, work=run.work, consume_from=ConsumeFrom.FIRST_OFFSET, retry_delay_ms=200
            )
        async with background_tasks() as tasks:
            for _ in range(PRODUCERS):
                producer = await cluster.start_producer(retries=0)
                for lane in range(LANES):
                    tasks.start_soon(run.lane, producer, lane)
            for _ in range(cuts):
                await run.cut_one()
        await run.drain()
        return run.result(cuts)


def run_power_cuts(seed: int, cuts: int, flush: FlushMode = FlushMode.SYNC) -> PowerCutResult:
    """Do `power_cuts` in a world and a directory of its own; equal arguments give equal results."""
    with tempfile.TemporaryDirectory() as root:
        return run_simulation(lambda world: power_cuts(world, Path(root), cuts=cuts, flush=flush), seed=seed)


def main() -> int:
    """Run it from the command line; 0 if every promise was kept."""
    parser = argparse.ArgumentParser(
        prog="python -m simulation.runs.power_cuts", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--cuts", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--flush", type=FlushMode, choices=list(FlushMode), default=FlushMode.SYNC)
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)
    result = run_power_cuts(arguments.seed, arguments.cuts, arguments.flush)
    lines = (str(result), *result.lost, *result.changed, *result.out_of_order)
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 0 if result.kept_every_promise else 1


if __name__ == "__main__":
    raise SystemExit(main())
