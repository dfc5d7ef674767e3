from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from client.lite_pull.options import LitePullOptions, split_lite_options
from client.options import ConsumerOptions
from model.errors import ConfigError
from model.heartbeat import ConsumeFrom, MessageModel


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"poll_batch": 0}, "poll_batch must be 1 to 65535"),
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
def test_what_cannot_work_is_refused_by_name(options: dict[str, Any], what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        split_lite_options("127.0.0.1:1", options)


def test_options_reach_the_client_and_what_brings_the_messages() -> None:
    config, own = split_lite_options("127.0.0.1:1", {"instance_name": "x", "max_queue_count": 7, "auto_commit": False})
    assert config.instance_name == "x"
    assert (own.auto_commit, own.of_share().max_queue_count) == (False, 7)
    assert own.of_share().auto_commit, "what a push consumer means by it is something else"


def test_options_of_both_kinds_of_consumers_have_the_same_defaults() -> None:
    push = {field.name: field.default for field in fields(ConsumerOptions)}
    assert {
        f.name: f.default for f in fields(LitePullOptions) if f.name in push and f.name != "auto_commit"
    }.items() <= (push.items())
