"""The commands of `rlab`: each is made when it is looked up, from its own module alone."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import typer
from typer.main import get_command, get_group
from typer.testing import CliRunner

from cli.main import app
from cli.sections import SECTIONS, Commands, Sections, load_commands
from model.own_name import PREFIX

pytestmark = pytest.mark.walk


def commands() -> Commands:
    group: Any = get_command(app)
    assert isinstance(group.commands, Commands)
    return group.commands


def test_a_module_registers_the_commands_that_the_sections_have_of_it_and_each_has_its_name() -> None:
    names: dict[str, set[str]] = {}
    for modules in SECTIONS.values():
        for name, module in modules.items():
            names.setdefault(module, set()).add(name)
    assert {module: set(get_group(load_commands(module)).commands) for module in names} == names
    assert all(command.name == name for name, command in commands().items())


def test_a_command_imports_the_modules_of_no_other() -> None:
    of_others = [f"{PREFIX}cli.{name}" for name in ("group", "messages", "servers", "testbed", "trace")]
    code = (
        f"import sys, {PREFIX}cli.main as main\n"
        "try: main.app(['key', '--help'])\n"
        f"except SystemExit: print([name for name in {of_others} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_command_that_is_added_to_the_app_is_one_of_them_and_may_replace_one() -> None:
    extended = typer.Typer(cls=Sections)
    extended.callback()(lambda: None)
    extended.command("mine")(lambda: typer.echo("mine"))
    extended.command("key")(lambda: typer.echo("my key"))
    assert CliRunner().invoke(extended, ["mine"]).stdout == "mine\n"
    assert CliRunner().invoke(extended, ["key"]).stdout == "my key\n"
    assert CliRunner().invoke(extended, ["topic", "--help"]).exit_code == 0


def test_a_command_can_be_set_and_removed() -> None:
    made = commands()
    before = len(made)
    made["mine"] = command = get_command(app)
    assert made["mine"] is command
    del made["mine"], made["key"]
    assert len(made) == before - 1
    assert made.get("mine") is made.get("key") is None
    with pytest.raises(KeyError):
        del made["key"]
