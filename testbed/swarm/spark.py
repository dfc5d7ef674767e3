"""Parts of a swarm in the executors of Spark, each in a task of one job. Once connected, they are like any other part.

    this process  --job, a task for each part-->  executor:  worker.work()
                  <-----  a TCP connection each  ---------   the lines of wire.py, and back the commands

A task receives the address of this process and a secret with its closure. It sends the secret first, so that another
program that connects to the port is not mistaken for a part. It runs until its commands end, or this process has died.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import socket
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import suppress
from hmac import compare_digest
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread
from anyio.abc import SocketStream, TaskGroup
from anyio.streams.buffered import BufferedByteReceiveStream

from model.errors import ConfigError, ServiceNotAvailable
from process.runtime import new_loop
from remoting.tasks import background_tasks
from testbed.swarm.members import SwarmOptions, SwarmSink
from testbed.swarm.parts import RemotePart
from testbed.swarm.worker import work

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECT_TIMEOUT_S = 90.0
"""Time for all tasks to run: an executor and its first Python process take seconds, more on a busy machine."""
HELLO_TIMEOUT_S = 5.0
JOB_END_TIMEOUT_S = 5.0
_HELLO_BYTES = 200


class Job:
    """The job of all parts; `failure` is the reason if it has failed."""

    def __init__(self) -> None:
        self.ended = anyio.Event()
        self.failure = ""

    async def run(self, collect: Callable[[], object]) -> None:
        """Run the job in a thread. It raises nothing: the listeners of the parts run until the parts have left."""
        from py4j.protocol import Py4JError

        try:
            await to_thread.run_sync(collect, abandon_on_cancel=True)
        except Py4JError as error:
            self.failure = job_failure(str(error))
        finally:
            self.ended.set()


class TaskPart(RemotePart):
    """A part in a task."""

    def __init__(
        self, number: int, stream: SocketStream, lines: BufferedByteReceiveStream, sink: SwarmSink, job: Job
    ) -> None:
        super().__init__(f"part {number} of the swarm", stream, lines, sink)
        self._stream = stream
        self._job = job

    async def wait(self) -> None:
        """See `RemotePart`."""
        # The error of the job has more details than the end of a connection.
        with anyio.move_on_after(JOB_END_TIMEOUT_S):
            await self._job.ended.wait()

    def reason(self) -> str:
        """See `RemotePart`."""
        return self._job.failure or "its executor's log says why"

    async def end_commands(self) -> None:
        """See `RemotePart`."""
        # The last lines of its log are still to come.
        try:
            await self._stream.send_eof()
        except (OSError, RuntimeError):
            return  # the task has ended: uvloop raises a RuntimeError for this

    async def stop(self) -> None:
        """See `RemotePart`."""
        await self._stream.aclose()

    async def close(self) -> None:
        """See `RemotePart`."""
        await self._stream.aclose()


class SparkParts:
    """Opens the parts of a swarm in the executors of a session; `open` is for `run_parts`."""

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext

    async def open(self, parts: list[SwarmOptions], sink: SwarmSink, tasks: TaskGroup) -> AsyncGenerator[RemotePart]:
        """Run the job, and yield each part as soon as its task has connected.

        Raises:
            ConfigError: the master runs fewer tasks at the same time.
            ServiceNotAvailable: the job failed, or some tasks did not run in time.
        """
        context, n, job = self._context, len(parts), Job()
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
                    try:
                        await connected.send((number, stream, lines))
                    except anyio.ClosedResourceError:
                        await stream.aclose()  # the job has ended before, and its failure is raised

            async def stop_waiting() -> None:
                await job.ended.wait()
                await connected.aclose()

            accepting.start_soon(listener.serve, greet)
            accepting.start_soon(stop_waiting)
            port = listener.extra(anyio.abc.SocketAttribute.local_port)
            part = _part_of(host, port, secret)
            tasks.start_soon(job.run, lambda: context.parallelize(range(n), n).mapPartitionsWithIndex(part).collect())
            n_started = 0
            with anyio.move_on_after(CONNECT_TIMEOUT_S), suppress(anyio.EndOfStream):
                while n_started < n:
                    number, stream, lines = await arrived.receive()
                    n_started += 1
                    yield TaskPart(number + 1, stream, lines, sink, job)
        if job.failure:
            raise ServiceNotAvailable(f"a part of the swarm did not start: {job.failure}")
        if n_started < n:
            raise ServiceNotAvailable(
                f"only {n_started} of {n} parts of the swarm have started within {CONNECT_TIMEOUT_S:g} s: "
                f"does {context.master} run {n} tasks at the same time? If not, choose fewer --processes"
            )


async def hello(lines: BufferedByteReceiveStream, secret: str) -> int | None:
    """The number in the greeting of a part; None if the greeting is not from a part."""
    with anyio.move_on_after(HELLO_TIMEOUT_S):
        try:
            sent, _, number = (await lines.receive_until(b"\n", _HELLO_BYTES)).decode("ascii").partition(" ")
            return int(number) if compare_digest(sent, secret) else None
        except (
            *(anyio.EndOfStream, anyio.IncompleteRead, anyio.DelimiterNotFound, anyio.BrokenResourceError),
            ValueError,
        ):
            return None
    return None


def _part_of(host: str, port: int, secret: str) -> Callable[[int, Iterable[int]], Iterable[int]]:
    """The function of the tasks; Spark pickles it with these values."""

    def run(index: int, _rows: Iterable[int]) -> Iterable[int]:
        with socket.create_connection((host, port), CONNECT_TIMEOUT_S) as connection:
            connection.settimeout(None)
            connection.sendall(f"{secret} {index}\n".encode())
            with asyncio.Runner(loop_factory=new_loop) as runner:
                runner.run(work(connection.fileno(), connection.fileno()))
        return ()

    return run


def job_failure(text: str) -> str:
    """The reason why a job failed, in one line: the last line of its first Python error, or else Spark's message."""
    errors: list[str] = re.findall(
        r"^(?:\w+\.)*(\w+(?:Error|Failed|Exception|Available|NotExist): .*)$", text, re.MULTILINE
    )
    match = re.search(r"(executor \S+) exited .*Reason: (.*)$", text, re.MULTILINE)
    failure = re.search(r"(?:most recent failure: |^: \S+: )(.*)$", text, re.MULTILINE)
    if "ModuleNotFoundError" in text:
        return f"its executor lacks what it needs ({errors[-1]}): install rebalance-lab there too"
    if match is not None:
        return f"{match[1]} is gone: {match[2]}"
    if errors:
        return errors[-1]
    return failure[1] if failure is not None else text.strip().splitlines()[0]
