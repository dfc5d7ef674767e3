"""A cluster of real processes that several tests share; each of them uses topics and groups of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.tcp.rlab_process import Daemon, stopped_cleanly


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """One name server and one broker, held to a clean stop at the end."""
    cwd = tmp_path_factory.mktemp("cluster")
    with stopped_cleanly("cluster", "--port", "0", "--brokers", "1", "--no-auto-create", cwd=cwd) as started:
        yield started
