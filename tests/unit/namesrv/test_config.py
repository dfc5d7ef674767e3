"""Options of a name server are checked when they are made."""

from __future__ import annotations

import pytest

from model.errors import ConfigError
from model.limits import MAX_CONNECTIONS
from namesrv.config import NameServerConfig


def test_a_name_server_is_reached_from_its_own_machine_only_unless_configured_otherwise() -> None:
    assert NameServerConfig().listen == "127.0.0.1:9876"


@pytest.mark.parametrize("max_connections", [1, MAX_CONNECTIONS])
def test_as_many_connections_as_the_limit_can_be_allowed(max_connections: int) -> None:
    assert NameServerConfig(max_connections=max_connections).max_connections == max_connections


@pytest.mark.parametrize("max_connections", [0, MAX_CONNECTIONS + 1])
def test_other_numbers_of_connections_are_refused(max_connections: int) -> None:
    with pytest.raises(ConfigError, match=f"must be 1 to {MAX_CONNECTIONS}, got {max_connections}"):
        NameServerConfig(max_connections=max_connections)


def test_a_negative_grace_is_refused() -> None:
    assert NameServerConfig(grace_s=0).grace_s == 0
    with pytest.raises(ConfigError, match="grace_s must not be negative, got -1"):
        NameServerConfig(grace_s=-1)
