from __future__ import annotations

from pathlib import Path

import pytest

from model.errors import ConfigError
from model.limits import MAX_EXPRESSION_CHARS
from model.message_queue import MessageQueue
from model.sql.compiled import compile_filter
from pipeline.source.offsets import EARLIEST, LATEST
from pipeline.source.options import OPTIONS, SourceOptions, parse_duration_s, parse_options

BASE = {"nameserver": "127.0.0.1:9876", "subscribe": "t"}


def parse(**options: str) -> SourceOptions:
    return parse_options({**BASE, **options}, streaming=False)


def parse_stream(**options: str) -> SourceOptions:
    return parse_options({**BASE, **options}, streaming=True)


def test_the_defaults_are_those_of_the_table() -> None:
    batch, stream = parse(), parse_stream()
    assert (batch.start.default, batch.end.default) == (EARLIEST, LATEST)
    assert stream.start.default == LATEST
    assert batch.topics == ("t",)
    assert batch.tags is None
    assert batch.fail_on_data_loss
    assert batch.include_body
    assert not batch.include_properties
    assert not batch.filter_pushdown
    assert stream.max_trigger_delay_s == 900


def test_names_of_options_are_read_in_any_case() -> None:
    assert parse_stream(startingOFFSETS="latest").start.default == LATEST


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"nameserver": "nowhere"}, "option nameServer: .*not an address"),
        ({"startingOffset": "latest"}, "no option 'startingoffset': did you mean startingOffsets"),
        ({"zzz": "1"}, "known are nameServer"),
        ({"assign": '{"t": {"a": [0]}}'}, "got subscribe and assign"),
        ({"subscribe": "a b"}, "option subscribe: topic name 'a b'"),
        ({"startingOffsets": "latest"}, "reads nothing"),
        ({"startingOffsets": '{"t": {"a": {"0": -1}}}'}, "reads nothing"),
        ({"endingOffsets": "earliest"}, "reads nothing"),
        ({"endingOffsets": '{"t": {"a": {"0": -2}}}'}, "reads nothing"),
        ({"endingOffsets": "soon"}, "option endingOffsets: earliest, latest or JSON wanted"),
        ({"startingTimestamp": "yesterday"}, "option startingTimestamp: .*whole number"),
        (
            {"startingOffsetsByTimestampStrategy": "guess"},
            "ByTimestampStrategy: .guess. is not one of error, latest",
        ),
        ({"maxOffsetsPerTrigger": "10"}, "maxOffsetsPerTrigger is for a stream"),
        ({"minPartitions": "0"}, "option minPartitions: .*from 1 to"),
        ({"pullBatchSize": "100000"}, "option pullBatchSize: .*from 1 to 1024"),
        ({"failOnDataLoss": "yes"}, "option failOnDataLoss: .*neither true nor false"),
        ({"tags": "||"}, "option tags: .*names no tag"),
        ({"groupId": "DEFAULT_CONSUMER"}, "option groupId: .*reserved"),
    ],
)
def test_a_wrong_option_is_named_and_explained(options: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        parse(**options)


def test_what_is_read_and_where_from_has_to_be_said() -> None:
    with pytest.raises(ConfigError, match="nameServer is missing"):
        parse_options({"subscribe": "t"}, streaming=False)
    with pytest.raises(ConfigError, match="give one of subscribe, subscribePattern, assign; got none"):
        parse_options({"nameServer": "a:1"}, streaming=False)
    with pytest.raises(ConfigError, match="option subscribePattern"):
        parse_options({"nameServer": "a:1", "subscribePattern": "("}, streaming=False)


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "filterPushdown"])
def test_a_stream_refuses_what_only_a_batch_has(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} is for a batch read"):
        parse_stream(**{name: "1"})


TIMES = '{"t": {"a": {"0": 7}}}'


def test_a_timestamp_wins_over_offsets() -> None:
    start = parse(startingTimestamp="5", startingOffsets="earliest").start
    assert (start.timestamp_ms, start.or_latest) == (5, False)
    end = parse(endingTimestamp="6", endingOffsets='{"t": {"a": {"0": 1}}}').end
    assert (end.timestamp_ms, end.or_latest, end.offsets) == (6, True, {})


