from __future__ import annotations

import pytest

from broker.retention.plan import RetentionOptions
from broker.store.disk.options import StoreOptions
from cli.servers.options import RETAIN_AGE, SEGMENT_AGE, SEGMENT_SIZE, retention_of, store_of
from cli.servers.quantities import UNLIMITED
from model.errors import ConfigError


def test_the_defaults_of_the_flags_are_those_of_the_records() -> None:
    assert retention_of(RETAIN_AGE, UNLIMITED, UNLIMITED) == RetentionOptions()
    assert store_of(SEGMENT_SIZE, SEGMENT_AGE) == StoreOptions()


def test_every_limit_can_be_set_and_lifted() -> None:
    assert retention_of("7d", "1GiB", "2GiB") == RetentionOptions(
        retain_ms=7 * 24 * 3600 * 1000, retain_bytes=2**30, retain_bytes_max=2**31
    )
    assert retention_of(UNLIMITED, UNLIMITED, UNLIMITED) == RetentionOptions(retain_ms=None)
    assert store_of("1MiB", "1h") == StoreOptions(segment_bytes=2**20, segment_age_ms=3_600_000)


@pytest.mark.parametrize(("size", "age"), [(UNLIMITED, "1h"), ("1MiB", UNLIMITED), ("3GiB", "1h"), ("0", "1h")])
def test_segments_that_cannot_be_are_refused(size: str, age: str) -> None:
    with pytest.raises(ConfigError, match="--segment-size"):
        store_of(size, age)


def test_limits_that_cannot_be_are_refused() -> None:
    with pytest.raises(ConfigError, match="hard limit"):
        retention_of("1h", "2GiB", "1GiB")
    with pytest.raises(ConfigError, match="retain_ms=0"):
        retention_of("0s", UNLIMITED, UNLIMITED)
