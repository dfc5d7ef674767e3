"""The command without a set that it could ask; with one: tests/tcp/test_copies.py."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from anyio.from_thread import start_blocking_portal
from typer.testing import CliRunner

from cli.main import app
from namesrv.config import NameServerConfig
from namesrv.server import run_name_server


@pytest.fixture
def name_server() -> Iterator[str]:
    """The address of a name server without brokers."""
    server_runs = run_name_server(NameServerConfig(listen="127.0.0.1:0"))
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(server_runs) as server:
        yield server.address


def test_a_broker_that_is_not_registered_is_named(name_server: str) -> None:
    unknown = CliRunner().invoke(app, ["broker", "handover", "broker-z", "--namesrv", name_server])
    assert (unknown.exit_code, unknown.stderr.count("broker 'broker-z' is not registered")) == (2, 1)
