"""The command at a real name server that keeps the register: its refusals, and its document."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from anyio.from_thread import start_blocking_portal
from typer.testing import CliRunner

from cli.main import app
from namesrv.config import NameServerConfig
from namesrv.server import run_name_server
from replica.registers.remote import RemoteRegister
from replica.sets import create, in_sync_with, joined, started

GONE = ("127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3")


@pytest.fixture
def name_server(tmp_path: Path) -> Iterator[str]:
    """The address of a name server whose register has a set: 1 is the master, 2 in sync, 3 not; none of them runs."""
    row = create("broker-a", GONE[0], set_id=7, copies=3)
    for number in (2, 3):
        row = started(joined(row, GONE[number - 1])[0], number, GONE[number - 1])
    row = in_sync_with(row, 2, by=1, epoch=1, incarnation=1)

    async def fill(address: str) -> None:
        async with RemoteRegister([address]) as register:
            await register.write(row, 0)

    config = NameServerConfig(listen="127.0.0.1:0", elections=tmp_path / "elections", rng=Random(1))
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(run_name_server(config)) as server:
        portal.call(fill, server.address)
        yield server.address


def test_a_replica_in_sync_is_elected_and_one_that_is_not_only_with_an_accepted_loss(name_server: str) -> None:
    at = ["--namesrv", name_server]
    refused = CliRunner().invoke(app, ["broker", "elect", "broker-a", "--replica", "3", *at])
    assert (refused.exit_code, refused.stderr.count("--accept-loss")) == (1, 1)
    done = CliRunner().invoke(app, ["broker", "elect", "broker-a", "--replica", "2", *at, "--json"])
    assert json.loads(done.stdout) == {"broker": "broker-a", "master": 2, "epoch": 2}
    lossy = CliRunner().invoke(app, ["broker", "elect", "broker-a", "--replica", "3", "--accept-loss", *at])
    assert (lossy.exit_code, lossy.stdout) == (0, f"replica 3 at {GONE[2]} is the master of broker-a, epoch 3\n")
    assert "messages may be lost" in lossy.stderr


def test_a_replica_that_is_gone_is_forgotten(name_server: str) -> None:
    at = ["--namesrv", name_server]
    needed = CliRunner().invoke(app, ["broker", "forget", "broker-a", "--replica", "2", *at])
    assert (needed.exit_code, needed.stderr.count("is in sync")) == (1, 1)
    done = CliRunner().invoke(app, ["broker", "forget", "broker-a", "--replica", "3", *at])
    assert (done.exit_code, done.stdout) == (0, "replica 3 of broker-a is forgotten, left: 1, 2\n")


def test_a_set_that_does_not_exist_is_named(name_server: str) -> None:
    unknown = CliRunner().invoke(app, ["broker", "elect", "broker-z", "--replica", "2", "--namesrv", name_server])
    assert (unknown.exit_code, unknown.stderr.count("no set 'broker-z'")) == (2, 1)
