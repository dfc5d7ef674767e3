"""`rlab fault`: which request a command line means, and how it fails."""

from __future__ import annotations

from typing import Any

import pytest
from typer.testing import CliRunner

from cli.main import app
from cli.testbed.fault import fault_request
from model.errors import InvalidParameter


@pytest.mark.parametrize(
    ("line", "method", "path", "body"),
    [
        ("list", "GET", "/v1/faults", None),
        ("heal", "POST", "/v1/heal", None),
        ("heal 3", "DELETE", "/v1/faults/3", None),
        ("kill broker-a", "POST", "/v1/processes/broker-a/kill", None),
        ("pause broker-a", "POST", "/v1/processes/broker-a/pause", None),
        ("pause client=c2", "POST", "/v1/faults", {"do": "pause", "client": "c2"}),
        ("cut", "POST", "/v1/faults", {"do": "cut"}),
        ("delay by_s=0.5 n=2", "POST", "/v1/faults", {"do": "delay", "by_s": 0.5, "n": 2}),
        ("group g", "GET", "/v1/groups/g", None),
        ("wait g stable members=2", "GET", "/v1/groups/g/wait/stable?members=2", None),
        ("report group=g", "GET", "/v1/report?group=g", None),
    ],
)
def test_a_command_line_means_one_request(line: str, method: str, path: str, body: dict[str, Any] | None) -> None:
    verb, *words = line.split()
    assert fault_request(verb, words) == (method, path, body)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("wait g", "needs a group and a barrier"),
        ("group", "needs a group"),
        ("drop c2", "client=c2"),
        ("drop n=two", "n is a number, got 'two'"),
    ],
)
def test_a_line_that_lacks_something_is_refused_in_one_line(line: str, says: str) -> None:
    verb, *words = line.split()
    with pytest.raises(InvalidParameter, match=says):
        fault_request(verb, words)


def test_without_an_address_it_says_where_that_comes_from_and_no_one_there_is_one_line() -> None:
    runner = CliRunner()
    lost = runner.invoke(app, ["fault", "list"])
    assert (lost.exit_code, "RLAB_FAULT_CONTROL" in lost.stderr) == (2, True)
    no_member = runner.invoke(app, ["fault", "list", "--control", "127.0.0.1:1", "--token", "t"])
    assert (no_member.exit_code, no_member.stderr.count("\n")) == (1, 1)
    assert "no control plane answers at 127.0.0.1:1" in no_member.stderr
