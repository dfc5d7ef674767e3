"""The commands, on a real name server, because their output is what operators keep as a copy."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from typer.testing import CliRunner

from cli.main import app
from namesrv.config import NameServerConfig
from namesrv.elections import Elections, open_elections
from namesrv.server import run_name_server
from replica.sets import create, started


@pytest.fixture
def running(tmp_path: Path) -> Iterator[tuple[BlockingPortal, str, Elections]]:
    """A name server with elections: a way to call it, its address and its register."""
    config = NameServerConfig(listen="127.0.0.1:0", elections=tmp_path / "elections")
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(run_name_server(config)) as server:
        assert server.elections is not None
        yield portal, server.address, server.elections


def test_a_copy_is_shown_and_restored(running: tuple[BlockingPortal, str, Elections], tmp_path: Path) -> None:
    portal, address, elections = running
    command = ["elections", "show", "--namesrv", address]
    assert CliRunner().invoke(app, command).stdout == "the register has no replica sets\n"
    row = portal.call(elections.write, create("broker-a", "h1:1", set_id=7, copies=2), 0)
    shown = CliRunner().invoke(app, command).stdout
    assert " ".join(shown.strip().splitlines()[-1].split()) == "broker-a 1 1 1 1 1 h1:1 2 1 all"

    copied = CliRunner().invoke(app, [*command, "--json"])
    copy, into = tmp_path / "copy.json", tmp_path / "new"
    copy.write_text(copied.stdout)
    done = CliRunner().invoke(app, ["elections", "restore", str(copy), "--into", str(into), "--json"])
    assert json.loads(done.stdout) == {"register_id": row.register_id, "directory": str(into), "sets": 1}
    with open_elections(into, Random(1)) as restored:
        assert restored.register_id == row.register_id


def test_a_set_is_removed_once_none_of_its_replicas_answers(
    running: tuple[BlockingPortal, str, Elections],
) -> None:
    portal, address, elections = running
    command = ["elections", "remove", "broker-a", "--namesrv", address]
    missing = CliRunner().invoke(app, command)
    assert (missing.exit_code, "has no set 'broker-a'" in missing.stderr) == (2, True)
    row = portal.call(elections.write, create("broker-a", address, set_id=7), 0)  # something answers there
    refused = CliRunner().invoke(app, command)
    assert refused.exit_code != 0
    assert f"replica 1 at {address} of set broker-a answer" in refused.stderr
    assert portal.call(elections.read, "broker-a") == row

    gone = started(row, 1, "127.0.0.1:1")
    portal.call(elections.write, gone, row.version)
    done = CliRunner().invoke(app, [*command, "--json"])
    assert json.loads(done.stdout) == {"removed": "broker-a"}
    assert portal.call(elections.read, "broker-a") is None


def test_name_servers_without_elections_are_named() -> None:
    config = NameServerConfig(listen="127.0.0.1:0")
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(run_name_server(config)) as server:
        refused = CliRunner().invoke(app, ["elections", "show", "--namesrv", server.address])
    assert refused.exit_code == 2
    assert f"none of the name servers {server.address} keeps elections: start one of them with" in refused.stderr


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "cannot read"),
        ("", "is not a copy of a register"),
        ("[1]", "there is no list `sets`"),
        ('{"sets": [1]}', "is not a copy of a register"),
        ('{"sets": []}', "a copy has 1 to 1024 sets of one register"),
        ("[" * 100_000, "is not a copy of a register"),
    ],
)
def test_a_file_that_is_not_a_copy_is_refused_and_nothing_is_made(
    tmp_path: Path, text: str | None, reason: str
) -> None:
    copy, into = tmp_path / "copy.json", tmp_path / "new"
    if text is not None:
        copy.write_text(text)
    refused = CliRunner().invoke(app, ["elections", "restore", str(copy), "--into", str(into)])
    assert refused.exit_code == 2
    assert reason in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert not into.exists()
