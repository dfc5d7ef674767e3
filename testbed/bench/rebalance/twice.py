"""twice: messages delivered twice after one of three consumers was killed, and the broker's count of possible ones.

Three consumers, each in a process of its own, consume a topic of 16 queues while 1,000 messages a second are sent to
it. In the middle one is killed (SIGKILL). A listener writes the number of each message to a file before it returns, so
that the numbers of the killed process are known too. Possible duplicates are counted from the broker's events, as a
report does. RocketMQ 5.4 has 10 (concurrently) and 6 (orderly) of 25,000, because it commits with every pull, as this.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import anyio

from client import Message, Producer
from client.admin.admin import Admin
from client.options import ConsumeOrder
from model.events import EventKind
from process.children import Child
from remoting.tasks import background_tasks
from testbed.bench.kit.convergence import ConvergenceTimeout
from testbed.bench.kit.echo import TOPIC
from testbed.bench.kit.member import NUMBER_BYTES
from testbed.bench.kit.processes import (
    broker_process,
    create_topics,
    kill,
    member_process,
    name_server_process,
    temporary_folder,
)
from testbed.bench.kit.report import Result
from testbed.bench.kit.rounds import Progress, Sizes

GROUP = "bench"
QUEUES, MEMBERS = 16, 3
SESSION_TIMEOUT_S = 30.0
RATE = 1_000
"""Messages per second."""
KINDS = {"concurrent": ConsumeOrder.NONE, "orderly": ConsumeOrder.QUEUE}
_CONVERGE_S, _FINISH_S, _POLL_S = 30.0, 30.0, 0.2
_TRACE_FLUSHED_S = 2.0


class Repeats(NamedTuple):
    """The duplicates after one kill."""

    twice: int  # messages that came a second time
    reported: int  # the most that may have, by the broker's events


async def bench_twice(sizes: Sizes, progress: Progress) -> list[Result]:
    """Kill a consumer of each kind a few times."""
    results: list[Result] = []
    for name, order in KINDS.items():
        kills: list[Repeats] = []
        for number in range(sizes.passes):
            progress(f"{name}, kill {number + 1} of {sizes.passes}")
            kills.append(await measure(order, sizes.twice))
        results += make_results(name, kills, sizes.twice)
    return results


def make_results(name: str, kills: list[Repeats], count: int) -> list[Result]:
    """The worst kill, and how far the broker's figure was below and above what came twice."""
    note = f"of {count:,}; {', '.join(f'{kill.twice} (up to {kill.reported})' for kill in kills)}"
    worst = max(kill.twice for kill in kills)
    untold = max(max(0, kill.twice - kill.reported) for kill in kills)
    excess = max(max(0, kill.reported - 3 * kill.twice) for kill in kills)
    return [
        Result(name=f"twice-{name}", value=worst, unit="messages", note=note),
        Result(name=f"twice-{name}-untold", value=untold, unit="messages"),
        Result(name=f"twice-{name}-excess", value=excess, unit="messages", note="reported beyond 3 times as many"),
    ]


async def measure(order: ConsumeOrder, count: int) -> Repeats:
    """Send `count` messages to a new cluster, kill a consumer after half of them, and wait until all have come.

    Raises:
        ConvergenceTimeout: the group did not converge, or messages did not come.

    Cancellation: every process is stopped.
    """
    async with _scene(order) as scene:
        halfway = anyio.Event()
        async with background_tasks() as tasks:
            tasks.start_soon(_kill_after, halfway, scene.members[-1])
            await _send(scene.name_server, count, halfway)
            times = await _wait_for_all(scene, count)
        await anyio.sleep(_TRACE_FLUSHED_S)
        return Repeats(sum(n - 1 for n in times.values()), await anyio.to_thread.run_sync(max_redelivered, scene.trace))


@dataclass(frozen=True)
class _TwiceCluster:
    """A cluster with its members, in the order of their client ids; member n writes the messages to `seen[n]`."""

    name_server: str
    members: list[Child]
    seen: list[Path]
    trace: Path


@asynccontextmanager
async def _scene(order: ConsumeOrder) -> AsyncIterator[_TwiceCluster]:
    async with AsyncExitStack() as stack:
        folder = await stack.enter_async_context(temporary_folder())
        name_server = await stack.enter_async_context(name_server_process())
        trace, seen = folder / "trace.jsonl", [folder / f"seen-{number}" for number in range(MEMBERS)]
        await stack.enter_async_context(broker_process(name_server, folder / "data", "--trace", str(trace)))
        await create_topics(name_server, {TOPIC: QUEUES})
        members = [
            await stack.enter_async_context(
                member_process(name_server, GROUP, f"member-{number}", SESSION_TIMEOUT_S, order, path)
            )
            for number, path in enumerate(seen)
        ]
        await _wait_converged(name_server)
        yield _TwiceCluster(name_server, members, seen, trace)


async def _wait_converged(name_server: str) -> None:
    """Wait until every queue has the owner that it should have."""
    with anyio.move_on_after(_CONVERGE_S):
        async with Admin(name_server) as admin:
            while True:
                group = await admin.group(GROUP)
                owned = [queue.targets == (queue.owner,) for queue in group.queues if queue.queue.topic == TOPIC]
                if len(group.members) == MEMBERS and len(owned) == QUEUES and all(owned):
                    return
                await anyio.sleep(_POLL_S)
    raise ConvergenceTimeout(f"{MEMBERS} consumers did not share {QUEUES} queues within {_CONVERGE_S:g} s")


async def _kill_after(halfway: anyio.Event, victim: Child) -> None:
    await halfway.wait()
    await kill(victim)


async def _send(name_server: str, count: int, halfway: anyio.Event) -> None:
    """Send numbered messages at a steady rate; set `halfway` after half of them."""
    async with Producer(name_server) as producer, anyio.create_task_group() as sends:
        began = time.perf_counter()
        for number in range(count):
            if number == count // 2:
                halfway.set()
            await anyio.sleep(max(0.0, began + number / RATE - time.perf_counter()))
            sends.start_soon(producer.send, Message(TOPIC, number.to_bytes(NUMBER_BYTES)))


async def _wait_for_all(scene: _TwiceCluster, count: int) -> Counter[bytes]:
    """Wait until every message has come; returns how often each did."""
    with anyio.move_on_after(_FINISH_S):
        while True:
            times = await anyio.to_thread.run_sync(_times_seen, scene.seen)
            if len(times) == count:
                return times
            await anyio.sleep(_POLL_S)
    raise ConvergenceTimeout(f"{count - len(times)} of {count} messages did not arrive within {_FINISH_S:g} s")


def _times_seen(files: list[Path]) -> Counter[bytes]:
    times: Counter[bytes] = Counter()
    for file in files:
        seen = file.read_bytes()
        times.update(seen[start : start + NUMBER_BYTES] for start in range(0, len(seen), NUMBER_BYTES))
    return times


def max_redelivered(trace: Path) -> int:
    """The most messages of the group that may have come twice, by the events of the broker."""
    events = [json.loads(line) for line in trace.read_text(encoding="utf-8").splitlines()]
    return sum(event["n"] for event in events if event["kind"] == EventKind.LOCK_EXPIRED and event["group"] == GROUP)
