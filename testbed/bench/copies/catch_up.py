"""copies: replicas with an empty directory copy the log of a master.

    copies-catch-up         bytes per second, without load
    copies-catch-up-loaded  the same while a producer sends, against the bytes per second that the master writes
    copies-loaded-sends     the sends of that producer, against its sends without the replica
    copies-memory           how far the peak of the master's memory rises while three replicas copy and hang in turns,
                            for each replica

The time begins when the first bytes are on the replica, and ends with the last of the bytes that the master had at
first. So it leaves out the start of the process, which takes longer than the copy of some gigabytes.
"""

from __future__ import annotations

import signal
import time
from contextlib import AsyncExitStack

import anyio

from client import Producer
from client.admin.requests import unpack
from model.errors import ServiceNotAvailable
from process.children import Child
from remoting.client import RemotingClient, raise_for_code
from remoting.request_code import RequestCode
from remoting.tasks import background_tasks
from replica.mastership.operate import forget_replica
from testbed.bench.copies.replica_processes import SET, BenchSet, set_processes, wait_alone
from testbed.bench.kit.filling import fill_topic
from testbed.bench.kit.processes import cpu_s, peak_rss_bytes, rss_bytes
from testbed.bench.kit.report import Result
from testbed.bench.kit.rounds import MIB, Progress, Sizes, Window, count
from testbed.bench.throughput.send import IN_FLIGHT, sending

MB = 1e6
SLOW = 3
"""Replicas that copy at the same time when the master's memory is measured."""
FILL_BODY = bytes(4096)
_POLL_S = 0.01
_TIMEOUT_S = 120.0
_PAUSES_S = (0.3, 0.2)
"""How long a replica hangs, and how long it goes on after that."""


class LogEnds:
    """Requests the ends of the logs of replicas."""

    def __init__(self, client: RemotingClient) -> None:
        self._client = client

    async def of(self, child: Child) -> int:
        """The end of the log of a replica, as a log position. Raises: RlabError. Cancellation: harmless."""
        answer = raise_for_code(await self._client.request(child.address, RequestCode.GET_REPLICAS, {}))
        return int(unpack(answer)["end_position"])

    async def wait(self, child: Child, position: int) -> int:
        """Wait until the log of a replica reaches a position, and return its end.

        Raises:
            ServiceNotAvailable: it takes too long.

        Cancellation: harmless.
        """
        with anyio.move_on_after(_TIMEOUT_S):
            while (reached := await self.of(child)) < position:  # noqa: ASYNC110 - in another process
                await anyio.sleep(_POLL_S)
            return reached
        raise ServiceNotAvailable(f"the replica at {child.address} is not at {position} after {_TIMEOUT_S:g} s")


