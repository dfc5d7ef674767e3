"""Every option of a consumer has a range, and a misspelt one is found out."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from client.config import ClientConfig
from client.options import (
    _RANGES,
    ConsumerOptions,
    LitePullOptions,
    MemberOptions,
    check_option_names,
    split_options,
)
from model.assignment import AssignedBy
from model.errors import ConfigError
from model.heartbeat import ConsumeFrom, MessageModel

pytestmark = pytest.mark.walk


@pytest.mark.parametrize(("name", "low", "high"), _RANGES)
def test_the_ends_of_a_range_are_allowed_and_what_is_past_them_is_not(name: str, low: float, high: float) -> None:
    kind = LitePullOptions if name in ("poll_batch", "auto_commit_interval_s") else ConsumerOptions
    option: dict[str, Any] = {name: low}
    kind(**option)
    option[name] = high
    kind(**option)
    for value in (low - 0.001 if isinstance(low, float) else low - 1, high + 1):
        option[name] = value
        with pytest.raises(ConfigError, match=f"{name} must be {low} to {high}, got {value}"):
            kind(**option)


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
    client, consumer = split_options(ConsumerOptions, "a:1", {"heartbeat_interval_s": 7.0, "max_workers": 3})
    assert (client.heartbeat_interval_s, consumer.max_workers) == (7.0, 3)
    assert client.name_servers == "a:1"


@pytest.mark.parametrize(
    ("name", "hint"), [("max_worker", "did you mean 'max_workers'"), ("xyzzy", "'xyzzy'$"), ("name_servers", "unknown")]
)
def test_an_unknown_option_is_refused_with_the_nearest_known_one(name: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=hint):
        split_options(ConsumerOptions, "a:1", {name: 1})


def test_a_producer_knows_no_options_of_consumers() -> None:
    with pytest.raises(ConfigError, match="unknown option 'max_workers'"):
        check_option_names({"max_workers": 1}, ClientConfig)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"poll_batch": 0}, "poll_batch must be 1 to 65535"),
        ({"poll_batch": 1.5}, "poll_batch must be a whole number, got 1.5"),
        ({"session_timeout_s": "5"}, "session_timeout_s must be a number of seconds, got '5'"),
        ({"request_timeout_s": "5"}, "request_timeout_s must be above 0 .* got '5'"),
        ({"auto_commit_interval_s": 0.5}, "auto_commit_interval_s must be 1 to 3600"),
        ({"pull_batch": 0}, "pull_batch must be 1 to"),
        ({"max_queue_span": 0}, "max_queue_span must be 1 to"),
        ({"consume_from": ConsumeFrom.TIMESTAMP}, "consume_timestamp_ms"),
        ({"model": "BROADCASTING"}, "model must be a MessageModel"),
        ({"model": MessageModel.BROADCASTING}, "needs an instance_name"),
        ({"max_workers": 3}, "unknown option 'max_workers'"),
        ({"poll_batches": 3}, "did you mean 'poll_batch'"),
        ({"request_timeout_s": 0}, "request_timeout_s"),
    ],
)
def test_what_a_lite_pull_consumer_cannot_work_with_is_refused_by_name(options: dict[str, Any], what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        split_options(LitePullOptions, "127.0.0.1:1", options)


def test_options_reach_the_client_and_what_brings_the_messages() -> None:
    config, own = split_options(
        LitePullOptions, "127.0.0.1:1", {"instance_name": "x", "max_queue_count": 7, "auto_commit": False}
    )
    assert config.instance_name == "x"
    assert (own.auto_commit, own.of_member().max_queue_count) == (False, 7)
    assert own.of_member().auto_commit, "what a push consumer means by it is something else"


def test_options_of_both_kinds_of_consumers_have_the_same_defaults() -> None:
    shared, push, lite = (
        {f.name: f.default for f in fields(each)} for each in (MemberOptions, ConsumerOptions, LitePullOptions)
    )
    assert shared.items() <= push.items()
    assert shared.items() <= lite.items()
    assert push.keys() & lite.keys() - shared.keys() == {"auto_commit"}


@pytest.mark.parametrize("options", [{"assignment": AssignedBy.BROKER}, {"rejoin_within_s": 5.0}])
def test_what_only_servers_of_this_project_do_is_refused_with_those_of_rocketmq(options: dict[str, Any]) -> None:
    split_options(ConsumerOptions, "h:1", options)
    with pytest.raises(ConfigError, match="not there with servers of RocketMQ"):
        split_options(ConsumerOptions, "h:1", {"dialect": "rocketmq", **options})


def test_a_member_in_order_counts_on_a_lock_of_rocketmq_for_half_a_minute_at_most() -> None:
    for order, expected in (("none", 90), ("queue", 30), ("key", 30)):
        options = {"dialect": "rocketmq", "order": order, "session_timeout_s": 90}
        assert split_options(ConsumerOptions, "h:1", options)[1].session_timeout_s == expected
    options = {"dialect": "rocketmq", "order": "queue", "session_timeout_s": 10}
    assert split_options(ConsumerOptions, "h:1", options)[1].session_timeout_s == 10


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"retry_delay_ms": "5"}, "retry_delay_ms must be a whole number from 0 to"),
        ({"retry_delay_ms": 1.5}, "retry_delay_ms must be a whole number from 0 to"),
        ({"consume_timestamp_ms": "5"}, "consume_timestamp_ms must be a whole number, got '5'"),
        ({"consume_timestamp_ms": None}, "consume_timestamp_ms must be a whole number, got None"),
        ({"offsets_dir": None}, "offsets_dir must be a path, got None"),
    ],
)
def test_an_option_of_a_wrong_type_is_refused_by_name(options: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        ConsumerOptions(**options)
