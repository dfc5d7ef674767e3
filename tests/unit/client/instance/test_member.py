"""The states of a client carry RocketMQ's names."""

from __future__ import annotations

from client.instance.member import ServiceState


def test_a_state_reads_as_its_name_in_an_error() -> None:
    assert [f"{state}" for state in ServiceState] == ["CREATE_JUST", "RUNNING", "SHUTDOWN_ALREADY", "START_FAILED"]
