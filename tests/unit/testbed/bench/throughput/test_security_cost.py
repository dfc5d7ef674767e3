from __future__ import annotations

import os
from pathlib import Path

import pytest

from remoting.security.login import read_own_key
from remoting.security.policy import parse_policy
from testbed.bench.throughput.security_cost import access, environment


def test_the_key_of_the_clients_is_the_one_that_the_servers_know(tmp_path: Path) -> None:
    (_, file), variables = access(tmp_path)
    user = parse_policy(Path(file).read_text())["bench"]
    key = read_own_key(variables)
    assert key is not None
    assert key.hash() in user.keys
    assert all(Path(path).stat().st_mode & 0o077 == 0 for path in variables.values())


def test_variables_hold_for_the_block_and_are_as_before_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLAB_ONE", "before")
    monkeypatch.delenv("RLAB_TWO", raising=False)
    with environment({"RLAB_ONE": "a", "RLAB_TWO": "b"}):
        assert (os.environ["RLAB_ONE"], os.environ["RLAB_TWO"]) == ("a", "b")
    assert (os.environ["RLAB_ONE"], os.environ.get("RLAB_TWO")) == ("before", None)
