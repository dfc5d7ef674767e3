from __future__ import annotations

import re

import pytest

from broker.store.disk.options import MAX_SEGMENT_BYTES, StoreOptions


def test_the_defaults_are_those_that_the_documentation_states() -> None:
    options = StoreOptions()
    assert options.segment_bytes == options.tail_bytes == 64 * 1024 * 1024


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("segment_bytes", 0),
        ("segment_bytes", MAX_SEGMENT_BYTES + 1),
        ("segment_records", 0),
        ("segment_age_ms", 0),
        ("scan_records", 0),
        ("open_files", 0),
        ("tail_bytes", -1),
        ("index_cache_bytes", -1),
    ],
)
def test_a_size_that_cannot_work_is_refused_by_name(name: str, value: int) -> None:
    with pytest.raises(ValueError, match=re.escape(f"{name}={value}: must")):
        StoreOptions(**{name: value})


def test_the_limits_themselves_are_accepted() -> None:
    StoreOptions(segment_bytes=MAX_SEGMENT_BYTES, segment_records=1, tail_bytes=0, index_cache_bytes=0)
