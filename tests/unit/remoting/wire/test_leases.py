"""The requests about leases are part of the one table."""

from __future__ import annotations

from remoting.request_code import RequestCode
from remoting.wire.leases import LEASE_SCHEMA
from remoting.wire.schema import SCHEMA


def test_the_requests_are_part_of_the_table_and_have_rocketmqs_numbers() -> None:
    assert SCHEMA.items() >= LEASE_SCHEMA.items()
    assert LEASE_SCHEMA[RequestCode(41)] is SCHEMA[RequestCode.LOCK_BATCH_MQ]
