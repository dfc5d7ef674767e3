from __future__ import annotations

import os
import tempfile

import anyio
import pytest

from model.errors import MessageIllegal
from model.limits import MAX_BODY_BYTES
from process.lines import read_lines, write_all


async def collect(fd: int) -> list[tuple[int, bytes]]:
    return [numbered async for numbered in read_lines(fd)]


def of_file(content: bytes) -> list[tuple[int, bytes]]:
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        return anyio.run(collect, file.fileno())


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"a", [(1, b"a")]),
        (b"a\n", [(1, b"a")]),
        (b"a\n\nb", [(1, b"a"), (2, b""), (3, b"b")]),
        (b"a\r\nb\r", [(1, b"a"), (2, b"b")]),
        (b"\xff\x00\n", [(1, b"\xff\x00")]),
    ],
)
def test_lines_are_numbered_and_lose_only_their_ends(content: bytes, lines: list[tuple[int, bytes]]) -> None:
    assert of_file(content) == lines


def test_lines_that_span_reads_come_whole() -> None:
    expected = [(n, str(n).encode() * n) for n in range(1, 900)]
    assert of_file(b"\n".join(line for _, line in expected)) == expected


def test_a_line_as_long_as_a_body_may_be_is_fine_and_a_longer_one_is_not() -> None:
    assert of_file(b"x" * MAX_BODY_BYTES + b"\ny")[1] == (2, b"y")
    with pytest.raises(MessageIllegal, match=f"line 2 is longer than {MAX_BODY_BYTES} bytes"):
        of_file(b"y\n" + b"x" * (MAX_BODY_BYTES + 100_000))


@pytest.mark.asyncio
async def test_a_pipe_is_waited_for_without_blocking_the_loop_or_changing_its_mode() -> None:
    reading, writing = os.pipe()
    got: list[bytes] = []
    first = anyio.Event()
    try:
        async with anyio.create_task_group() as tasks:

            async def read() -> None:
                async for _, line in read_lines(reading):
                    got.append(line)
                    first.set()

            tasks.start_soon(read)
            os.write(writing, b"one\ntw")
            await first.wait()
            assert got == [b"one"]
            assert os.get_blocking(reading)
            os.write(writing, b"o\n")
            os.close(writing)
        assert got == [b"one", b"two"]
    finally:
        os.close(reading)


def test_a_device_that_no_loop_can_wait_for_is_simply_read() -> None:
    fd = os.open(os.devnull, os.O_RDONLY)
    assert anyio.run(collect, fd) == []
    os.close(fd)


@pytest.mark.asyncio
async def test_a_pipe_is_written_at_the_pace_of_its_reader_and_the_loop_goes_on() -> None:
    reading, writing = os.pipe()
    data = bytes(range(256)) * 4096
    got = b""
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(write_all, writing, data)
            while len(got) < len(data):
                # The writer waits where the pipe is full, or this would never run.
                await anyio.wait_readable(reading)
                got += os.read(reading, 10_000)
        assert got == data
        assert os.get_blocking(writing)
    finally:
        os.close(reading)
        os.close(writing)


@pytest.mark.asyncio
async def test_a_write_that_no_one_reads_can_be_abandoned() -> None:
    reading, writing = os.pipe()
    with anyio.move_on_after(0.01) as scope:
        await write_all(writing, bytes(10_000_000))
    assert scope.cancelled_caught
    os.close(reading)
    with pytest.raises(BrokenPipeError):
        await write_all(writing, b"x")
    os.close(writing)


def test_a_file_is_simply_written() -> None:
    with tempfile.TemporaryFile() as file:
        anyio.run(write_all, file.fileno(), b"abc" * 100_000)
        file.seek(0)
        assert file.read() == b"abc" * 100_000
