from __future__ import annotations

import pytest

from cli.testbed.bench import PEER_NAMES, PEERS
from testbed.bench.peers.systems import registry
from testbed.bench.peers.systems.protocol import LATENCY
from testbed.bench.peers.systems.registry import SERVERS, SYSTEMS, choose, missing, settings_of


def test_the_command_offers_exactly_the_servers_and_measurements_that_there_are() -> None:
    assert SERVERS == PEERS
    measured = {LATENCY if name.startswith(LATENCY) else name for name in PEER_NAMES}
    assert measured == SYSTEMS["rlab"].measurements
    assert all(system.measurements <= SYSTEMS["rlab"].measurements for system in SYSTEMS.values())


def test_everything_that_a_peer_lacks_is_named() -> None:
    lacks = missing(SYSTEMS["aiokafka"], lambda name: False, lambda name: False, lambda: False)
    assert lacks == ["the Python module aiokafka", "the program java", "Kafka's jars"]
    assert missing(SYSTEMS["aiokafka"], lambda name: True, lambda name: True, lambda: True) == []


def test_redis_in_its_slow_form_is_not_measured() -> None:
    assert missing(SYSTEMS["redis-py"], lambda name: name != "hiredis", lambda name: True) == [
        "the Python module hiredis"
    ]


def test_a_peer_that_is_not_installed_is_left_out_with_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "missing", lambda system: ["the program x"] if system.server == "nats" else [])
    chosen, notes = choose(["nats", "redis"])
    assert [system.name for system in chosen] == ["redis-py"]
    assert notes == ["nats-py is left out: the program x is missing (make peers installs it)"]


def test_settings_are_named_for_ours_too() -> None:
    (line,) = settings_of([])
    assert line.startswith("rlab: ")
    assert "flush async" in line
