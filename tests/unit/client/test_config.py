"""Options that cannot work are refused where they are given."""

from __future__ import annotations

import math
from typing import Any

import pytest

from client.config import ClientConfig, ServerDialect, wall_clock_ms
from client.trigger import Trigger
from model.errors import ConfigError, InvalidParameter
from model.limits import HEARTBEAT_INTERVAL_S, OFFSET_PERSIST_INTERVAL_S, ROUTE_POLL_INTERVAL_S
from model.quirks import Quirk


@pytest.mark.walk
def test_defaults_are_those_of_the_reference() -> None:
    config = ClientConfig(name_servers="127.0.0.1:9876")
    assert config.heartbeat_interval_s == HEARTBEAT_INTERVAL_S == 30
    assert config.route_poll_interval_s == ROUTE_POLL_INTERVAL_S == 30
    assert config.offset_persist_interval_s == OFFSET_PERSIST_INTERVAL_S == 5
    assert config.triggers == frozenset(Trigger)
    assert config.instance_name is None


@pytest.mark.parametrize("name_servers", ["", "nowhere", "host:", ":1", "host:99999", [], ["a:1", "b"]])
def test_a_malformed_name_server_is_refused(name_servers: str | list[str]) -> None:
    with pytest.raises(ConfigError):
        ClientConfig(name_servers=name_servers)


@pytest.mark.parametrize("name", ["", "with space", "x" * 300, "new\nline"])
def test_an_instance_name_or_host_that_cannot_be_part_of_a_client_id_is_refused(name: str) -> None:
    with pytest.raises(InvalidParameter, match="instance name"):
        ClientConfig(name_servers="a:1", instance_name=name)
    with pytest.raises(InvalidParameter, match="client ip"):
        ClientConfig(name_servers="a:1", client_ip=name)


def test_two_configs_have_randomness_of_their_own() -> None:
    first, second = (ClientConfig(name_servers="a:1").rng for _ in range(2))
    assert first is not second
    assert first.random() != second.random()


def test_the_wall_clock_is_in_milliseconds() -> None:
    assert wall_clock_ms() > 1_700_000_000_000


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf])
@pytest.mark.parametrize(
    "name", ["heartbeat_interval_s", "route_poll_interval_s", "offset_persist_interval_s", "request_timeout_s"]
)
def test_an_interval_that_would_spin_or_never_end_is_refused_by_name(name: str, value: float) -> None:
    options: dict[str, Any] = {name: value}
    with pytest.raises(ConfigError, match=rf"{name} must be above 0 .* got {value}"):
        ClientConfig(name_servers="a:1", **options)


def test_a_quirk_of_brokers_is_refused() -> None:
    assert ClientConfig(name_servers="a:1", quirks=frozenset({Quirk.RANDOM_VIEW})).quirks
    with pytest.raises(ConfigError, match="SILENT_EXPIRY belongs to brokers"):
        ClientConfig(name_servers="a:1", quirks=frozenset({Quirk.SILENT_EXPIRY}))


def test_a_dialect_is_a_known_one_and_clients_of_rocketmq_write_no_trace() -> None:
    assert ClientConfig(name_servers="h:1").trace
    config = ClientConfig(name_servers="h:1", dialect="rocketmq")  # type: ignore[arg-type]  # text, as users write it
    assert (config.dialect, config.trace) == (ServerDialect.ROCKETMQ, False)
    with pytest.raises(ConfigError, match="dialect must be one of rlab, rocketmq, auto; got 'kafka'"):
        ClientConfig(name_servers="h:1", dialect="kafka")  # type: ignore[arg-type]  # as users may write it


@pytest.mark.parametrize(
    ("option", "wrong", "what"),
    [
        ("quirks", None, "a set of Quirk, got None"),
        ("triggers", 5, "a set of Trigger, got 5"),
        ("trace", "yes", "True or False, got 'yes'"),
        ("event_sink", "print", "a function of an event, got 'print'"),
        ("key", "user:secret", "a Key, got"),
        ("clock_ms", 5, "a function that returns milliseconds, got 5"),
        ("rng", 5, "a random.Random, got 5"),
    ],
)
def test_an_option_of_a_wrong_type_is_refused_by_name(option: str, wrong: Any, what: str) -> None:
    with pytest.raises(ConfigError, match=f"{option} must be {what}"):
        ClientConfig(name_servers="a:1", **{option: wrong})
