"""The messages of a swarm; whole swarms run in tests/simulation/test_swarm.py."""

from __future__ import annotations

import pytest

from model.errors import ConfigError
from testbed.load.body import make_body
from testbed.swarm.members import SwarmOptions, parse_member_number
from traces.check.ledger import SentMessage


def test_a_body_has_room_for_the_number_of_its_message() -> None:
    needed = {"name_servers": "127.0.0.1:9876", "topic": "t", "group": "g", "prefix": "s"}
    assert SwarmOptions(run=1, body_bytes=20, **needed).body_bytes == 20  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="body_bytes must be 20 to"):
        SwarmOptions(run=1, body_bytes=19, **needed)  # type: ignore[arg-type]


def test_only_messages_of_the_run_have_a_number() -> None:
    body = make_body(SentMessage(3, 4), 64, run=7)
    assert parse_member_number(body, 7) == (3, 4)
    assert parse_member_number(body, 8) is None
    assert parse_member_number(b"short", 7) is None
