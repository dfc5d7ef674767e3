"""The authority of a test: what it signs is trusted, and it stays the same."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from cli.main import app
from tests.unit.testbed.cluster.test_certificates import accepted


def test_clients_of_the_authority_accept_what_it_signs_for_the_hosts_that_it_names(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["certs", str(tmp_path / "tls"), "--host", "broker-a", "--name", "a"])
    cert, key = tmp_path / "tls" / "a.pem", tmp_path / "tls" / "a-key.pem"
    assert result.stdout == f"--tls-cert {cert} --tls-key {key}\nRLAB_TLS_CA={tmp_path / 'tls' / 'ca.pem'}\n"
    assert accepted(tmp_path / "tls", cert, key, "broker-a")
    assert not accepted(tmp_path / "tls", cert, key, "broker-b")
    assert {path.stat().st_mode & 0o077 for path in (tmp_path / "tls").iterdir()} == {0}
