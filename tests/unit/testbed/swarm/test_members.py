"""The messages of a swarm; whole swarms run in tests/simulation/test_swarm.py."""

from __future__ import annotations

import pytest

from model.errors import ConfigError
from testbed.load.body import body_of
from testbed.swarm.members import SwarmOptions, number_in
from traces.check.ledger import Sent


def test_a_body_has_room_for_the_number_of_its_message() -> None:
    needed = {"name_servers": "127.0.0.1:9876", "topic": "t", "group": "g", "prefix": "s"}
    assert SwarmOptions(run=1, body_bytes=20, **needed).body_bytes == 20  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="body_bytes must be 20 to"):
        SwarmOptions(run=1, body_bytes=19, **needed)  # type: ignore[arg-type]


def test_only_messages_of_the_run_have_a_number() -> None:
    body = body_of(Sent(3, 4), 64, run=7)
    assert number_in(body, 7) == (3, 4)
    assert number_in(body, 8) is None
    assert number_in(b"short", 7) is None
