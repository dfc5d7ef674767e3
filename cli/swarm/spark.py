"""Parts of a swarm in the executors of Spark, each in a task of one job. They are as any other part from then on.

    this process  --job, a task for each part-->  executor:  worker.work()
                  <-----  a TCP connection each  ---------   the lines of wire.py, and back the commands

A task gets the address of this process and a secret with its closure, and begins its connection with that, so that
nobody else who finds the port is taken for a part. It runs until its commands end, also because this process has died.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import socket
from collections.abc import AsyncGenerator, Callable, Iterable
from hmac import compare_digest
from typing import TYPE_CHECKING

import anyio
import uvloop
from anyio import to_thread
from anyio.abc import SocketStream, TaskGroup
from anyio.streams.buffered import BufferedByteReceiveStream

from cli.swarm.parts import RemotePart
from cli.swarm.worker import work
from model.errors import ConfigError, ServiceNotAvailable
from remoting.tasks import background_tasks
from simulation.swarm.swarm import SwarmOptions, SwarmSink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECT_TIMEOUT_S = 90.0
"""Time for all tasks to run: an executor and its first Python process take seconds, more on a busy machine."""
HELLO_TIMEOUT_S = 5.0
JOB_END_TIMEOUT_S = 5.0
_HELLO_BYTES = 200


class _TaskPart(RemotePart):
    """A part in a task."""

    def __init__(
        self, number: int, stream: SocketStream, lines: BufferedByteReceiveStream, sink: SwarmSink, job: anyio.Event
    ) -> None:
        super().__init__(f"part {number} of the swarm", stream, lines, sink)
        self._stream = stream
        self._job_ended = job

    async def wait(self) -> None:
        # The error of the job says more than the end of a connection.
        with anyio.move_on_after(JOB_END_TIMEOUT_S):
            await self._job_ended.wait()

    def reason(self) -> str:
        return "its executor's log says why"

    async def end_commands(self) -> None:
        # Its last lines are still to come.
        try:
            await self._stream.send_eof()
        except OSError:
            return  # it has gone

    async def stop(self) -> None:
        await self._stream.aclose()

    async def close(self) -> None:
        await self._stream.aclose()


class SparkParts:
    """Opens the parts of a swarm in the executors of a session; `open` is for `run_parts`."""

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext
        self._job_ended = anyio.Event()

    async def open(self, parts: list[SwarmOptions], sink: SwarmSink, tasks: TaskGroup) -> AsyncGenerator[RemotePart]:
        """Run the job, and yield each part as soon as its task has connected.

        Raises:
            ConfigError: the master runs fewer tasks at the same time.
            ServiceNotAvailable: the job failed, or some tasks did not run in time.
        """
        context, n = self._context, len(parts)
        if re.match(r"local(\[|$)", str(context.master)) and n > context.defaultParallelism:
            raise ConfigError(
                f"{n} parts need {n} tasks at the same time, and {context.master} runs {context.defaultParallelism}: "
                "choose fewer --processes, or a master with more"
            )
        secret = secrets.token_hex(16)
        connected, arrived = anyio.create_memory_object_stream[tuple[int, SocketStream, BufferedByteReceiveStream]](n)
        host = str(context.getConf().get("spark.driver.host", "127.0.0.1"))
        async with (
            connected,
            arrived,
            await anyio.create_tcp_listener(local_host=host) as listener,
            background_tasks() as accepting,
        ):

            async def greet(stream: SocketStream) -> None:
                lines = BufferedByteReceiveStream(stream)
                number = await hello(lines, secret)
                if number is None:
                    await stream.aclose()
                else:
                    await connected.send((number, stream, lines))

            accepting.start_soon(listener.serve, greet)
            port = listener.extra(anyio.abc.SocketAttribute.local_port)
            tasks.start_soon(self._run_job, n, _part_of(host, port, secret))
            found = 0
            with anyio.move_on_after(CONNECT_TIMEOUT_S):
                while found < n:
                    number, stream, lines = await arrived.receive()
                    found += 1
                    yield _TaskPart(number + 1, stream, lines, sink, self._job_ended)
        if found < n:
            raise ServiceNotAvailable(
                f"only {found} of {n} parts of the swarm have started within {CONNECT_TIMEOUT_S:g} s: "
                f"does {context.master} run {n} tasks at the same time? If not, choose fewer --processes"
            )

    async def _run_job(self, n: int, part: Callable[[int, Iterable[int]], Iterable[int]]) -> None:
        from py4j.protocol import Py4JError

        def run() -> None:
            self._context.parallelize(range(n), n).mapPartitionsWithIndex(part).collect()

        try:
            await to_thread.run_sync(run, abandon_on_cancel=True)
        except Py4JError as error:
            raise ServiceNotAvailable(explained(str(error))) from None
        finally:
            self._job_ended.set()


async def hello(lines: BufferedByteReceiveStream, secret: str) -> int | None:
    """The number with which a part greets; None for somebody else."""
    with anyio.move_on_after(HELLO_TIMEOUT_S):
        try:
            said, _, number = (await lines.receive_until(b"\n", _HELLO_BYTES)).decode("ascii").partition(" ")
            return int(number) if compare_digest(said, secret) else None
        except (anyio.EndOfStream, anyio.IncompleteRead, anyio.DelimiterNotFound, ValueError):
            return None
    return None


def _part_of(host: str, port: int, secret: str) -> Callable[[int, Iterable[int]], Iterable[int]]:
    """The function of the tasks; Spark pickles it with these values."""

    def run(index: int, _rows: Iterable[int]) -> Iterable[int]:
        with socket.create_connection((host, port), CONNECT_TIMEOUT_S) as connection:
            connection.settimeout(None)
            connection.sendall(f"{secret} {index}\n".encode())
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(work(connection.fileno(), connection.fileno()))
        return ()

    return run


def explained(text: str) -> str:
    """The error of a job in one line: the last line of the Python error of its first task."""
    errors = re.findall(r"^(?:\w+\.)*(\w+(?:Error|Failed|Exception|Available|NotExist): .*)$", text, re.MULTILINE)
    reason = errors[-1] if errors else text.strip().splitlines()[0]
    if "ModuleNotFoundError" in text:
        return f"a part of the swarm cannot run in its executor ({reason}): install rebalance-lab there too"
    return f"a part of the swarm failed in its executor: {reason}"
