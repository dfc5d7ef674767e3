from __future__ import annotations

from pathlib import Path

import pytest

from cli.security.options import access_of
from model.errors import ConfigError


def test_a_network_takes_access_control_or_the_word_insecure() -> None:
    for listen in ("0.0.0.0:1", "10.0.0.1:1", "[::]:1"):
        with pytest.raises(ConfigError, match="--access FILE, or say --insecure"):
            access_of(None, listen, insecure=False)
        assert access_of(None, listen, insecure=True) is None
        assert access_of(Path("users.toml"), listen, insecure=False) is not None


def test_this_machine_takes_neither() -> None:
    assert access_of(None, "127.0.0.1:1", insecure=False) is None
    assert access_of(None, "localhost:1", insecure=False) is None
