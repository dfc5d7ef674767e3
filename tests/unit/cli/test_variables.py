"""The variables of all commands: they follow the options, each is listed once, and old names are still read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from cli.main import app, main
from cli.variables import (
    NOT_OPTIONS,
    OLD_NAMES,
    SHARED,
    all_variables,
    read_old_names,
    unknown_variables,
    variables_of,
)

pytestmark = pytest.mark.walk

COMMAND: Any = get_command(app)


def options(command: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    """Each option with the start of its variable's name."""
    yield from ((prefix, each) for each in command.params if each.param_type_name == "option")
    for name, child in getattr(command, "commands", {}).items():
        yield from options(child, f"{prefix}_{name.upper().replace('-', '_')}")


def test_each_variable_is_called_after_its_command_and_its_option() -> None:
    for prefix, option in options(COMMAND, "RLAB"):
        names = {f"{prefix}_{opt[2:].replace('-', '_').upper()}" for opt in option.opts if opt.startswith("--")}
        if prefix != "RLAB":
            assert option.envvar in names | SHARED, option.opts
    assert {option.envvar for _, option in options(COMMAND, "RLAB")} >= SHARED


def test_options_of_rlab_itself_and_arguments_have_no_variable() -> None:
    names = {each.name for each in variables_of(COMMAND)}
    assert names.isdisjoint({"RLAB_VERSION", "RLAB_SHOW_VERSION", "RLAB_HELP_ENV", "RLAB_INSTALL_COMPLETION"})
    assert "RLAB_GROUP_SHOW_GROUP" not in names, "the parser does not read it"
    shown = CliRunner().invoke(app, ["--version"], env={"RLAB_INSTALL_COMPLETION": "1", "RLAB_SHOW_VARIABLES": "1"})
    assert shown.stdout.startswith("rlab "), shown.stdout


def test_the_variables_are_those_that_the_commands_read() -> None:
    known = {each.name for each in variables_of(COMMAND)}
    assert {"RLAB_NAMESRV", "RLAB_CONFIG", "RLAB_BROKER_LISTEN", "RLAB_TOPIC_CREATE_QUEUES"} <= known
    assert "RLAB_BROKER_NAMESRV" not in known, "it has a name of its own"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("RLAB_MESSAGE_FIND_MAX", ["message", "find", "t", "--key", "k"]),
        ("RLAB_TOPIC_CREATE_QUEUES", ["topic", "create", "t"]),
        ("RLAB_GROUP_DLQ_SHOW_LIMIT", ["group", "dlq", "show", "g"]),
    ],
)
def test_a_variable_is_read_under_the_name_that_is_listed(name: str, words: list[str]) -> None:
    refused = CliRunner().invoke(app, words, env={name: "seven"})
    assert refused.exit_code == 2
    assert "seven" in refused.output


def test_every_variable_is_listed_once_with_what_it_sets() -> None:
    lines = CliRunner().invoke(app, ["--help-env"]).stdout.splitlines()
    names = [line.split()[0] for line in lines]
    assert names == sorted(set(names))
    assert set(names) == {each.name for each in variables_of(COMMAND)} | set(NOT_OPTIONS)
    [listen] = [line for line in lines if line.startswith("RLAB_BROKER_LISTEN ")]
    assert listen.split(None, 1)[1] == "rlab broker --listen"
    [servers] = [line for line in lines if line.startswith("RLAB_NAMESRV ")]
    assert servers.split(None, 1)[1] == "--namesrv of all commands"


def test_every_other_variable_says_what_it_sets() -> None:
    meanings = {each.name: each.meaning for each in all_variables(COMMAND)}
    assert [name for name, meaning in meanings.items() if not meaning] == []


def test_an_old_name_is_read_with_a_note_unless_the_new_one_is_set() -> None:
    environment = {"RLAB_MESSAGE_FIND_MOST": "3", "RLAB_BENCH_AS_JSON": "1", "RLAB_BENCH_JSON": "0"}
    assert read_old_names(environment) == [
        "RLAB_BENCH_AS_JSON is called RLAB_BENCH_JSON now, after its option; the old name is still read",
        "RLAB_MESSAGE_FIND_MOST is called RLAB_MESSAGE_FIND_MAX now, after its option; the old name is still read",
    ]
    assert (environment["RLAB_MESSAGE_FIND_MAX"], environment["RLAB_BENCH_JSON"]) == ("3", "0")
    assert unknown_variables(OLD_NAMES, COMMAND) == []


def test_an_old_name_stands_for_a_variable_that_there_is() -> None:
    known = {each.name for each in variables_of(COMMAND)}
    assert set(OLD_NAMES.values()) <= known
    assert known.isdisjoint(OLD_NAMES)


def test_a_command_reads_an_old_name_and_notes_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RLAB_MESSAGE_FIND_MAX", "1")
    monkeypatch.delenv("RLAB_MESSAGE_FIND_MAX")
    monkeypatch.setenv("RLAB_MESSAGE_FIND_MOST", "seven")
    monkeypatch.setattr("sys.argv", ["rlab", "message", "find", "t", "--key", "k"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert "note: RLAB_MESSAGE_FIND_MOST is called RLAB_MESSAGE_FIND_MAX now" in error
    assert "seven" in error


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("RLAB_BROKR_LISTEN", ["RLAB_BROKR_LISTEN is not a variable of rlab: is RLAB_BROKER_LISTEN meant?"]),
        ("RLAB_NAMESERVER", ["RLAB_NAMESERVER is not a variable of rlab: is RLAB_NAMESRV meant?"]),
        ("RLAB_XYZ", ["RLAB_XYZ is not a variable of rlab"]),
        ("RLAB_NAMESRV", []),
        ("RLAB_BROKER_LISTEN", []),
        ("RLAB_DEBUG", []),
        ("RLAB_SERVICE_HOST", []),
        ("RLAB_PORT_9876_TCP", []),
        ("MY_RLAB_BROKR_LISTEN", []),
        ("PATH", []),
    ],
)
def test_a_misspelt_variable_is_named_and_no_other(name: str, said: list[str]) -> None:
    assert unknown_variables([name], COMMAND) == said
