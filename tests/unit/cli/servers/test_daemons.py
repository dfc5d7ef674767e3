from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest
from typer.testing import CliRunner

from cli.main import app
from cli.servers.daemons import announce, dialable, flush_regularly
from cli.servers.trace_file import TraceFile
from model.errors import ConfigError
from model.events import Event, EventKind
from model.limits import TRACE_FLUSH_INTERVAL_S
from model.quirks import CLIENT_QUIRKS, Quirk
from testbed.simulation.kernel.run import Simulation, run_simulation


def test_a_daemon_says_its_address_to_people_and_to_programs(capsys: pytest.CaptureFixture[str]) -> None:
    announce("broker", "broker-a", "127.0.0.1:1", as_json=False)
    announce("broker", "broker-a", "127.0.0.1:1", as_json=True, recovery=None)
    text, document = capsys.readouterr().out.splitlines()
    assert text == "broker broker-a listens on 127.0.0.1:1"
    place = {"kind": "broker", "name": "broker-a", "address": "127.0.0.1:1"}
    assert json.loads(document) == {**place, "ready": True, "recovery": None}


@pytest.mark.parametrize("as_json", [False, True])
def test_a_daemon_that_others_reach_says_once_what_that_means(
    as_json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    announce("namesrv", "ns", "127.0.0.1:9876", as_json=as_json)
    assert capsys.readouterr().err == ""
    announce("namesrv", "ns", "0.0.0.0:9876", as_json=as_json)
    said = capsys.readouterr()
    assert len(said.out.splitlines()) == 1
    assert said.err.count("all who reach 0.0.0.0:9876 may read, change and delete everything") == 1


def test_only_an_address_that_clients_can_dial_is_advertised() -> None:
    assert dialable("broker-a:10911") == "broker-a:10911"
    with pytest.raises(ConfigError, match="port 0"):
        dialable("broker-a:0")
    with pytest.raises(ConfigError, match="not an address"):
        dialable("broker-a")


@pytest.mark.simulation
def test_a_trace_file_can_be_read_while_it_is_being_written(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"

    async def main(simulation: Simulation) -> None:
        with TraceFile(path) as file:
            async with flush_regularly(file):
                file.write(Event(1.0, "n", 1, EventKind.BROKER_UP.value))
                assert path.read_bytes() == b""
                await anyio.sleep(TRACE_FLUSH_INTERVAL_S)
                await anyio.lowlevel.checkpoint()
                assert path.read_bytes().count(b"\n") == 1
            async with flush_regularly(None):
                pass

    run_simulation(main)


@pytest.mark.walk
def test_the_help_of_the_command_that_starts_a_side_names_the_quirks_of_that_side() -> None:
    shown = {command: CliRunner().invoke(app, [command, "--help"]).stdout for command in ("broker", "consume")}
    assert {quirk for quirk in Quirk if quirk in shown["consume"]} == CLIENT_QUIRKS
    assert {quirk for quirk in Quirk if quirk in shown["broker"]} == set(Quirk) - CLIENT_QUIRKS


@pytest.mark.parametrize(
    "arguments",
    [
        ["broker", "--quirk", "NO_SUCH_QUIRK"],
        ["broker", "--expiry", "soon"],
        ["broker", "--register-interval", "0"],
        ["namesrv", "extra"],
    ],
)
def test_an_option_that_makes_no_sense_is_a_usage_error(arguments: list[str]) -> None:
    assert CliRunner().invoke(app, arguments).exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["namesrv", "--listen", "here"], "error: 'here' is not an address"),
        (["namesrv", "--listen", "127.0.0.1:0", "--elections", "{full}"], "has no register and is not empty"),
        (["broker", "--listen", "127.0.0.1:0", "--data", "{file}"], "is not a directory"),
        (["broker", "--listen", "127.0.0.1:0", "--data", "{full}"], "is not a message store and not empty"),
        (["broker", "--listen", "127.0.0.1:0", "--data", "{new}", "--name", "a b"], "error: broker name 'a b'"),
        (
            ["broker", "--listen", "127.0.0.1:0", "--data", "{new}", "--trace", "{full}"],
            "error: cannot write the trace",
        ),
        (["broker", "--listen", "127.0.0.1:0", "--data", "{new}", "--namesrv", ","], "error: no address given"),
    ],
)
def test_what_a_daemon_cannot_start_with_is_one_line_that_says_what_to_do(
    arguments: list[str], complaint: str, tmp_path: Path
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").touch()
    (tmp_path / "file").touch()
    places = {name: str(tmp_path / name) for name in ("file", "full", "new")}
    result = CliRunner().invoke(app, [argument.format(**places) for argument in arguments])
    assert result.exit_code == 2
    assert complaint in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""
