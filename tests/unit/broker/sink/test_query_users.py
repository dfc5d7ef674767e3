"""Whose a query of a sink is, over restarts of its broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.durability.metadata import MetadataStore
from broker.sink.query_users import QueryUsers
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

    QueryUsers(metadata, clock_ms, has_access_control=True).record_use("q", "user etl")
    metadata.commit()
    owners = QueryUsers(metadata, clock_ms, has_access_control=True)
    assert owners.user_of_id("query q") == "user etl"
    assert owners.user_of_id("q") is None  # a client may be called so
    now_ms = LAST_BATCH_KEPT_S * 1000
    owners.record_use("p", "user etl")
    assert owners.user_of_id("query q") == "user etl"
    owners.record_use("q", "user etl")
    now_ms *= 2
    owners.record_use("r", "user etl")
    assert owners.user_of_id("query q") == "user etl"
    now_ms *= 2
    owners.record_use("r", "user etl")
    metadata.commit()
    for each in (owners, QueryUsers(metadata, clock_ms, has_access_control=True)):
        assert [each.user_of_id(f"query {name}") for name in "pqr"] == [None, None, "user etl"]


def test_a_user_with_too_many_queries_loses_its_oldest_and_takes_no_room_of_others(metadata: MetadataStore) -> None:
    owners = QueryUsers(metadata, lambda: 0, has_access_control=True)
    owners.record_use("q", "user etl")
    for n in range(MAX_QUERIES_OF_USER):
        owners.record_use(f"m{n}", "user mallory")
    assert owners.user_of_id("query m0") == "user mallory"
    owners.record_use("one more", "user mallory")
    assert owners.user_of_id("query m0") is None
    assert owners.user_of_id("query m1") == owners.user_of_id("query one more") == "user mallory"
    assert owners.user_of_id("query q") == "user etl"


def test_without_access_control_a_query_is_no_ones(metadata: MetadataStore) -> None:
    owners = QueryUsers(metadata, lambda: 0, has_access_control=False)
    owners.record_use("q", "10.0.0.1")
    assert owners.user_of_id("query q") is None
