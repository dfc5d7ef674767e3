from __future__ import annotations

import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest
import uvloop
from anyio.abc import SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from testbed.swarm.parts import RemotePart
from testbed.swarm.spark import Job, TaskPart, hello, job_failure
from testbed.swarm.wire import Bunch

RESET = struct.pack("ii", 1, 0)
"""For SO_LINGER: a socket that is closed resets its connection."""


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[SocketStream, socket.socket]]:
    """A connection as the swarm sees it, and its other end."""
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        with socket.create_connection(("127.0.0.1", port)) as other_end:
            other_end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            arrived: list[SocketStream] = []
            async with anyio.create_task_group() as accepting:

                async def take(stream: SocketStream) -> None:
                    arrived.append(stream)
                    accepting.cancel_scope.cancel()

                accepting.start_soon(listener.serve, take)
            async with arrived[0] as stream:
                yield stream, other_end


def part_on(stream: SocketStream) -> RemotePart:
    """A part behind a connection, whose job has ended."""
    job = Job()
    job.ended.set()
    return TaskPart(1, stream, BufferedByteReceiveStream(stream), Bunch(), job)


@pytest.mark.parametrize(
    ("said", "number"),
    [
        (b"secret 3\nmore", 3),
        (b"other 3\n", None),
        (b"secret x\n", None),
        (b"secret", None),
        (b"\xff\xfe 3\n", None),
        (b"x" * 1_000, None),
    ],
)
def test_only_who_has_the_secret_is_taken_for_a_part(said: bytes, number: int | None) -> None:
    async def main() -> int | None:
        sending, receiving = anyio.create_memory_object_stream[bytes](1)
        await sending.send(said)
        sending.close()
        async with receiving:
            return await hello(BufferedByteReceiveStream(receiving), "secret")

    assert anyio.run(main) == number


def test_an_error_of_a_job_is_reported_in_one_line_that_says_what_to_do() -> None:
    lost = (
        "org.apache.spark.SparkException: Job aborted: ... in stage 0.0\nTraceback (most recent call last):\n  File\n"
    )
    refused = lost + "model.errors.ConnectFailed: no name server answers: 127.0.0.1:1: refused\n\n\tat org.apache"
    missing = lost + "ModuleNotFoundError: No module named 'cli'\n\n\tat org.apache"
    assert job_failure(refused) == "ConnectFailed: no name server answers: 127.0.0.1:1: refused"
    assert job_failure(missing) == (
        "its executor lacks what it needs (ModuleNotFoundError: No module named 'cli'): install rebalance-lab there too"
    )
    called = "An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.\n"
    failed = called + ": org.apache.spark.SparkException: Job aborted due to stage failure: Task 1 in stage 0.0 failed"
    gone = failed + (
        " 1 times, most recent failure: Lost task 1.0 in stage 0.0 (TID 1) (10.0.0.1 executor 1): ExecutorLostFailure "
        "(executor 1 exited caused by one of the running tasks) Reason: Command exited with code 137\nDriver:"
    )
    assert job_failure(gone) == "executor 1 is gone: Command exited with code 137"
    assert job_failure(called + ": org.apache.spark.SparkException: Job 0 cancelled\n\tat x") == "Job 0 cancelled"
    assert job_failure("Cancelled\n\tat x") == "Cancelled"


@pytest.mark.tcp
def test_a_stranger_that_resets_its_connection_is_not_taken_for_a_part() -> None:
    """The error ended the swarm, which a scan of ports could so prevent from starting."""

    async def main() -> int | None:
        async with connected() as (stream, outsider):
            outsider.close()
            return await hello(BufferedByteReceiveStream(stream), "secret")

    assert uvloop.run(main()) is None


@pytest.mark.tcp
def test_a_part_whose_connection_was_reset_leaves_without_an_error_of_its_own() -> None:
    """That error came beside the one that says why, and a group of both passes any `except ServiceNotAvailable`."""

    async def main() -> None:
        async with connected() as (stream, executor):
            part = part_on(stream)
            executor.close()
            await part.listen()
            await part.leave()

    uvloop.run(main())


@pytest.mark.tcp
def test_a_part_that_does_not_leave_in_time_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its listener failed, and whoever waited for the end of the part waited for ever."""
    monkeypatch.setattr("testbed.swarm.parts.LEAVE_TIMEOUT_S", 0.0)

    async def main() -> None:
        async with connected() as (stream, _executor), anyio.create_task_group() as tasks:
            part = part_on(stream)
            tasks.start_soon(part.listen)
            await anyio.wait_all_tasks_blocked()
            await part.leave()

    uvloop.run(main())
