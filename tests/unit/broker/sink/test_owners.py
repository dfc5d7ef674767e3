"""Whose a query of a sink is, over restarts of its broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.durability.metadata import MetadataStore
from broker.sink.owners import QueryOwners
from model.access_limits import MAX_QUERIES_OF_USER
from model.limits import LAST_BATCH_KEPT_S


@pytest.fixture
def metadata(tmp_path: Path) -> Iterator[MetadataStore]:
    with MetadataStore(tmp_path) as opened:
        yield opened


def test_a_query_is_its_users_over_restarts_as_long_as_its_last_batch_is_remembered(metadata: MetadataStore) -> None:
    now_ms = 0.0

    def clock_ms() -> float:
        return now_ms

    QueryOwners(metadata, clock_ms, is_kept=True).used("q", "user etl")
    metadata.commit()
    owners = QueryOwners(metadata, clock_ms, is_kept=True)
    assert owners.owner_of("query q") == "user etl"
    assert owners.owner_of("q") is None  # a client may be called so
    now_ms = LAST_BATCH_KEPT_S * 1000
    owners.used("p", "user etl")
    assert owners.owner_of("query q") == "user etl"
    owners.used("q", "user etl")
    now_ms *= 2
    owners.used("r", "user etl")
    assert owners.owner_of("query q") == "user etl"
    now_ms *= 2
    owners.used("r", "user etl")
    metadata.commit()
    for each in (owners, QueryOwners(metadata, clock_ms, is_kept=True)):
        assert [each.owner_of(f"query {name}") for name in "pqr"] == [None, None, "user etl"]


def test_a_user_with_too_many_queries_loses_its_oldest_and_takes_no_room_of_others(metadata: MetadataStore) -> None:
    owners = QueryOwners(metadata, lambda: 0, is_kept=True)
    owners.used("q", "user etl")
    for n in range(MAX_QUERIES_OF_USER):
        owners.used(f"m{n}", "user mallory")
    assert owners.owner_of("query m0") == "user mallory"
    owners.used("one more", "user mallory")
    assert owners.owner_of("query m0") is None
    assert owners.owner_of("query m1") == owners.owner_of("query one more") == "user mallory"
    assert owners.owner_of("query q") == "user etl"


def test_without_access_control_a_query_is_no_ones(metadata: MetadataStore) -> None:
    owners = QueryOwners(metadata, lambda: 0, is_kept=False)
    owners.used("q", "10.0.0.1")
    assert owners.owner_of("query q") is None
