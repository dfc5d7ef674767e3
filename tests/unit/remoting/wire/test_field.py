"""Fields of headers."""

from __future__ import annotations

import pytest

from remoting.wire import field as schema_field
from remoting.wire.field import Field

SHARED = [field for field in vars(schema_field).values() if isinstance(field, Field)]


@pytest.mark.parametrize("field", SHARED, ids=lambda field: field.name)
def test_a_shared_field_says_what_it_means(field: Field) -> None:
    assert field.doc
    assert field.type in (str, int, bool, list)