class Copying:
    """Measures replicas that join one set."""

    def __init__(self, replicas: BenchSet, positions: LogEnds, sizes: Sizes, progress: Progress) -> None:
        self._replicas = replicas
        self._positions = positions
        self._sizes = sizes
        self._progress = progress

    async def rates(self, label: str) -> tuple[float, str]:
        """Let a replica copy the log; returns its bytes per second, and the CPU time of both sides as text."""
        self._progress(f"copying the log, {label}")
        master, positions = self._replicas.master, self._positions
        end = await positions.of(master)
        async with self._replicas.joining(label) as replica:
            first, began = await positions.wait(replica, 1), time.perf_counter()
            cpu_before = await _cpu(master, replica)
            last, elapsed_s = await positions.wait(replica, end), time.perf_counter() - began
            cpu_after = await _cpu(master, replica)
        await self._forget_all()
        gigabytes = (last - first) / 1e9
        spent = [(late - early) / gigabytes for early, late in zip(cpu_before, cpu_after, strict=True)]
        return (last - first) / elapsed_s, f"CPU s a GB: master {spent[0]:.1f}, replica {spent[1]:.1f}"

    async def loaded(self, producer: Producer, number: int) -> tuple[float, float, float, float]:
        """Measure the catch-up of a replica while a producer sends.

        Returns bytes per second of the replica, those that the master writes, and messages per second of the producer
        without and with the replica.
        """
        master, positions = self._replicas.master, self._positions
        self._progress("sends without a replica")
        alone = await count(sending(producer), IN_FLIGHT, 2 * self._sizes.seconds)
        self._progress("sends while a replica copies the log")
        end = await positions.of(master)
        async with self._replicas.joining(f"loaded-{number}") as replica:
            first = await positions.wait(replica, 1)
            window = Window()
            began, written_bytes = time.perf_counter(), await positions.of(master)
            async with anyio.create_task_group() as tasks:
                for _ in range(IN_FLIGHT):
                    tasks.start_soon(sending(producer), window)
                last = await positions.wait(replica, end)
                elapsed_s, written_bytes = time.perf_counter() - began, await positions.of(master) - written_bytes
                window.close()
        await self._forget_all()
        rate = alone.done / alone.elapsed_s
        return (last - first) / elapsed_s, written_bytes / elapsed_s, rate, window.done / elapsed_s

    async def memory(self, producer: Producer) -> tuple[float, float]:
        """Bytes by which the peak of the master rises for each of `SLOW` replicas, and the length of the log.

        Sends go on, so that there is always something to send to each of them.
        """
        self._progress(f"{SLOW} replicas copy the log, and hang now and then")
        master, positions = self._replicas.master, self._positions
        await count(sending(producer), IN_FLIGHT, self._sizes.seconds)
        end, rss_before = await positions.of(master), await _reset_peak(master)
        async with AsyncExitStack() as stack:
            joined = [await stack.enter_async_context(self._replicas.joining(f"slow-{n}")) for n in range(SLOW)]
            window = Window()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(sending(producer), window)
                async with background_tasks() as pausing:
                    pausing.start_soon(_hang_in_turns, joined)
                    for each in joined:
                        await positions.wait(each, end)
                window.close()
            peak = await peak_rss_bytes(master)
        await self._forget_all()
        return (peak - rss_before) / SLOW, float(end)

    async def _forget_all(self) -> None:
        """Let the set forget the replicas that are stopped: they do not return, and a set has few members."""
        row = await wait_alone(self._replicas.admin)
        for member in row.members:
            if member.replica_id != row.master:
                await forget_replica(self._replicas.register, SET, member.replica_id)


async def measure_copies(sizes: Sizes, progress: Progress) -> list[Result]:
    """Measure replicas that copy `sizes.copied_bytes` of a log."""
    async with set_processes(1) as replicas, RemotingClient() as client, Producer(replicas.name_server) as producer:
        await fill_topic(replicas.name_server, FILL_BODY, max(1, sizes.copied_bytes // len(FILL_BODY)), progress)
        copying = Copying(replicas, LogEnds(client), sizes, progress)
        quiet = [await copying.rates(f"quiet-{number}") for number in range(sizes.passes)]
        loaded = [await copying.loaded(producer, number) for number in range(sizes.passes)]
        grown, copied = await copying.memory(producer)
    rate, cpu = sorted(quiet)[(len(quiet) - 1) // 2]
    copied_loaded, written_rate, alone, sent = sorted(loaded)[(len(loaded) - 1) // 2]
    return [
        Result(name="copies-catch-up", value=rate / MB, unit="MB/s", note=cpu),
        against("copies-catch-up-loaded", copied_loaded / MB, written_rate / MB, "MB/s"),
        against("copies-loaded-sends", sent, alone, "messages/s"),
        Result(
            name="copies-memory",
            value=grown / MIB,
            unit="MiB",
            note=f"each of {SLOW} replicas at once, with a log of {copied / MIB:,.0f} MiB",
        ),
    ]


def against(name: str, value: float, baseline: float, unit: str) -> Result:
    """A figure with its baseline."""
    return Result(name=name, value=value, unit=unit, baseline_value=baseline, ratio=value / baseline)


async def _cpu(*children: Child) -> list[float]:
    return [await cpu_s(child) or 0.0 for child in children]


async def _reset_peak(child: Child) -> int:
    """Let the peak of a process's memory begin at its present size, and return that. Cancellation: harmless."""
    clear = anyio.Path(f"/proc/{child.process.pid}/clear_refs")
    if await clear.exists():
        await clear.write_text("5")
    return await rss_bytes(child)


async def _hang_in_turns(children: list[Child]) -> None:
    """Stop one process after the other for a moment (SIGSTOP). Cancellation: it goes on."""
    hangs_s, goes_on_s = _PAUSES_S
    while True:
        for child in children:
            child.process.send_signal(signal.SIGSTOP)
            try:
                await anyio.sleep(hangs_s)
            finally:
                child.process.send_signal(signal.SIGCONT)
            await anyio.sleep(goes_on_s)
