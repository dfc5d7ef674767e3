"""The requests of transactions have their schemas in the one table."""

from __future__ import annotations

import pytest

from remoting.wire.schema import SCHEMA
from remoting.wire.transactions import TRANSACTION_SCHEMA


@pytest.mark.walk
def test_every_request_of_a_transaction_names_its_producer_group() -> None:
    assert SCHEMA.items() >= TRANSACTION_SCHEMA.items()
    without = [
        code.name for code, schema in TRANSACTION_SCHEMA.items() if "group" not in {f.name for f in schema.fields}
    ]
    assert without == ["GET_ALL_PRODUCER_INFO"], "which is about all of them"
