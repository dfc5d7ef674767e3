"""Rows; that they hold what columns hold, and leave out what columns leave out, is in test_columns.py."""

from __future__ import annotations

from datetime import UTC, datetime

from pyspark.sql.types import StructType

from model.message import Message
from pipeline.source.columns import SCHEMA
from pipeline.source.rows import rows
from tests.unit.pipeline.source.test_columns import QUEUE, pulls_of, settings


def test_a_message_becomes_a_row_with_nulls_for_what_it_does_not_have() -> None:
    plain, full = Message("t", b"x"), Message("t", b"y", ["k1", "k2"], "red", {"p": "q"})
    first, second = rows(QUEUE, 2, pulls_of([plain, full]), settings())
    born, stored = datetime.fromtimestamp(0.001, UTC), datetime.fromtimestamp(1, UTC)
    assert first[:8] == ("t", "broker-a", 3, 0, None, None, b"x", "id-0")
    assert second == ("t", "broker-a", 3, 1, "k1 k2", "red", b"y", "id-1", born, stored, 3, {"p": "q"})


def test_columns_in_another_order_are_rows_in_that_order() -> None:
    backwards = StructType(list(reversed(SCHEMA.fields)))
    found = pulls_of([Message("t", b"x")])
    assert next(iter(rows(QUEUE, 1, found, settings(), backwards)))[::-1] == next(
        iter(rows(QUEUE, 1, found, settings()))
    )
