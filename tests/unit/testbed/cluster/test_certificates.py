"""The authority of a test: what it signs is trusted, and it stays the same."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from model.errors import ConfigError
from remoting.security.tls.certificates import ServerTls, TlsFiles
from remoting.security.tls.trust import client_context
from testbed.cluster.certificates import make_certificate


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


def test_a_further_run_replaces_the_certificate_and_keeps_the_authority(tmp_path: Path) -> None:
    cert, key = make_certificate(tmp_path, "server", ["localhost"], 30)
    authority, first = (tmp_path / "ca.pem").read_bytes(), cert.read_bytes()
    make_certificate(tmp_path, "server", ["localhost"], 30)
    assert (tmp_path / "ca.pem").read_bytes() == authority
    assert cert.read_bytes() != first
    assert accepted(tmp_path, cert, key, "localhost")


@pytest.mark.parametrize("name", ["", "ca", "../server"])
def test_a_name_that_is_not_a_file_of_its_own_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="use the name of a file"):
        make_certificate(tmp_path, name, ["localhost"], 30)
