"""The authority of a test: what it signs is trusted, and it stays the same."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.main import app
from cli.security.certs import make_certificate
from model.errors import ConfigError
from remoting.security.tls import ServerTls, TlsFiles
from remoting.security.trust import client_context


def accepted(directory: Path, cert: Path, key: Path, host: str) -> bool:
    """Whether a client that trusts the authority takes the certificate of a server for this host."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    trusting = client_context({"RLAB_TLS_CA": str(directory / "ca.pem")})
    assert trusting is not None
    server = ServerTls(TlsFiles(cert=cert, key=key)).context.wrap_bio(there, back, server_side=True)
    client = trusting.wrap_bio(back, there, server_hostname=host)
    try:
        for side in (client, server, client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    except ssl.SSLCertVerificationError:
        return False
    return True


def test_clients_of_the_authority_accept_what_it_signs_for_the_hosts_that_it_names(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["certs", str(tmp_path / "tls"), "--host", "broker-a", "--name", "a"])
    cert, key = tmp_path / "tls" / "a.pem", tmp_path / "tls" / "a-key.pem"
    assert result.stdout == f"--tls-cert {cert} --tls-key {key}\nRLAB_TLS_CA={tmp_path / 'tls' / 'ca.pem'}\n"
    assert accepted(tmp_path / "tls", cert, key, "broker-a")
    assert not accepted(tmp_path / "tls", cert, key, "broker-b")
    assert {path.stat().st_mode & 0o077 for path in (tmp_path / "tls").iterdir()} == {0}


def test_a_further_run_replaces_the_certificate_and_keeps_the_authority(tmp_path: Path) -> None:
    cert, key = make_certificate(tmp_path, "server", ["localhost"], 30)
    authority, first = (tmp_path / "ca.pem").read_bytes(), cert.read_bytes()
    make_certificate(tmp_path, "server", ["localhost"], 30)
    assert (tmp_path / "ca.pem").read_bytes() == authority
    assert cert.read_bytes() != first
    assert accepted(tmp_path, cert, key, "localhost")


@pytest.mark.parametrize("name", ["", "ca", "../server"])
def test_a_name_that_is_no_file_of_its_own_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="use the name of a file"):
        make_certificate(tmp_path, name, ["localhost"], 30)
