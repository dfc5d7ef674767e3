"""Every option of a consumer has a range, and a misspelt one is found out."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from client.config import ClientConfig
from client.options import _RANGES, ConsumerOptions, check_option_names, split_options
from model.errors import ConfigError
from model.heartbeat import ConsumeFrom


@pytest.mark.parametrize(("name", "low", "high"), _RANGES)
def test_the_ends_of_a_range_are_allowed_and_what_is_past_them_is_not(name: str, low: float, high: float) -> None:
    option: dict[str, Any] = {name: low}
    ConsumerOptions(**option)
    option[name] = high
    ConsumerOptions(**option)
    for value in (low - 0.001 if isinstance(low, float) else low - 1, high + 1):
        option[name] = value
        with pytest.raises(ConfigError, match=f"{name} must be {low} to {high}, got {value}"):
            ConsumerOptions(**option)


def test_an_order_by_key_that_no_broker_keeps_is_refused_with_what_to_use_instead() -> None:
    ConsumerOptions(mode="pop", order="queue")
    ConsumerOptions(mode="pull", order="key")
    ConsumerOptions(assignment="broker", order="key")
    with pytest.raises(ConfigError, match=r"choose order='queue' for that, or mode='pull' with order='key'"):
        ConsumerOptions(mode="pop", order="key")


def test_every_number_has_a_range() -> None:
    numbers = {field.name for field in fields(ConsumerOptions) if field.name.startswith(("max_", "consume_batch"))}
    assert numbers <= {name for name, _, _ in _RANGES}


def test_a_timestamp_needs_its_time() -> None:
    with pytest.raises(ConfigError, match="consume_timestamp_ms"):
        ConsumerOptions(consume_from=ConsumeFrom.TIMESTAMP)
    ConsumerOptions(consume_from=ConsumeFrom.TIMESTAMP, consume_timestamp_ms=1)


@pytest.mark.parametrize("value", ["FIRST_OFFSET", "first", None])
def test_a_place_to_start_from_that_is_not_one_is_refused_at_once(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"consume_from must be a ConsumeFrom, got"):
        ConsumerOptions(consume_from=value)


def test_options_are_sorted_into_those_of_the_instance_and_those_of_the_consumer() -> None:
    client, consumer = split_options("a:1", {"heartbeat_interval_s": 7.0, "max_workers": 3})
    assert (client.heartbeat_interval_s, consumer.max_workers) == (7.0, 3)
    assert client.name_servers == "a:1"


@pytest.mark.parametrize(
    ("name", "hint"), [("max_worker", "did you mean 'max_workers'"), ("xyzzy", "'xyzzy'$"), ("name_servers", "unknown")]
)
def test_an_unknown_option_is_refused_with_the_nearest_known_one(name: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=hint):
        split_options("a:1", {name: 1})


def test_a_producer_knows_no_options_of_consumers() -> None:
    with pytest.raises(ConfigError, match="unknown option 'max_workers'"):
        check_option_names({"max_workers": 1}, ClientConfig)
