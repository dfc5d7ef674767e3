"""failover: the time without acknowledged sends when the master of two replicas is lost, or hands over.

    failover-kill-p50, -p99      from SIGKILL of the master to the first send that the next one acknowledges
    failover-fast-p50, -p99      the same with `--elect fast`: the closed connection proves that the process has ended
    failover-hang-p50, -p99      the same after SIGSTOP: its connections stay open
    failover-handover-p50, -p99  the longest time between two acknowledgements while an operator hands the master over
    failover-stop-p50, -p99      the same while the master stops (SIGTERM)

Some senders send one message after the other all the time. The figure of a fault is the longest time after it in which
no sender got an acknowledgement. An answer that the old master had sent before it was killed arrives before that time
begins.
"""

from __future__ import annotations

import signal
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from enum import StrEnum

import anyio

from client import Message, Producer
from model.errors import RlabError, ServiceNotAvailable
from model.replica_info import ReplicaSetInfo
from model.replica_set import Elect
from process.children import Child
from remoting.tasks import background_tasks
from testbed.bench.copies.replica_processes import SET, BenchSet, set_processes, wait_master, wait_whole
from testbed.bench.kit.echo import BODY, TOPIC
from testbed.bench.kit.processes import broker_process, kill
from testbed.bench.kit.report import Result
from testbed.bench.kit.rounds import Progress, Sizes, percentile

SENDERS, PAUSE_S = 8, 0.005
"""Tasks that send, and their pause behind a send: the processes of a set that starts need the processors too."""
SETTLE_S = 0.3
_FLOW_TIMEOUT_S, _POLL_S = 30.0, 0.01


class MasterChange(StrEnum):
    """The ways in which the master is lost or changed."""

    KILL = "kill"
    HANG = "hang"
    HANDOVER = "handover"
    STOP = "stop"


class Silence:
    """The longest time without an acknowledgement; times are in seconds of one clock.

    Attributes:
        failed: sends that failed since the begin.
        last: when the newest acknowledgement came.
    """

    def __init__(self) -> None:
        self.failed = 0
        self.last = self._began = self._from = self._to = 0.0

    def begin(self, now: float) -> None:
        """Begin to measure; the time of the last acknowledgement before that does not count."""
        self.failed = 0
        self.last = self._began = self._from = self._to = now

    def acknowledged(self, now: float) -> None:
        """Record an acknowledgement."""
        if now - self.last > self._to - self._from:
            self._from, self._to = self.last, now
        self.last = now

    def longest_s(self) -> float:
        """The longest time without an acknowledgement."""
        return self._to - self._from

    def ended_s(self) -> float:
        """The end of that time, in seconds since `begin`."""
        return self._to - self._began


class ChangingMasters:
    """Lets the masters of one set be lost, one after the other, and starts them again; made by `running_masters`."""

    def __init__(self, replicas: BenchSet, elect: Elect, silence: Silence, stack: AsyncExitStack) -> None:
        self._replicas, self._elect, self._silence, self._stack = replicas, elect, silence, stack
        self._running = {each.address: (each, label) for label, each in replicas.labelled()}

    async def change(self, change: MasterChange) -> float:
        """Change the master, and wait until both replicas are in sync again; returns the seconds, as the module says.

        Raises:
            RlabError: no other master, or no flow of messages, or the replica did not come back.

        Cancellation: a replica may be stopped, or hang.
        """
        admin, silence = self._replicas.admin, self._silence
        info = await wait_whole(admin, 2)
        await anyio.sleep(SETTLE_S)
        child, label = self._running[_master_of(info)]
        silence.begin(time.perf_counter())
        await self._strike(change, child, info)
        await wait_master(admin, other_than=info.row.master)
        await self._wait_flow(time.perf_counter())
        took_s = silence.ended_s() if change in (MasterChange.KILL, MasterChange.HANG) else silence.longest_s()
        if change is MasterChange.HANG:
            child.process.send_signal(signal.SIGCONT)
        elif change is not MasterChange.HANDOVER:
            del self._running[child.address]
            options = ("--replica-of", SET, "--elect", self._elect.value)
            replica_process = broker_process(self._replicas.name_server, self._replicas.folder / label, *options)
            started = await self._stack.enter_async_context(replica_process)
            self._running[started.address] = (started, label)
        await wait_whole(admin, 2)
        return took_s

    async def _strike(self, change: MasterChange, child: Child, info: ReplicaSetInfo) -> None:
        match change:
            case MasterChange.KILL:
                await kill(child)
            case MasterChange.HANG:
                child.process.send_signal(signal.SIGSTOP)
            case MasterChange.HANDOVER:
                other = next(each for each in info.row.in_sync if each != info.row.master)
                await self._replicas.admin.hand_over(SET, other)
            case MasterChange.STOP:
                child.process.terminate()
                await child.process.wait()

    async def _wait_flow(self, since: float) -> None:
        """Wait until a send is acknowledged. Raises: ServiceNotAvailable: none is in a long time."""
        with anyio.move_on_after(_FLOW_TIMEOUT_S):
            while self._silence.last <= since:  # noqa: ASYNC110 - any of several senders
                await anyio.sleep(_POLL_S)
            return
        raise ServiceNotAvailable(f"no send was acknowledged within {_FLOW_TIMEOUT_S:g} s of a new master")


@asynccontextmanager
async def running_masters(elect: Elect) -> AsyncIterator[tuple[ChangingMasters, Silence]]:
    """Run a set of two replicas, and senders, while the block runs.

    Raises:
        RlabError: a process did not start.

    Cancellation: all processes are stopped, and their files are removed.
    """
    silence = Silence()
    async with (
        set_processes(2, "--elect", elect.value) as replicas,
        AsyncExitStack() as stack,
        Producer(replicas.name_server) as producer,
        background_tasks() as tasks,
    ):
        for _ in range(SENDERS):
            tasks.start_soon(_send_always, producer, silence)
        yield ChangingMasters(replicas, elect, silence, stack), silence


async def _send_always(producer: Producer, silence: Silence) -> None:
    while True:
        try:
            await producer.send(Message(TOPIC, BODY))
        except RlabError:
            silence.failed += 1
        else:
            silence.acknowledged(time.perf_counter())
        await anyio.sleep(PAUSE_S)


async def bench_failover(sizes: Sizes, progress: Progress) -> list[Result]:
    """Measure each change of the master `sizes.repeat` times."""
    results = []
    async with running_masters(Elect.AUTO) as (masters, silence):
        for change in MasterChange:
            results += await _measure(f"failover-{change}", masters, silence, change, sizes.repeat, progress)
    async with running_masters(Elect.FAST) as (masters, silence):
        results += await _measure("failover-fast", masters, silence, MasterChange.KILL, sizes.repeat, progress)
    return results


async def _measure(
    name: str, masters: ChangingMasters, silence: Silence, change: MasterChange, times: int, progress: Progress
) -> list[Result]:
    took_s, failed = [], 0
    for number in range(times):
        progress(f"{name}, {number + 1} of {times}")
        took_s.append(await masters.change(change))
        failed += silence.failed
    note = f"{times} times, {min(took_s):.2f} to {max(took_s):.2f} s, {failed} sends failed"
    return [
        Result(name=f"{name}-p50", value=percentile(took_s, 0.5), unit="s"),
        Result(name=f"{name}-p99", value=percentile(took_s, 0.99), unit="s", note=note),
    ]


def _master_of(info: ReplicaSetInfo) -> str:
    return next(each.address for each in info.replicas if each.replica_id == info.row.master)
