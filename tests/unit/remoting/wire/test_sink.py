"""The requests of sinks have their schemas in the one table."""

from __future__ import annotations

import pytest

from remoting.request_code import RequestCode
from remoting.wire.schema import SCHEMA
from remoting.wire.sink import SINK_SCHEMA


@pytest.mark.walk
def test_every_request_of_a_sink_has_a_schema_and_names_its_batch() -> None:
    assert set(SINK_SCHEMA) == {code for code in RequestCode if code.name.startswith("SINK_")}
    assert SCHEMA.items() >= SINK_SCHEMA.items()
    for schema in SINK_SCHEMA.values():
        assert {"query_id", "batch_id"} <= {field.name for field in schema.fields}
