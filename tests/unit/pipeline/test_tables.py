"""The options of a table in the catalog: kept in its schema, and below those of a statement."""

from __future__ import annotations

import pytest
from pyspark.sql.types import StructType

from model.errors import ConfigError
from pipeline.data_source import RlabDataSource
from pipeline.sink.rows import SINK_SCHEMA
from pipeline.source.columns import SCHEMA
from pipeline.tables import options_of_create, options_with, schema_with

GIVEN = {"nameserver": "names:1", "subscribe": "t"}


def as_spark_creates_a_table(**options: str) -> dict[str, str]:
    """What Spark passes to the source then."""
    return {
        "provider": "rlab",
        "owner": "root",
        "comment": "of the user",
        **options,
        **{f"option.{name}": value for name, value in options.items()},
    }


def created(**options: str) -> StructType:
    """The schema of a new table, as the catalog gives it back."""
    return StructType.fromJson(RlabDataSource(as_spark_creates_a_table(**options)).schema().jsonValue())


def test_only_what_stands_in_options_of_a_create_table_counts() -> None:
    assert options_of_create(as_spark_creates_a_table(**GIVEN)) == GIVEN
    assert options_of_create(GIVEN) is options_of_create({}) is None
    assert options_of_create({"provider": "rlab", "owner": "root", "subscribe": "a property"}) == {}


def test_a_table_knows_its_options_and_a_statement_has_its_own_above_them() -> None:
    schema = created(nameserver="names:1", subscribe="t", topic="t", delivery="exactlyOnce")
    assert [(field.name, field.dataType) for field in schema] == [(field.name, field.dataType) for field in SCHEMA]
    assert options_with({}, schema, ("nameServer", "subscribe")) == GIVEN
    assert options_with({"tags": "a"}, schema, ("nameServer",)) == {"nameserver": "names:1", "tags": "a"}
    assert options_with({"Subscribe": "u"}, schema, ("nameServer", "subscribe"), ("subscribe", "assign")) == {
        "nameserver": "names:1",
        "Subscribe": "u",
    }
    assert options_with({"assign": "{}"}, schema, ("subscribe",), ("subscribe", "assign")) == {"assign": "{}"}
    assert options_with(GIVEN, SCHEMA, ("subscribe",)) == GIVEN
    assert options_with(GIVEN, StructType(), ("subscribe",)) == GIVEN


def test_a_table_that_can_only_be_written_has_the_columns_of_the_sink() -> None:
    assert created(nameserver="names:1", topic="t").names == SINK_SCHEMA.names
    assert created(nameserver="names:1", topic="t", subscribe="t").names == SCHEMA.names
    assert created() == SCHEMA
    assert created(nameserver="names:1").names == SCHEMA.names


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"subscribes": "t"}, "the rlab table has no option 'subscribes': did you mean subscribe"),
        ({"subscribe": "a b"}, "option subscribe"),
        ({"subscribe": "t", "delivery": "twice"}, "option delivery: 'twice' is not one of"),
        ({"topic": "a b"}, "option topic"),
        ({"subscribe": "t", "endingoffsets": "latest", "maxoffsetspertrigger": "x"}, "is for a batch read"),
    ],
)
def test_what_is_wrong_with_the_options_of_a_table_is_said_when_it_is_created(
    options: dict[str, str], why: str
) -> None:
    with pytest.raises(ConfigError, match=why):
        created(nameserver="names:1", **options)


def test_a_table_without_options_says_where_they_belong() -> None:
    with pytest.raises(ConfigError, match="CREATE TABLE t USING rlab OPTIONS"):
        RlabDataSource({}).reader(schema=SCHEMA)
    with pytest.raises(ConfigError, match="FROM t WITH"):
        RlabDataSource({}).streamReader(schema=SCHEMA).initialOffset()
    with pytest.raises(ConfigError, match="Spark passes its schema to no stream that writes"):
        RlabDataSource({"topic": "t"}).streamWriter(schema=SCHEMA, overwrite=False)
    with pytest.raises(ConfigError, match="option nameServer is missing"):
        RlabDataSource({}).writer(schema=schema_with(SINK_SCHEMA, {"topic": "t"}), overwrite=False)
