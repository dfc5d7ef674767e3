"""Profiles the CPU time of a message: in this process, which has the clients, and in the broker.

The measured work is that of the comparison with peers (`peers/work.py`). A measurement has several short parts, each
after a warm-up, and the samplers run only in between: connecting and joining are not part of the time of a message.
"""

from __future__ import annotations

import itertools
import json
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio

from model.errors import ServiceNotAvailable
from process.children import Child
from testbed.bench.kit.echo import BODY
from testbed.bench.kit.processes import broker_process, name_server_process, temporary_folder
from testbed.bench.kit.rounds import Progress, Sizes, Work, count
from testbed.bench.peers.systems.ours import Ours
from testbed.bench.peers.work import BATCHES_IN_FLIGHT, sending, sending_batches
from testbed.bench.profile.sampler import Sampler
from testbed.bench.profile.table import Profile, Samples

PROFILED = ("send-1", "send-64", "batches-32", "consume", "consume-32")
"""The measurements with a profile."""
_IN_FLIGHT = {"send-1": 1, "send-64": 64}
_CONSUMED = {"consume": 1, "consume-32": 32}
_FILLED = "filled"
_WARM_S = 0.3
_FIRST_S = 30.0
_POLL_S = 0.01
_WRITTEN_S = 10.0

Part = Callable[["_MeasuredTime"], Awaitable[int]]
"""Runs one part, the measured time of which is between `begin` and `end`; returns the number of its messages."""


async def run_profile(names: Sequence[str], sizes: Sizes, progress: Progress) -> list[Profile]:
    """Profile some measurements, `sizes.repeat` parts of `sizes.seconds` each.

    Raises:
        RlabError: a server did not start, or a request failed.

    Cancellation: every process is stopped and its files are removed.
    """
    system, profiles = Ours(), list[Profile]()
    for name in names:
        async with temporary_folder() as folder, _servers(folder) as servers:
            address = servers.name_server
            topic = _FILLED if name in _CONSUMED else name
            await system.create(address, topic)
            if name in _CONSUMED:
                progress(f"{name}: filling the topic")
                await system.fill(address, topic, BODY, sizes.peer_backlog)
                groups = (f"group-{number}" for number in itertools.count(1))
                part = partial(_consume, system, address, topic, groups, _CONSUMED[name], sizes)
                profiles += await _profile(name, part, servers, sizes.repeat, progress)
                continue
            async with system.sender(address, topic) as sender:
                work = sending(sender) if name in _IN_FLIGHT else sending_batches(sender)
                workers = _IN_FLIGHT.get(name, BATCHES_IN_FLIGHT)
                profiles += await _profile(name, partial(_send, work, workers, sizes), servers, sizes.repeat, progress)
    return profiles


@dataclass(frozen=True, slots=True)
class _ProfiledServers:
    """A name server, and a broker with a sampler."""

    name_server: str
    broker: Child
    file: Path

    def start(self) -> None:
        """Start the sampler of the broker."""
        self.broker.process.send_signal(signal.SIGUSR1)

    async def stop(self) -> Samples:
        """Stop it; returns all of its samples. Cancellation: harmless."""
        file = anyio.Path(self.file)
        await file.unlink(missing_ok=True)
        self.broker.process.send_signal(signal.SIGUSR2)
        with anyio.move_on_after(_WRITTEN_S):
            while not await file.exists():  # noqa: ASYNC110 - a file has no event
                await anyio.sleep(_POLL_S)
            return Samples.from_json(json.loads(await file.read_text(encoding="utf-8")))
        raise ServiceNotAvailable(f"the broker has not written its samples within {_WRITTEN_S:g} s")


@dataclass(frozen=True, slots=True)
class _MeasuredTime:
    """The measured time of a part."""

    servers: _ProfiledServers
    sampler: Sampler

    def begin(self) -> None:
        """The warm-up has ended: start both samplers."""
        self.servers.start()
        self.sampler.start()

    def end(self) -> None:
        """Stop the sampler of this process; the broker's sampler runs until its samples are read. Idempotent."""
        self.sampler.stop()


@asynccontextmanager
async def _servers(folder: Path) -> AsyncIterator[_ProfiledServers]:
    file, data = folder / "samples.json", folder / "data"
    entry = ("testbed.bench.profile.profiled", str(file), "rlab", "broker")
    async with name_server_process() as name_server, broker_process(name_server, data, entry=entry) as broker:
        yield _ProfiledServers(name_server, broker, file)


async def _profile(name: str, part: Part, servers: _ProfiledServers, repeat: int, progress: Progress) -> list[Profile]:
    sampler, messages = Sampler(), 0
    of_broker: Samples | None = None
    measured = _MeasuredTime(servers, sampler)
    for number in range(repeat):
        progress(f"{name}: profile, part {number + 1} of {repeat}")
        try:
            messages += await part(measured)
        finally:
            measured.end()
        of_broker = await servers.stop()
    assert of_broker is not None, "there is at least one part"
    return [
        Profile(measurement=name, process=process, messages=max(messages, 1), samples=samples)
        for process, samples in (("client", sampler.samples()), ("broker", of_broker))
    ]


async def _send(work: Work, workers: int, sizes: Sizes, measured: _MeasuredTime) -> int:
    await count(work, workers, _WARM_S)
    measured.begin()
    return (await count(work, workers, sizes.seconds)).done


async def _consume(
    system: Ours,
    address: str,
    topic: str,
    groups: Iterator[str],
    batch: int,
    sizes: Sizes,
    measured: _MeasuredTime,
) -> int:
    seen = 0

    def take(bodies: Sequence[bytes]) -> None:
        nonlocal seen
        seen += len(bodies)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(system.consume, address, topic, next(groups), batch, take)
        with anyio.fail_after(_FIRST_S):
            while not seen:  # noqa: ASYNC110 - the listener is called for each message, and an event would cost more
                await anyio.sleep(_POLL_S)
        measured.begin()
        seen_before = seen
        with anyio.move_on_after(sizes.seconds):
            while seen < sizes.peer_backlog:  # noqa: ASYNC110
                await anyio.sleep(_POLL_S)
        measured.end()
        done = seen - seen_before
        tasks.cancel_scope.cancel()
    return done
