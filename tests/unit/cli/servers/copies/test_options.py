"""The options about copies have to fit together."""

from __future__ import annotations

from typing import Any

import pytest

from cli.servers.copies.options import CopiesGiven
from model.errors import ConfigError
from model.replica_set import Acks


def given(**options: Any) -> CopiesGiven:
    return CopiesGiven(
        **{"copies": None, "acks": None, "min_in_sync": None, "replica_lease": None, "replica_of": None, **options}
    )


def test_a_broker_without_these_options_has_no_copies() -> None:
    given().check()
    assert not given().any


@pytest.mark.parametrize(
    "options",
    [{"copies": 2}, {"copies": 3, "acks": Acks.MASTER, "min_in_sync": 3}, {"replica_of": "broker-a"}],
)
def test_a_set_is_made_or_joined(options: dict[str, Any]) -> None:
    given(**options).check()
    assert given(**options).any


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"acks": Acks.ALL}, "--copies"),
        ({"min_in_sync": 1}, "--copies"),
        ({"replica_lease": 3.0}, "--copies"),
        ({"replica_of": "broker-a", "copies": 2}, "--replica-of"),
        ({"replica_of": "broker-a", "acks": Acks.ALL}, "--replica-of"),
        ({"copies": 2, "min_in_sync": 3}, "--min-in-sync 3"),
    ],
)
def test_options_that_contradict_each_other_are_named(options: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        given(**options).check()
