"""The requests about replicas have their schemas in the one table."""

from __future__ import annotations

from remoting.request_code import RequestCode
from remoting.security.right_fields import RIGHT_FIELDS
from remoting.wire.field import Right
from remoting.wire.replicas import REPLICA_SCHEMA
from remoting.wire.schema import SCHEMA


def test_a_row_of_the_register_is_read_and_changed_with_a_right_to_the_set() -> None:
    assert SCHEMA.items() >= REPLICA_SCHEMA.items()
    for code in (RequestCode.GET_REPLICA_SET, RequestCode.PUT_REPLICA_SET):
        assert [field.right for field in RIGHT_FIELDS[code].header] == [Right.CHANGE_SET]
    assert RIGHT_FIELDS[RequestCode.GET_REPLICA_SET].header[0].absent is Right.ADMIN
