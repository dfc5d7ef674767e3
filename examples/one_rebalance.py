"""Rebalances event by event: a join, a refused lease, and four ways to leave.

    python examples/one_rebalance.py

Each scene runs in virtual time on a cluster of its own with two brokers and a topic of two queues on each, so that
every run gives the same events, to the millisecond. They are the events that `rlab broker --trace FILE` writes and that
every client sends to the topic SYS_TRACE, without those of the retry topic. `docs/one-rebalance.md` explains them.

    python examples/one_rebalance.py docs      updates that page
"""

from __future__ import annotations

import logging
import re
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import anyio

from model.events import Event, EventKind
from model.limits import RUN_SEQS
from model.message import MessageExt
from model.names import is_retry_topic
from simulation.cluster.cluster import SimulatedCluster
from simulation.kernel.run import Simulation, run_simulation

PAGE = Path(__file__).resolve().parents[1] / "docs" / "one-rebalance.md"
SESSION_TIMEOUT_S = 6.0
NOT_SHOWN = {EventKind.OFFSET_COMMITTED, EventKind.MESSAGES_HANDED_OUT}
NUMBERS = {0, 2}
"""Columns of the table that are aligned to the right."""


class Began(NamedTuple):
    """End of the preparation of a scene: number of events and time."""

    events: int
    t_ms: float


Scene = Callable[[SimulatedCluster], Awaitable[Began]]
"""Prepares a group, then causes a rebalance; returns the end of the preparation."""


def now(cluster: SimulatedCluster) -> Began:
    """This moment."""
    return Began(len(cluster.events), cluster.simulation.clock_ms())


async def two_members(cluster: SimulatedCluster) -> None:
    """Start two members and wait until the group has been converged for a while."""
    await cluster.create_topic("orders", queues=2)
    for _ in range(2):
        await cluster.start_consumer("billing", "orders", session_timeout_s=SESSION_TIMEOUT_S)
    await cluster.wait_converged(1)
    await anyio.sleep(4)


async def join(cluster: SimulatedCluster) -> Began:
    """c2 joins c1."""
    await cluster.create_topic("orders", queues=2)
    await cluster.start_consumer("billing", "orders")
    await cluster.wait_converged(1)
    await anyio.sleep(4)
    began = now(cluster)
    await cluster.start_consumer("billing", "orders")
    await anyio.sleep(0.5)
    return began


async def refused(cluster: SimulatedCluster) -> Began:
    """c2 joins while a listener of c1 has a message of a queue that c2 should have."""

    async def work(message: MessageExt) -> None:
        await anyio.sleep(2)

    await cluster.create_topic("orders", queues=2)
    await cluster.start_consumer("billing", "orders", work=work)
    await cluster.wait_converged(1)
    await anyio.sleep(4)
    producer = await cluster.start_producer(host="p", instance_name="p")
    queue = next(queue for queue in cluster.owners("billing") if (queue.broker_name, queue.queue_id) == ("broker-b", 1))
    await producer.send("orders", b"takes two seconds", queue=queue)
    began = now(cluster)
    await cluster.start_consumer("billing", "orders", host="c2", instance_name="2")
    await anyio.sleep(2.5)
    return began


async def unregister(cluster: SimulatedCluster) -> Began:
    """c2 is shut down."""
    await two_members(cluster)
    began = now(cluster)
    await cluster.consumers[1].stop()
    await anyio.sleep(0.5)
    return began


async def close(cluster: SimulatedCluster) -> Began:
    """The process of c2 is killed, and its connections close."""
    await two_members(cluster)
    began = now(cluster)
    await cluster.consumers[1].crash()
    await anyio.sleep(0.5)
    return began


async def expiry(cluster: SimulatedCluster) -> Began:
    """The process of c2 hangs: its connections stay open, and nothing comes over them."""
    await two_members(cluster)
    began = now(cluster)
    cluster.consumers[1].hang()
    await anyio.sleep(SESSION_TIMEOUT_S + 0.5)
    return began


async def restart(cluster: SimulatedCluster) -> Began:
    """broker-b crashes, and is started again at once."""
    await two_members(cluster)
    began = now(cluster)
    await cluster.brokers["broker-b"].crash()
    await cluster.brokers["broker-b"].start()
    await anyio.sleep(1)
    return began


SCENES: dict[str, Scene] = {
    "join": join,
    "refused": refused,
    "unregister": unregister,
    "close": close,
    "expiry": expiry,
    "restart": restart,
}


def play(scene: Scene) -> tuple[list[Event], Began]:
    """Run a scene; returns every event up to its end, and where the scene proper began."""
    with tempfile.TemporaryDirectory() as directory:

        async def main(simulation: Simulation) -> tuple[list[Event], Began]:
            async with SimulatedCluster(simulation, Path(directory), brokers=2) as cluster:
                began = await scene(cluster)
                return list(cluster.events), began

        return run_simulation(main)


def render(scene: Scene) -> str:
    """The events of a scene as a table of plain text; times are milliseconds from its beginning."""
    events, began = play(scene)
    of_scene = events[began.events :]
    shown = [event for event in of_scene if not is_retry_topic(event.topic) and event.kind not in NOT_SHOWN]
    rows = [("ms", "node", "seq", "kind", "queue", "what", "cause")]
    rows += [
        (
            f"{event.t_ms - began.t_ms:.0f}",
            event.node,
            str(event.seq % RUN_SEQS),
            event.kind,
            f"{event.broker[-1:]}{event.queue_id}" if event.queue_id >= 0 else "",
            _what(event),
            _short(event.cause),
        )
        for event in shown
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join(_aligned(row, widths)).rstrip() for row in rows)


def _short(cause: str) -> str:
    """A cause without the run of its node, which is a random number for clients."""
    node, _, seq = cause.rpartition("/")
    return f"{node}/{int(seq) % RUN_SEQS}"


def _aligned(row: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    for column, (cell, width) in enumerate(zip(row, widths, strict=True)):
        yield cell.rjust(width) if column in NUMBERS else cell.ljust(width)


def _what(event: Event) -> str:
    """The columns that say more than which queue, without what differs from run to run."""
    parts = [event.detail] if event.detail else []
    if event.client and event.client != event.node:
        parts.append(event.client)
    if event.n >= 0 and event.kind != EventKind.LOCK_GRANTED:  # no queue has a backlog here
        parts.append(f"n={event.n}")
    if event.offset >= 0:
        parts.append(f"offset={event.offset}")
    return " ".join(parts)


def filled(page: str) -> str:
    """The page with the output of each scene in its place, which `<!-- scene: NAME -->` marks."""

    def block(match: re.Match[str]) -> str:
        return f"{match[1]}```text\n{render(SCENES[match[2]])}\n```"

    return re.sub(r"(<!-- scene: (\w+) -->\n)```text\n.*?```", block, page, flags=re.DOTALL)


if __name__ == "__main__":
    logging.basicConfig(level=logging.ERROR)
    if sys.argv[1:] == ["docs"]:
        PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        for scene in SCENES.values():
            print(f"{(scene.__doc__ or '').strip()}\n{render(scene)}\n")
    print(f"{len(SCENES)} scenes")
