"""The console is served with what the command line says."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.main import app
from console.server import ConsoleOptions
from remoting.security.tls.certificates import TlsFiles


def test_certificates_reach_the_pages_and_the_address_that_is_printed_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[ConsoleOptions] = []

    @asynccontextmanager
    async def run_console(options: ConsoleOptions) -> AsyncIterator[str]:
        served.append(options)
        yield "127.0.0.1:9480"

    async def end_of_input() -> None:
        """There is no parent that could end."""

    monkeypatch.setattr("console.server.run_console", run_console)
    monkeypatch.setattr("cli.servers.console.wait_for_eof", end_of_input)
    with_tls = ["--tls-cert", "c.pem", "--tls-key", "k.pem", "--tls-client-ca", "a.pem"]
    for options, scheme in ((with_tls, "https"), ([], "http")):
        result = CliRunner().invoke(app, ["console", "--exit-with-stdin", *options])
        assert result.stdout == f"console is on {scheme}://127.0.0.1:9480/\n"
    assert [each.tls for each in served] == [
        TlsFiles(cert=Path("c.pem"), key=Path("k.pem"), client_ca=Path("a.pem")),
        None,
    ]