@pytest.mark.parametrize(
    ("options", "repeatable"),
    [
        ({}, False),
        ({"startingOffsets": "earliest"}, True),
        ({"startingOffsets": '{"t": {"a": {"0": 7}}}'}, True),
        ({"startingOffsets": '{"t": {"a": {"0": -1}}}'}, False),
        ({"startingTimestamp": "5"}, True),
        ({"startingTimestamp": "5", "startingOffsetsByTimestampStrategy": "latest"}, False),
        ({"startingOffsetsByTimestamp": TIMES, "startingOffsets": "earliest"}, True),
        ({"startingOffsetsByTimestamp": TIMES, "startingTimestamp": "5"}, True),
        ({"startingOffsetsByTimestamp": TIMES}, False),
        ({"startingOffsetsByTimestamp": TIMES, "startingOffsetsByTimestampStrategy": "latest"}, False),
        ({"startingGroup": "billing", "startingOffsets": "earliest"}, False),
    ],
)
def test_a_start_that_moves_with_the_end_of_the_queue_is_known_as_such(
    options: dict[str, str], repeatable: bool
) -> None:
    assert parse_stream(**options).start.is_repeatable is repeatable


def test_queues_that_are_not_named_in_starting_offsets_begin_at_the_beginning() -> None:
    start = parse_stream(startingOffsets='{"t": {"a": {"0": 7}}}').start
    assert (start.default, start.offsets) == (EARLIEST, {MessageQueue("t", "a", 0): 7})


@pytest.mark.parametrize(
    ("text", "seconds"), [("500ms", 0.5), ("10s", 10), ("15m", 900), ("1.5 h", 5400), ("2 days", 172_800)]
)
def test_times_are_read_with_their_unit(text: str, seconds: float) -> None:
    assert parse_duration_s(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5 minutes", 300), ("1 Minute 30 seconds", 90), ("interval 2 hours", 7200), ("1h30m", 5400), ("10 sec", 10)],
)
def test_times_are_read_as_spark_writes_its_intervals(text: str, seconds: float) -> None:
    assert parse_stream(maxTriggerDelay=text).max_trigger_delay_s == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["15", "", "minutes", "5 fortnights", "5 minutes or so", "-5 minutes", "5 minutes 3"])
def test_a_time_without_a_number_or_a_unit_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=f"option maxTriggerDelay: '{text}' is not a time: write .* or 5 minutes"):
        parse_stream(maxTriggerDelay=text)


@pytest.mark.walk
def test_every_option_has_its_row_in_the_documentation() -> None:
    page = (Path(__file__).resolve().parents[4] / "docs" / "spark-source.md").read_text(encoding="utf-8")
    assert [name for name in OPTIONS if f"| `{name}` |" not in page] == []


def test_a_filter_is_checked_and_brokers_get_it_with_the_tags() -> None:
    with pytest.raises(ConfigError, match=r"option filter: .*at its end"):
        parse(filter="price >")
    assert (parse(filter="price > 10").broker_filter, parse().broker_filter) == ("price > 10", None)
    both = parse(filter="price > 10 OR vip = TRUE", tags="red || it's")
    assert both.broker_filter == "TAGS IN ('it''s', 'red') AND (price > 10 OR vip = TRUE)"
    compile_filter(both.broker_filter)
    longest = "a = 1" + " OR a = 1" * (MAX_EXPRESSION_CHARS // 9 - 1)
    assert parse(filter=longest, tags="red").broker_filter == longest  # the tags are left to the tasks


@pytest.mark.parametrize(("options", "filtered"), [({}, False), ({"tags": "a"}, True), ({"filter": "a = 1"}, True)])
def test_with_tags_or_a_filter_a_missing_offset_is_not_damage(options: dict[str, str], filtered: bool) -> None:
    assert parse(**options).is_filtered is filtered
