from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

from cli.main import app
from cli.sections import SECTIONS
from model.own_name import PREFIX

pytestmark = pytest.mark.walk


def commands() -> list[list[str]]:
    def walk(command: object, path: list[str]) -> Iterator[list[str]]:
        children = getattr(command, "commands", None)
        if not children or (getattr(command, "invoke_without_command", False) and path):
            yield path
        for name, child in (children or {}).items():
            yield from walk(child, [*path, name])

    return list(walk(get_command(app), []))


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_every_command_explains_itself_with_an_example_and_takes_its_options_from_a_file(command: list[str]) -> None:
    result = CliRunner().invoke(app, [*command, "--help"])
    assert result.exit_code == 0
    assert f"Example: {'seq 1000 | ' if command == ['produce'] else ''}rlab {' '.join(command)}" in " ".join(
        result.stdout.split()
    )
    # In the same test, because the help of a hundred commands takes seconds.
    assert "--config" in result.stdout or command in (["bench"], ["demo"], ["swarm"]), "options may come from a file"


def test_the_commands_of_the_issue_are_all_there() -> None:
    assert {" ".join(command) for command in commands()} >= {
        "namesrv",
        "broker",
        "cluster",
        "topic create",
        "topic list",
        "topic show",
        "topic scale",
        "topic delete",
        "group list",
        "group show",
        "message find",
        "message show",
        "produce",
        "consume",
    }


@pytest.mark.parametrize("arguments", [["topic"], ["group"], ["message"]], ids=" ".join)
def test_the_first_line_of_each_help_fits_the_list_of_commands(arguments: list[str]) -> None:
    listed = CliRunner().invoke(app, [*arguments, "--help"]).stdout
    assert "..." not in listed.partition("Commands")[2]


@pytest.mark.parametrize("arguments", [["frobnicate"], ["topic"], ["topic", "frobnicate"], ["--frobnicate"]])
def test_what_is_not_a_command_is_a_usage_error(arguments: list[str]) -> None:
    assert CliRunner().invoke(app, arguments).exit_code == 2


def test_it_reports_its_version() -> None:
    assert CliRunner().invoke(app, ["--version"]).stdout.startswith("rlab ")


def test_the_command_line_is_there_at_once_because_what_it_runs_is_imported_late() -> None:
    ours = [f"{PREFIX}{name}" for name in ("client", "broker", "namesrv", "testbed.simulation")]
    heavy = ["pydantic", "rich", "sqlite3", *ours]
    # A measurement of coverage imports sqlite3 before.
    new = f"[name for name in {heavy} if name in sys.modules and name not in before]"
    code = f"import sys; before = set(sys.modules); import {PREFIX}cli.main; print({new})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_app_is_a_typer_app_that_others_can_extend() -> None:
    assert isinstance(app, typer.Typer)


def test_the_help_lists_each_command_once_by_purpose_on_one_screen() -> None:
    shown = CliRunner().invoke(app, ["--help"]).stdout
    assert len(shown.splitlines()) <= 50
    listed = [name for names in SECTIONS.values() for name in names]
    assert sorted(listed) == sorted(get_command(app).commands)  # type: ignore[attr-defined] # it is a group
    places = [shown.index(f"\n{title}:\n") for title in SECTIONS]
    assert places == sorted(places)
