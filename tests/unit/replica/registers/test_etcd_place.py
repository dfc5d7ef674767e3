from __future__ import annotations

from pathlib import Path

import pytest

from model.errors import ConfigError
from model.replica_limits import MAX_ETCD_ENDPOINTS, MAX_ETCD_PREFIX_CHARS
from replica.registers.etcd_place import EtcdPlace, etcd_login, etcd_tls, parse_place
from testbed.cluster.certificates import make_certificate


@pytest.mark.parametrize(
    ("text", "endpoints", "prefix"),
    [
        ("etcd://a:2379", ("a:2379",), "rlab"),
        ("etcd://a:2379,b:2379,[::1]:2379/", ("a:2379", "b:2379", "[::1]:2379"), "rlab"),
        ("etcd://a:2379/tests.one/", ("a:2379",), "tests.one"),
    ],
)
def test_an_address_has_members_and_the_beginning_of_the_keys(
    text: str, endpoints: tuple[str, ...], prefix: str
) -> None:
    place = parse_place(text)
    assert place == EtcdPlace(endpoints=endpoints, prefix=prefix)
    assert parse_place(str(place)) == place


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("10.0.0.1:2379", "write etcd://HOST:PORT"),
        ("http://a:2379", "write etcd://HOST:PORT"),
        ("etcd://", "no address given"),
        ("etcd://a", "'a' is not an address"),
        ("etcd://user:secret@a:2379", "no user and no password: set RLAB_ETCD_USER"),
        ("etcd://a:2379/two words", "cannot begin keys"),
        ("etcd://a:2379/rlab/sets", "cannot begin keys"),
        (f"etcd://a:1/{'x' * (MAX_ETCD_PREFIX_CHARS + 1)}", "cannot begin keys"),
        (f"etcd://{','.join(f'a:{n}' for n in range(1, MAX_ETCD_ENDPOINTS + 2))}", "9 addresses here, got 10"),
    ],
)
def test_another_text_is_refused_with_the_remedy(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as refused:
        parse_place(text)
    assert "secret" not in str(refused.value)


def test_the_most_members_and_the_longest_prefix_are_accepted() -> None:
    members = ",".join(f"a:{n}" for n in range(1, MAX_ETCD_ENDPOINTS + 1))
    assert len(parse_place(f"etcd://{members}/{'x' * MAX_ETCD_PREFIX_CHARS}").endpoints) == MAX_ETCD_ENDPOINTS


def test_the_password_is_read_from_its_file_at_each_login(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("one\n")
    variables = {"RLAB_ETCD_USER": "u", "RLAB_ETCD_PASSWORD_FILE": str(file)}
    assert etcd_login(variables) == ("u", "one")
    file.write_text("two")
    assert etcd_login(variables) == ("u", "two")
    assert etcd_login({"RLAB_ETCD_USER": "u", "RLAB_ETCD_PASSWORD": "three"}) == ("u", "three")
    assert etcd_login({}) is None


def test_half_of_a_login_is_refused(tmp_path: Path) -> None:
    (tmp_path / "long").write_bytes(b"x" * 5000)
    for variables, reason in (
        ({"RLAB_ETCD_USER": "u"}, "user u of etcd has no password"),
        ({"RLAB_ETCD_PASSWORD": "p"}, "no user: set RLAB_ETCD_USER"),
        ({"RLAB_ETCD_USER": "u", "RLAB_ETCD_PASSWORD_FILE": str(tmp_path / "none")}, "cannot read the file"),
        ({"RLAB_ETCD_USER": "u", "RLAB_ETCD_PASSWORD_FILE": str(tmp_path / "long")}, "longer than a password"),
    ):
        with pytest.raises(ConfigError, match=reason):
            etcd_login(variables)


def test_an_authority_turns_tls_on_and_a_certificate_needs_one(tmp_path: Path) -> None:
    make_certificate(tmp_path, "etcd", ["127.0.0.1"], 1)
    assert etcd_tls({}) is None
    assert etcd_tls({"RLAB_ETCD_CA": str(tmp_path / "ca.pem")}) is not None
    with pytest.raises(ConfigError, match="need RLAB_ETCD_CA"):
        etcd_tls({"RLAB_ETCD_CERT": "x"})
    with pytest.raises(ConfigError, match="cannot use RLAB_ETCD_CA"):
        etcd_tls({"RLAB_ETCD_CA": str(tmp_path / "none.pem")})
