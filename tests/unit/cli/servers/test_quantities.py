from __future__ import annotations

import pytest

from cli.servers.quantities import bytes_of, milliseconds_of
from model.errors import ConfigError


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
    assert bytes_of("--retain-size", text) == size


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [("500ms", 500), ("30s", 30_000), ("15m", 900_000), ("72h", 259_200_000), ("7d", 604_800_000), ("unlimited", None)],
)
def test_times_are_read_as_people_write_them(text: str, time_ms: int | None) -> None:
    assert milliseconds_of("--retain-age", text) == time_ms


@pytest.mark.parametrize("text", ["", "ten", "-1GiB", "1 GiB 2", "1e3", "5h", "nan", "1.GiB"])
def test_what_is_no_size_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--retain-size .* must be a size such as 512MiB or 10GiB, or unlimited"):
        bytes_of("--retain-size", text)


@pytest.mark.parametrize("text", ["72", "3 weeks", "-1h", "5GiB"])
def test_what_is_no_time_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--retain-age .* must be a time such as 30m, 72h or 7d, or unlimited"):
        milliseconds_of("--retain-age", text)
