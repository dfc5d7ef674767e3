"""Scenes: short runs of a small cluster, shown event by event, as pages of the documentation print them.

A scene prepares a cluster, and then makes the change that it is about. The recording begins with this change, so times
are milliseconds since then. Every run of a scene gives the same events.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from model.events import Event, EventKind
from model.limits import RUN_SEQS
from model.names import is_retry_topic
from testbed.simulation.cluster.cluster import SimulatedCluster
from testbed.simulation.kernel.run import Simulation, run_simulation

NOT_SHOWN = {EventKind.OFFSET_COMMITTED, EventKind.MESSAGES_HANDED_OUT}
NUMBERS = {0, 2}
"""Columns of the table that are aligned to the right."""


class SceneStart(NamedTuple):
    """End of the preparation of a scene: number of events and time."""

    events: int
    t_ms: float


Scene = Callable[[SimulatedCluster], Awaitable[SceneStart]]
"""Prepares a group, then causes a rebalance; returns the end of the preparation."""


def now(cluster: SimulatedCluster) -> SceneStart:
    """This moment."""
    return SceneStart(len(cluster.events), cluster.simulation.clock_ms())


def play(scene: Scene) -> tuple[list[Event], SceneStart]:
    """Run a scene; returns every event up to its end, and where the scene proper began."""
    with tempfile.TemporaryDirectory() as directory:

        async def main(simulation: Simulation) -> tuple[list[Event], SceneStart]:
            async with SimulatedCluster(simulation, Path(directory), brokers=2) as cluster:
                began = await scene(cluster)
                return list(cluster.events), began

        return run_simulation(main)


def render(scene: Scene) -> str:
    """The events of a scene as a table of plain text; times are milliseconds from its beginning."""
    events, began = play(scene)
    of_scene = events[began.events :]
    shown_events = [event for event in of_scene if not is_retry_topic(event.topic) and event.kind not in NOT_SHOWN]
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
        for event in shown_events
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


def filled_with(scenes: Mapping[str, Scene], page: str) -> str:
    """The page with the output of each scene in its place, which `<!-- scene: NAME -->` marks."""

    def block(match: re.Match[str]) -> str:
        return f"{match[1]}```text\n{render(scenes[match[2]])}\n```"

    return re.sub(r"(<!-- scene: (\w+) -->\n)```text\n.*?```", block, page, flags=re.DOTALL)
