from __future__ import annotations

from pathlib import Path

import pytest

from model.errors import ConfigError
from remoting.security.access_file import AccessFile
from remoting.security.gate import Gate, NoClientState
from testbed.simulation.kernel.run import Simulation, run_simulation


def test_a_file_is_read_again_when_it_has_changed_and_what_is_wrong_with_it_is_an_error_once(tmp_path: Path) -> None:
    path = tmp_path / "users.toml"
    file = AccessFile(path)
    with pytest.raises(ConfigError, match="cannot read"):
        file.changed()
    path.write_text("[users.alice]\nadmin = true\n", encoding="utf-8")
    policy = file.changed()
    assert policy is not None
    assert list(policy) == ["alice"]
    assert file.changed() is None
    path.write_text("[users.alice]\nadmin = 1\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"users\.toml: user 'alice'"):
        file.changed()
    assert file.changed() is None


def test_an_access_file_that_everyone_may_write_is_refused_and_changes_nothing_while_a_server_runs(
    tmp_path: Path,
) -> None:
    path = tmp_path / "users.toml"
    path.write_text('[users.a]\nconsume = ["t"]\n')
    path.chmod(0o646)
    with pytest.raises(ConfigError, match=r"everybody on this machine may write the access file .*chmod o-w"):
        AccessFile(path).changed()
    path.chmod(0o664)
    file = AccessFile(path)
    assert list(file.changed() or ()) == ["a"]
    path.write_text("[users.b]\nadmin = true\n")
    path.chmod(0o666)
    with pytest.raises(ConfigError, match="everybody"):
        file.changed()
    assert file.changed() is None, "it is reported once, and not every two seconds"
    path.chmod(0o600)
    assert list(file.changed() or ()) == ["b"]


def test_the_second_server_of_a_process_has_the_users_of_the_file_too(tmp_path: Path) -> None:
    path = tmp_path / "users.toml"
    path.write_text('[users.a]\nconsume = ["t"]\n')
    file = AccessFile(path)

    async def users_of_a_server(_: Simulation) -> list[str]:
        return list(Gate(file, NoClientState())._policy)

    assert [run_simulation(users_of_a_server) for _ in range(2)] == [["a"], ["a"]]
