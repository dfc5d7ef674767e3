"""What a process takes, as the system tells it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from testbed.simulation.checks.process_usage import process_usage


def test_an_open_file_is_one_descriptor_more() -> None:
    before = process_usage().fds
    fd = os.open(os.devnull, os.O_RDONLY)
    try:
        assert process_usage().fds == before + 1
    finally:
        os.close(fd)


def test_memory_that_is_written_to_is_seen() -> None:
    before = process_usage().rss_bytes
    block = bytearray(b"x" * (32 * 1024 * 1024))
    assert process_usage().rss_bytes - before > len(block) // 2


def test_another_process_is_seen_until_it_is_gone() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        usage = process_usage(other.pid)
        assert usage.fds >= 1
    with pytest.raises(OSError, match=str(other.pid)):
        process_usage(other.pid)
