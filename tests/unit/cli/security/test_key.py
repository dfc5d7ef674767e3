from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from cli.main import app
from remoting.security.login import read_key
from remoting.security.policy import parse_policy


def test_a_key_goes_to_a_file_of_its_owner_and_its_hash_is_printed_for_the_access_file(tmp_path: Path) -> None:
    file = tmp_path / "alice.key"
    done = CliRunner().invoke(app, ["key", "new", "alice", "--file", str(file)])
    assert done.exit_code == 0, done.output
    key = read_key(file)
    assert parse_policy(done.stdout)["alice"].keys == (key.hash(),)
    assert key.secret.hex() not in done.output


def test_a_file_that_is_there_is_not_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "alice.key"
    file.write_text("mine")
    done = CliRunner().invoke(app, ["key", "new", "alice", "--file", str(file)])
    assert done.exit_code == 2
    assert "no key is overwritten: name another file" in done.stderr
    assert file.read_text() == "mine"
    assert CliRunner().invoke(app, ["key", "new", "a b", "--file", str(tmp_path / "b")]).exit_code == 2
