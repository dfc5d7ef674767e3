"""The command, on a real name server, because its exit code and its output are what scripts see."""

from __future__ import annotations

from collections.abc import Iterator

import anyio
import pytest
from anyio.from_thread import start_blocking_portal
from typer.testing import CliRunner

from cli.main import app
from namesrv.config import NameServerConfig
from namesrv.server import NameServer, run_name_server
from tests.unit.namesrv.registrations import broker


@pytest.fixture
def running() -> Iterator[tuple[NameServer, float]]:
    """A name server, and the time of its clock: a registration of an earlier time would have expired."""
    server_runs = run_name_server(NameServerConfig(listen="127.0.0.1:0"))
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(server_runs) as server:
        yield server, portal.call(anyio.current_time)


def test_a_broker_that_will_not_return_is_forgotten_once(running: tuple[NameServer, float]) -> None:
    name_server, now = running
    name_server.table.register_broker(broker("broker-b", "orders"), 99, now)
    command = ["broker", "forget", "broker-b", "--namesrv", name_server.address]
    refused = CliRunner().invoke(app, command)
    assert (refused.exit_code, refused.stderr.count("is registered: stop it first")) == (2, 1)
    name_server.table.connection_closed(99, now + 1.0)
    done = CliRunner().invoke(app, command)
    assert (done.exit_code, done.stdout) == (0, "broker-b is forgotten\n")
    again = CliRunner().invoke(app, command)
    assert (again.exit_code, again.stderr.count("no broker 'broker-b' is away")) == (2, 1)
