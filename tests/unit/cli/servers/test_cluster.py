from __future__ import annotations

import pytest
from typer.testing import CliRunner

from cli.main import app
from cli.servers.cluster import listen_flags


def test_brokers_take_the_ports_after_the_name_servers_or_any() -> None:
    assert listen_flags(9876, 2) == ["--listen", "127.0.0.1:9878"]
    assert listen_flags(0, 2) == ["--listen", "127.0.0.1:0"]


@pytest.mark.parametrize("arguments", [["--brokers", "0"], ["--brokers", "65"], ["--port", "-1"], ["--queues", "0"]])
def test_impossible_sizes_are_usage_errors(arguments: list[str]) -> None:
    assert CliRunner().invoke(app, ["cluster", *arguments]).exit_code == 2
