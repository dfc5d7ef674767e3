"""stalls: time in which queues are not consumed after their orderly consumer was killed or stopped.

Two orderly consumers of a group consume a topic: one in this process, the other in one of its own, which is killed
(SIGKILL) or stopped (SIGSTOP: its connections stay open). Messages are sent to every queue all the time. For each queue
of the victim the clock starts with the signal and stops when the listener here is called with a message of that queue.
RocketMQ's defaults take 40 to 60 s for the first, and up to 140 s for the second.
"""

from __future__ import annotations

import signal
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from statistics import median

import anyio

from client import Message, MessageExt, MessageQueue, Producer, PushConsumer
from client.admin.admin import Admin
from model.counted import plural
from remoting.tasks import background_tasks, run_together
from testbed.bench.kit.consumers import group_queues, targets
from testbed.bench.kit.convergence import ConvergenceTimeout, ConvergenceWatch
from testbed.bench.kit.echo import BODY, TOPIC
from testbed.bench.kit.processes import cluster_processes, kill, member_process
from testbed.bench.kit.report import Result
from testbed.bench.kit.rounds import Progress, Sizes, percentile

GROUP = "bench"
QUEUES = 16
SESSION_TIMEOUT_S = 3.0
EVERY_S = 0.02
_CONVERGE_S, _TAKEOVER_S, _SETTLE_S = 30.0, 30.0, 0.3


class Takeovers:
    """Times from a moment to the first message consumed from each of some queues."""

    def __init__(self) -> None:
        self._left: dict[MessageQueue, None] = {}
        self._done = anyio.Event()
        self._since = 0.0
        self._times_s: list[float] = []

    def begin(self, queues: Iterable[MessageQueue], now: float) -> None:
        """Wait for these queues from now on; `now` in seconds."""
        self._left, self._since, self._times_s, self._done = dict.fromkeys(queues), now, [], anyio.Event()

    def consumed(self, queue: MessageQueue, now: float) -> None:
        """Record that a message of a queue was dispatched; `now` in seconds."""
        if queue in self._left:
            del self._left[queue]
            self._times_s.append(now - self._since)
            if not self._left:
                self._done.set()

    async def wait(self, timeout_s: float) -> list[float]:
        """Wait until every queue was consumed; returns the time of each, in seconds.

        Raises:
            ConvergenceTimeout: some were not consumed in time.
        """
        with anyio.move_on_after(timeout_s) as scope:
            await self._done.wait()
        if scope.cancelled_caught:
            raise ConvergenceTimeout(
                f"{plural(len(self._left), 'queue', 'was', 'were')} not consumed again within {timeout_s:g} s"
            )
        return self._times_s


async def bench_stalls(sizes: Sizes, progress: Progress) -> list[Result]:
    """Measure both kinds of failure."""
    async with cluster_processes({TOPIC: QUEUES}) as cluster:
        killed = await measure(cluster.name_server, signal.SIGKILL, sizes.stalls, progress)
        silent = await measure(cluster.name_server, signal.SIGSTOP, max(1, sizes.stalls // 4), progress)
    return [
        Result(name="stall-killed-p50", value=median(killed), unit="ms"),
        Result(name="stall-killed-p99", value=percentile(killed, 0.99), unit="ms"),
        Result(name="stall-silent-p99", value=percentile(silent, 0.99), unit="ms", note="session timeout 3 s"),
    ]


async def measure(name_server: str, how: signal.Signals, times: int, progress: Progress) -> list[float]:
    """Start a victim, kill or stop it, and wait until its queues are consumed, `times` times; returns milliseconds."""
    takeovers, watch = Takeovers(), ConvergenceWatch()
    times_ms: list[float] = []
    async with _survivor(name_server, takeovers, watch) as survivor:
        for number in range(times):
            progress(f"{how.name} {number + 1} of {times}")
            async with member_process(name_server, GROUP, f"victim-{number}", SESSION_TIMEOUT_S) as victim:
                target = targets(GROUP, [survivor.client_id, victim.address], await group_queues(name_server, GROUP))
                watch.expect({survivor.client_id: target[survivor.client_id]})
                await watch.wait_converged(_CONVERGE_S)
                await anyio.sleep(_SETTLE_S)  # time for the first messages to be dispatched there
                takeovers.begin(
                    [queue for queue in target[victim.address] if queue.topic == TOPIC], time.perf_counter()
                )
                victim.process.send_signal(how)
                times_ms += [time_s * 1000 for time_s in await takeovers.wait(_TAKEOVER_S)]
                if how is signal.SIGSTOP:
                    await kill(victim)
    return times_ms


@asynccontextmanager
async def _survivor(name_server: str, takeovers: Takeovers, watch: ConvergenceWatch) -> AsyncIterator[PushConsumer]:
    """Run the consumer that takes over, and send messages to every queue."""

    async def on_messages(messages: Sequence[MessageExt]) -> None:
        takeovers.consumed(messages[0].queue, time.perf_counter())

    consumer = PushConsumer(
        name_server,
        GROUP,
        order="queue",
        instance_name="survivor",
        session_timeout_s=SESSION_TIMEOUT_S,
        event_sink=watch.record,
    )
    async with consumer, Producer(name_server) as producer, background_tasks() as tasks:
        await consumer.subscribe(TOPIC, on_messages)
        async with Admin(name_server) as admin:
            tasks.start_soon(_send_to_all, producer, (await admin.route(TOPIC)).subscribe_queues())
        yield consumer


async def _send_to_all(producer: Producer, queues: Sequence[MessageQueue]) -> None:
    async def send(queue: MessageQueue) -> None:
        await producer.send(Message(TOPIC, BODY), queue=queue)

    while True:
        await run_together([partial(send, queue) for queue in queues])
        await anyio.sleep(EVERY_S)
