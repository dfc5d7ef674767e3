"""`rlab example`: what it lists is there, and its copies run by the command that is listed."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.main import app
from cli.testbed.examples import SHIPPED

LISTED = json.loads(CliRunner().invoke(app, ["example", "list", "--json"]).stdout)["examples"]


@pytest.mark.walk
def test_every_script_and_every_folder_of_examples_is_listed() -> None:
    there = {path.stem for path in SHIPPED.iterdir() if path.suffix == ".py" or (path.is_dir() and path.stem[0] != "_")}
    assert {each["name"] for each in LISTED} == there
    assert all(each["about"] for each in LISTED)
    assert "custom_strategy" in CliRunner().invoke(app, ["example", "list"]).stdout


def test_the_command_that_is_listed_finds_its_copy(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["example", "copy", "--to", str(tmp_path)])
    assert done.exit_code == 0, done.output
    for each in LISTED:
        files = [word for word in shlex.split(each["run"]) if word.startswith("examples/")]
        assert all((tmp_path / file).is_file() for file in files), each["run"]
    assert not list(tmp_path.rglob("__pycache__"))


@pytest.mark.process
def test_a_copied_example_runs_in_its_folder(tmp_path: Path) -> None:
    assert CliRunner().invoke(app, ["example", "copy", "core", "--to", str(tmp_path)]).exit_code == 0
    command = [sys.executable, "-m", "examples.core"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert "sent " in done.stdout.splitlines()[-1]


def test_an_unknown_name_is_an_error_that_lists_the_names_and_nothing_is_copied(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["example", "copy", "hello", "helo", "--to", str(tmp_path)])
    assert done.exit_code == 2
    assert "no example 'helo'; there are custom_strategy, failover, hello," in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_example_is_copied_by_its_name_its_file_or_its_folder(tmp_path: Path) -> None:
    names = ["hello.py", "examples/pop.py", "examples/scenarios/", "lite_pull"]
    done = CliRunner().invoke(app, ["example", "copy", *names, "--to", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert {path.name for path in (tmp_path / "examples").iterdir()} == {
        "hello.py",
        "lite_pull.py",
        "pop.py",
        "scenarios",
    }


def test_the_shell_completes_names_of_examples() -> None:
    words = {"_RLAB_COMPLETE": "complete_bash", "COMP_WORDS": "rlab example copy li", "COMP_CWORD": "3"}
    assert CliRunner().invoke(app, [], env=words, prog_name="rlab").output.split() == ["lite_pull"]


def test_a_file_that_exists_is_left_as_it_is(tmp_path: Path) -> None:
    own = tmp_path / "examples" / "hello.py"
    own.parent.mkdir()
    own.write_text("mine", encoding="utf-8")
    done = CliRunner().invoke(app, ["example", "copy", "pop", "hello", "--to", str(tmp_path)])
    assert done.exit_code == 2
    assert f"{own} exists: nothing was copied" in done.stderr
    assert [path.name for path in own.parent.iterdir()] == ["hello.py"]
    assert own.read_text(encoding="utf-8") == "mine"
