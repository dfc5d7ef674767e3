from __future__ import annotations

from pathlib import Path

import pytest

from cli.security.options import grpc_tls_of, read_access, read_http_port_key, read_tls, secured
from cli.variables import NOT_OPTIONS
from model.errors import ConfigError
from remoting.security.login import HTTP_KEY, HTTP_KEY_FILE, KEY, KEY_FILE
from remoting.security.tls.certificates import TlsFiles
from remoting.security.tls.on_demand import TlsChoice


def test_a_network_takes_access_control_or_the_word_insecure() -> None:
    for listen in ("0.0.0.0:1", "10.0.0.1:1", "[::]:1"):
        with pytest.raises(ConfigError, match="--access FILE, or pass --insecure"):
            read_access(None, listen, insecure=False)
        assert read_access(None, listen, insecure=True) is None
        assert read_access(Path("users.toml"), listen, insecure=False) is not None


def test_an_http_port_on_a_network_takes_a_key_or_certificates_or_the_word_insecure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for variable in ("RLAB_HTTP_KEY_FILE", "RLAB_HTTP_KEY"):
        monkeypatch.delenv(variable, raising=False)
    for listen in ("0.0.0.0:1", "10.0.0.1:1", "[::]:1"):
        with pytest.raises(ConfigError, match=r"--metrics .*RLAB_HTTP_KEY_FILE .* or pass --insecure"):
            read_http_port_key(listen, False, "--metrics")
        assert read_http_port_key(listen, True) is None
        assert read_http_port_key(listen, False, certificates=True) is None
    assert read_http_port_key("127.0.0.1:1", False) is None
    assert read_http_port_key(None, False) is None
    monkeypatch.setenv("RLAB_HTTP_KEY", "metrics:" + "07" * 32)
    for listen in ("0.0.0.0:1", "127.0.0.1:1"):
        key = read_http_port_key(listen, False)
        assert key is not None
        assert key.user == "metrics"


def test_certificates_are_a_pair_and_the_authority_of_clients_is_for_servers_that_have_one() -> None:
    cert, key, client_ca = Path("cert.pem"), Path("key.pem"), Path("ca.pem")
    assert read_tls(None, None, None) is None
    assert read_tls(cert, key, None) == TlsFiles(cert=cert, key=key)
    assert read_tls(cert, key, client_ca) == TlsFiles(cert=cert, key=key, client_ca=client_ca)
    for given in ((cert, None, None), (None, key, None), (None, None, client_ca), (cert, None, client_ca)):
        with pytest.raises(ConfigError, match="both --tls-cert and --tls-key"):
            read_tls(*given)


def test_tls_on_demand_is_a_choice_or_a_file_and_has_no_place_beside_tls_for_all(tmp_path: Path) -> None:
    cert, key, both = Path("cert.pem"), Path("key.pem"), tmp_path / "both.pem"
    both.touch()
    for given, read in (("auto", TlsChoice.AUTO), ("off", TlsChoice.OFF), (str(both), both), (None, None)):
        assert grpc_tls_of(given, None) == read
        options = secured(None, "127.0.0.1:1", False, None, None, None, given)
        assert options == (None, None, read)
    assert secured(None, "127.0.0.1:1", False, cert, key, None, None) == (None, TlsFiles(cert=cert, key=key), None)
    with pytest.raises(ConfigError, match="--grpc-tls Auto: write auto, off, or the name of a file"):
        grpc_tls_of("Auto", None)
    for given in ("auto", "off", str(both)):
        with pytest.raises(ConfigError, match="--grpc-tls: with --tls-cert every connection is encrypted"):
            secured(None, "127.0.0.1:1", False, cert, key, None, given)


def test_this_machine_takes_neither() -> None:
    assert read_access(None, "127.0.0.1:1", insecure=False) is None
    assert read_access(None, "localhost:1", insecure=False) is None


def test_the_variables_of_keys_are_taken_for_no_misspelt_option() -> None:
    assert {KEY, KEY_FILE, HTTP_KEY, HTTP_KEY_FILE} <= set(NOT_OPTIONS)
