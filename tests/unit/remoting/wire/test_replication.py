"""The requests between the replicas of a broker."""

from __future__ import annotations

import msgpack
import pytest

from model.errors import InvalidParameter
from model.replica_limits import MAX_REPLICA_EPOCHS
from remoting.body import rows_of
from remoting.command import REQUEST, Command
from remoting.request_code import RequestCode
from remoting.wire.field import Effect, Right
from remoting.wire.replication import REPLICATION_SCHEMA


def hello(n_epochs: int) -> Command:
    return Command(REQUEST, RequestCode.REPLICA_HELLO, 1, {}, msgpack.packb([[n, n, 1] for n in range(n_epochs)]))


def test_a_replica_sends_its_limit_of_epochs_and_no_more() -> None:
    assert len(list(rows_of(hello(MAX_REPLICA_EPOCHS)))) == MAX_REPLICA_EPOCHS
    with pytest.raises(InvalidParameter):
        list(rows_of(hello(MAX_REPLICA_EPOCHS + 1)))


def test_a_replica_needs_the_right_to_the_broker_and_serves_only_its_master() -> None:
    to_masters = {code for code, schema in REPLICATION_SCHEMA.items() if schema.sender == "replica -> master"}
    assert to_masters == {RequestCode.REPLICA_HELLO, RequestCode.REPLICATED, RequestCode.REPLICA_SEGMENT}
    for code in to_masters - {RequestCode.REPLICATED}:
        rights = {field.right for field in REPLICATION_SCHEMA[code].fields} - {None}
        assert rights == {Right.REPLICATE}
    assert all(REPLICATION_SCHEMA[code].effect is Effect.LOCAL for code in to_masters)
