from __future__ import annotations

from pathlib import Path

import pytest

from model.errors import ConfigError
from remoting.security.access_file import AccessFile


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
