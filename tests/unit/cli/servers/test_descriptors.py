"""Connections never get the descriptors that files need, whatever the limit of the process is."""

from __future__ import annotations

import logging
import resource

import pytest

from cli.servers.descriptors import connections_within_limits
from metrics.http import max_http_connections
from model.errors import ConfigError
from model.limits import (
    MAX_CONNECTIONS,
    MAX_CONNECTIONS_OF_ADDRESS,
    MAX_HTTP_CONNECTIONS,
    MIN_DESCRIPTORS,
    RESERVED_DESCRIPTORS,
)

NEEDED = MAX_CONNECTIONS + RESERVED_DESCRIPTORS
INFINITY = resource.RLIM_INFINITY


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The limits of the process, (soft, hard); the last entry counts."""
    limits: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda which: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda which, to: limits.append(to))
    return limits


def test_an_http_port_gets_its_own_part_and_takes_no_descriptor_of_files_or_connections(
    limits: list[tuple[int, int]],
) -> None:
    limits.append((1024, 1_000_000))
    assert connections_within_limits(http=True) == (MAX_CONNECTIONS, MAX_CONNECTIONS_OF_ADDRESS)
    assert limits[-1][0] == NEEDED + MAX_HTTP_CONNECTIONS
    for limit in (MIN_DESCRIPTORS, 1024, 4096):
        limits.append((limit, limit))
        fit = connections_within_limits(http=True)
        assert fit.max_connections + max_http_connections() + min(RESERVED_DESCRIPTORS, limit // 2) <= limit
        assert fit.max_connections >= limit // 4


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((1024, 1_000_000), (NEEDED, 1_000_000)),
        ((1024, INFINITY), (NEEDED, INFINITY)),
        ((NEEDED, NEEDED), (NEEDED, NEEDED)),
        ((INFINITY, INFINITY), (INFINITY, INFINITY)),
    ],
)
def test_a_limit_that_may_be_raised_is_and_all_connections_fit(
    limits: list[tuple[int, int]], before: tuple[int, int], after: tuple[int, int], caplog: pytest.LogCaptureFixture
) -> None:
    limits.append(before)
    assert connections_within_limits() == (MAX_CONNECTIONS, MAX_CONNECTIONS_OF_ADDRESS)
    assert limits[-1] == after
    assert caplog.messages == []


def test_with_a_low_limit_fewer_connections_are_taken_and_that_is_said(
    limits: list[tuple[int, int]], caplog: pytest.LogCaptureFixture
) -> None:
    limits.append((1024, 4096))
    with caplog.at_level(logging.WARNING):
        fit = 4096 - RESERVED_DESCRIPTORS
        assert connections_within_limits() == (fit, fit * 3 // 4), "one address leaves a quarter to others"
    assert limits[-1] == (4096, 4096)
    assert f"raise the limit with 'ulimit -n {NEEDED}'" in caplog.text


def test_the_lowest_limit_is_shared_by_files_and_connections_and_one_below_is_refused(
    limits: list[tuple[int, int]],
) -> None:
    limits.append((MIN_DESCRIPTORS, MIN_DESCRIPTORS))
    assert connections_within_limits() == (MIN_DESCRIPTORS // 2, MIN_DESCRIPTORS * 3 // 8)
    limits.append((MIN_DESCRIPTORS - 1, MIN_DESCRIPTORS - 1))
    with pytest.raises(
        ConfigError, match=f"needs {MIN_DESCRIPTORS} at least: raise the limit with 'ulimit -n {NEEDED}"
    ):
        connections_within_limits()
