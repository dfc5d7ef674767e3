"""Options of the sink: defaults, and errors that name the option."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from model.errors import ConfigError
from pipeline.sink.options import SINK_OPTIONS, DeliveryGuarantee, Partitioning, parse_sink_options


def test_only_the_name_server_has_to_be_given() -> None:
    options = parse_sink_options({"nameserver": "127.0.0.1:1"})
    assert (options.topic, options.delivery, options.partitioning) == (
        *(None, DeliveryGuarantee.AT_LEAST_ONCE),
        Partitioning.KEY_HASH,
    )


def test_what_is_for_spark_is_passed_over() -> None:
    options = parse_sink_options(
        {"nameServer": "h:1", "checkpointLocation": "/c", "topic": "t", "delivery": "ExactlyOnce"}
    )
    assert (options.topic, options.delivery) == ("t", DeliveryGuarantee.EXACTLY_ONCE)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({}, "option nameServer is missing"),
        ({"nameServer": "nowhere"}, "option nameServer:"),
        ({"nameServer": "h:1", "topic": "a b"}, "option topic:"),
        ({"nameServer": "h:1", "delivery": "once"}, "option delivery: 'once' is not one of atLeastOnce, exactlyOnce"),
        ({"nameServer": "h:1", "partitioner": "x"}, "not one of keyHash, roundRobin, queueId"),
        ({"nameServer": "h:1", "sendTimeoutMs": "0"}, "option sendTimeoutMs:"),
        ({"nameServer": "h:1", "subscribe": "t"}, "the rlab sink has no option 'subscribe'"),
        ({"nameServer": "h:1", "headers": "x"}, "no option 'headers': each row has its own; write column properties"),
        ({"nameServer": "h:1", "includeHeaders": "true"}, "each row has its own; write column properties"),
        ({"nameServer": "h:1", "key": "k"}, "no option 'key': each row has its own; write column key"),
    ],
)
def test_a_wrong_option_is_an_error_that_names_it(options: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(why)):
        parse_sink_options(options)


@pytest.mark.walk
def test_the_page_has_every_option_in_this_order() -> None:
    page = (Path(__file__).resolve().parents[4] / "docs" / "spark-sink.md").read_text(encoding="utf-8")
    table = page.split("| option |", 1)[1].split("\n## ", 1)[0]
    assert tuple(re.findall(r"^\| `(\w+)`", table, re.MULTILINE)) == SINK_OPTIONS
