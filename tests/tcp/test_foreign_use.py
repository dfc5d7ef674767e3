"""A client serves the process and the event loop that it was started in; elsewhere it is refused by name."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.tcp.rlab_process import ROOT, TIMEOUT_S, Daemon, environment

pytestmark = pytest.mark.walk

NEVER_FAIL = {"Admin.absent_brokers", "Admin.missing_trace"}
"""They report that nobody could be asked."""


@pytest.fixture(scope="module")
def outcome(cluster: Daemon) -> dict[str, Any]:
    """What `foreign_use.py` prints."""
    program = [sys.executable, "-m", "tests.tcp.foreign_use", cluster.address, "foreign-use"]
    done = subprocess.run(
        program, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stderr
    outcome: dict[str, Any] = json.loads(done.stdout)
    return outcome


@pytest.mark.parametrize(("where", "why"), [("fork", "was forked from it: nothing"), ("loop", "in another event loop")])
def test_every_call_of_every_client_is_refused_by_name_before_anything_is_sent(
    outcome: dict[str, Any], where: str, why: str
) -> None:
    results: dict[str, str] = outcome[where]
    assert results.pop("requests") == "[]"
    assert len(results) > 50
    taken = {name: text for name, text in results.items() if not (text.startswith("IllegalOperation") and why in text)}
    assert taken.keys() == NEVER_FAIL


def test_processes_that_were_forked_never_repeat_the_ids_of_messages(outcome: dict[str, Any]) -> None:
    assert len(set(outcome["ids"])) == len(outcome["ids"]) == 6
    assert outcome["stored"] == 7  # those, and the transaction: nothing of the foreign calls
