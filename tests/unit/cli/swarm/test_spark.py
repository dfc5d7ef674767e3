from __future__ import annotations

import anyio
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

from cli.swarm.spark import explained, hello


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


def test_an_error_of_a_job_is_told_in_one_line_that_says_what_to_do() -> None:
    lost = (
        "org.apache.spark.SparkException: Job aborted: ... in stage 0.0\nTraceback (most recent call last):\n  File\n"
    )
    refused = lost + "model.errors.ConnectFailed: no name server answers: 127.0.0.1:1: refused\n\n\tat org.apache"
    missing = lost + "ModuleNotFoundError: No module named 'cli'\n\n\tat org.apache"
    assert explained(refused) == "ConnectFailed: no name server answers: 127.0.0.1:1: refused"
    assert explained(missing) == (
        "its executor lacks what it needs (ModuleNotFoundError: No module named 'cli'): install rebalance-lab there too"
    )
    called = "An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.\n"
    failed = called + ": org.apache.spark.SparkException: Job aborted due to stage failure: Task 1 in stage 0.0 failed"
    gone = failed + (
        " 1 times, most recent failure: Lost task 1.0 in stage 0.0 (TID 1) (10.0.0.1 executor 1): ExecutorLostFailure "
        "(executor 1 exited caused by one of the running tasks) Reason: Command exited with code 137\nDriver:"
    )
    assert explained(gone) == "executor 1 is gone: Command exited with code 137"
    assert explained(called + ": org.apache.spark.SparkException: Job 0 cancelled\n\tat x") == "Job 0 cancelled"
    assert explained("Cancelled\n\tat x") == "Cancelled"
