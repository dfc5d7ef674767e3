from __future__ import annotations

import pytest

from broker.retention.plan import RetentionOptions
from broker.store.disk.options import StoreOptions
from cli.servers.options import (
    RETAIN_AGE,
    SEGMENT_AGE,
    SEGMENT_SIZE,
    UNLIMITED,
    make_retention,
    make_store_options,
    parse_bytes,
    parse_milliseconds,
)
from model.errors import ConfigError


def test_the_defaults_of_the_flags_are_those_of_the_records() -> None:
    assert make_retention(RETAIN_AGE, UNLIMITED, UNLIMITED) == RetentionOptions()
    assert make_store_options(SEGMENT_SIZE, SEGMENT_AGE) == StoreOptions()


def test_every_limit_can_be_set_and_lifted() -> None:
    assert make_retention("7d", "1GiB", "2GiB") == RetentionOptions(
        retain_ms=7 * 24 * 3600 * 1000, retain_bytes=2**30, retain_bytes_max=2**31
    )
    assert make_retention(UNLIMITED, UNLIMITED, UNLIMITED) == RetentionOptions(retain_ms=None)
    assert make_store_options("1MiB", "1h") == StoreOptions(segment_bytes=2**20, segment_age_ms=3_600_000)


@pytest.mark.parametrize(("size", "age"), [(UNLIMITED, "1h"), ("1MiB", UNLIMITED), ("3GiB", "1h"), ("0", "1h")])
def test_segments_that_cannot_be_are_refused(size: str, age: str) -> None:
    with pytest.raises(ConfigError, match="--segment-size"):
        make_store_options(size, age)


def test_limits_that_cannot_be_are_refused() -> None:
    with pytest.raises(ConfigError, match="hard limit"):
        make_retention("1h", "2GiB", "1GiB")
    with pytest.raises(ConfigError, match="retain_ms=0"):
        make_retention("0s", UNLIMITED, UNLIMITED)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1", 1),
        ("1KiB", 1024),
        ("10 gib", 10 * 2**30),
        ("1.5MiB", 3 * 2**19),
        ("2GB", 2 * 10**9),
        ("1TiB", 2**40),
        ("unlimited", None),
        (" Unlimited ", None),
    ],
)
def test_sizes_are_read_as_people_write_them(text: str, size: int | None) -> None:
    assert parse_bytes("--retain-size", text) == size


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [("500ms", 500), ("30s", 30_000), ("15m", 900_000), ("72h", 259_200_000), ("7d", 604_800_000), ("unlimited", None)],
)
def test_times_are_read_as_people_write_them(text: str, time_ms: int | None) -> None:
    assert parse_milliseconds("--retain-age", text) == time_ms


@pytest.mark.parametrize("text", ["", "ten", "-1GiB", "1 GiB 2", "1e3", "5h", "nan", "1.GiB"])
def test_what_is_not_a_size_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--retain-size .* must be a size such as 512MiB or 10GiB, or unlimited"):
        parse_bytes("--retain-size", text)


@pytest.mark.parametrize("text", ["72", "3 weeks", "-1h", "5GiB"])
def test_what_is_not_a_time_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--retain-age .* must be a time such as 30m, 72h or 7d, or unlimited"):
        parse_milliseconds("--retain-age", text)
