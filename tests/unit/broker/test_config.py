"""Options of a broker that cannot be are refused before anything is opened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker.config import RESTORE_GRACE_S, BrokerConfig, wall_clock_ms
from model.errors import ConfigError, InvalidParameter
from model.limits import MAX_CONNECTIONS, RECONNECT_MAX_S


def config(**options: Any) -> BrokerConfig:
    return BrokerConfig(**{"name": "broker-a", "data_dir": Path("data"), **options})


def test_a_name_and_a_directory_are_enough() -> None:
    made = config()
    assert made.listen == "127.0.0.1:10911"
    assert made.register_interval_s < made.expiry_s
    assert made.clock_ms is wall_clock_ms


def test_members_of_an_earlier_run_get_longer_than_their_longest_wait() -> None:
    assert RESTORE_GRACE_S > RECONNECT_MAX_S


def test_the_wall_clock_is_milliseconds() -> None:
    assert 1.7e12 < wall_clock_ms() < 4e12


@pytest.mark.parametrize("options", [{"name": ""}, {"name": "broker a"}, {"cluster": "clüster"}])
def test_names_that_could_not_be_sorted_or_sent_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter, match="name"):
        config(**options)


@pytest.mark.parametrize("options", [{"listen": "10911"}, {"advertise": "here"}, {"name_servers": ("a:9876", "b")}])
def test_an_address_that_is_none_is_refused_at_once_and_not_tried_for_ever(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="write host:port"):
        config(**options)


@pytest.mark.parametrize(
    ("register_interval_s", "expiry_s", "legal"),
    [(30, 120, True), (30, 30.1, True), (30, 30, False), (0, 120, False), (30, 86_400, True), (30, 86_401, False)],
)
def test_a_broker_registers_more_often_than_it_expires_and_expires_within_a_day(
    register_interval_s: float, expiry_s: float, legal: bool
) -> None:
    options = {"register_interval_s": register_interval_s, "expiry_s": expiry_s}
    if legal:
        config(**options)
    else:
        with pytest.raises(ConfigError, match=r"register_interval_s|at most 86400 s"):
            config(**options)


@pytest.mark.parametrize("options", [{"broker_id": -1}, {"restore_grace_s": -0.1}])
def test_negative_numbers_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="must not be negative"):
        config(**options)
    config(**dict.fromkeys(options, 0))


@pytest.mark.parametrize("max_connections", [0, MAX_CONNECTIONS + 1])
def test_other_numbers_of_connections_are_refused(max_connections: int) -> None:
    with pytest.raises(ConfigError, match=f"must be 1 to {MAX_CONNECTIONS}, got {max_connections}"):
        config(max_connections=max_connections)
    assert config(max_connections=1).max_connections == 1
