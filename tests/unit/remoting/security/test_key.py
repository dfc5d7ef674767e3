from __future__ import annotations

import pytest

from model.errors import ConfigError, InvalidParameter
from remoting.security.key import Key, KeyHash

KEY = Key("alice", bytes(range(32)))


def test_a_key_and_its_hash_are_read_as_they_are_written() -> None:
    assert Key.parse(KEY.text() + "\n", "the file") == KEY
    assert KeyHash.parse(str(KEY.hash())) == KEY.hash()


def test_neither_shows_its_secret_in_a_log_or_an_error() -> None:
    secret = KEY.secret.hex()
    assert secret not in f"{KEY!r} {KEY} {KEY.hash()!r} {KEY.hash()}"
    for text in (f"alice:{secret}0", f"alice:{secret[:-1]}", secret + "x", f"alice {secret}"):
        with pytest.raises(ConfigError) as raised:
            Key.parse(text, "the file")
        assert secret[:20] not in str(raised.value)
        with pytest.raises(ConfigError) as raised:
            KeyHash.parse(f"rlab1:{text}")
        assert secret[:20] not in str(raised.value)


def test_a_key_is_32_bytes_of_a_user_with_a_legal_name() -> None:
    with pytest.raises(ConfigError, match="32 bytes"):
        Key("alice", b"short")
    with pytest.raises(InvalidParameter, match="user name"):
        Key("a user", bytes(32))
