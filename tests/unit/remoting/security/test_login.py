from __future__ import annotations

from pathlib import Path

import pytest

from model.errors import ConfigError, NotAuthenticated
from model.response_code import ResponseCode
from remoting.command import RESPONSE, Command
from remoting.security.key import Key
from remoting.security.login import ClientHandshake, read_key, read_own_key

ALICE = Key("alice", bytes(32))


def key_file(folder: Path, text: str, mode: int = 0o600) -> Path:
    file = folder / "key"
    file.write_text(text)
    file.chmod(mode)
    return file


def test_a_key_comes_from_a_file_or_the_environment_and_the_file_wins(tmp_path: Path) -> None:
    file = key_file(tmp_path, ALICE.text() + "\n")
    bob = Key("bob", bytes(32)).text()
    assert read_own_key({}) is None
    assert read_own_key({"RLAB_KEY": bob}) == Key("bob", bytes(32))
    assert read_own_key({"RLAB_KEY": bob, "RLAB_KEY_FILE": str(file)}) == ALICE


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_key_file_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(ConfigError, match="chmod 600"):
        read_key(key_file(tmp_path, ALICE.text(), mode))


def test_a_credential_of_systemd_whose_access_list_shows_as_rights_of_the_group_is_read(tmp_path: Path) -> None:
    file = key_file(tmp_path, ALICE.text(), 0o440)
    environment = {"RLAB_KEY_FILE": str(file), "CREDENTIALS_DIRECTORY": str(tmp_path)}
    assert read_own_key(environment) == ALICE
    file.chmod(0o444)
    with pytest.raises(ConfigError, match="chmod 600"):
        read_own_key(environment)
    file.chmod(0o440)
    with pytest.raises(ConfigError, match="chmod 600"):
        read_own_key(environment | {"CREDENTIALS_DIRECTORY": str(tmp_path / "another")})


def test_a_directory_in_place_of_a_key_file_is_not_reported_to_change_its_rights(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is a directory"):
        read_key(tmp_path)


def test_a_key_file_that_is_missing_or_no_key_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read the key file"):
        read_key(tmp_path / "none")
    with pytest.raises(ConfigError, match="must hold one key"):
        read_key(key_file(tmp_path, "alice"))


def test_a_server_that_cannot_prove_itself_gets_nothing_from_a_client_with_a_key() -> None:
    handshake = ClientHandshake(ALICE)
    handshake.proof(Command(RESPONSE, 0, 1, {"nonce": "n"}, None))
    with pytest.raises(NotAuthenticated, match="did not prove"):
        handshake.finish(Command(RESPONSE, 0, 2, {"proof": "0" * 64}, None))
    old = Command(RESPONSE, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, 1, {"remark": "unknown"}, None)
    with pytest.raises(NotAuthenticated, match="no access control"):
        ClientHandshake(ALICE).proof(old)
