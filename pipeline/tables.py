"""Options of a table in Spark's catalog, kept in the table's schema. Pure.

    CREATE TABLE orders USING rlab OPTIONS (nameServer '127.0.0.1:9876', subscribe 'orders')

Spark 4.3 shows a Python source the options of a table only while it is created, and only if the source is asked for the
schema; a later read, insert or stream gets the options of that statement and no others. What it does get each time is
the schema as the catalog has it. So the options are metadata of the first column.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from pyspark.sql.types import StructField, StructType

_KEY = "rlab.options"
_PREFIX = "option."
_OF_CATALOG = ("provider", "owner")
"""Spark puts these among the options when a table is created, and at no other time."""


def options_of_create(options: Mapping[str, str]) -> dict[str, str] | None:
    """What stands in OPTIONS of a CREATE TABLE; None if these are the options of anything else."""
    if not all(name in options for name in _OF_CATALOG):
        return None
    # Each occurs twice, once with the prefix; what has none only is a property of the table.
    return {name.removeprefix(_PREFIX): value for name, value in options.items() if name.startswith(_PREFIX)}


def schema_with(schema: StructType, options: Mapping[str, str]) -> StructType:
    """The schema of a table that has these options."""
    first, *others = schema.fields
    kept = {_KEY: json.dumps(dict(sorted(options.items())))}
    return StructType([StructField(first.name, first.dataType, first.nullable, kept), *others])


def options_with(
    given: Mapping[str, str], schema: StructType, known: Sequence[str], one_of: Sequence[str] = ()
) -> dict[str, str]:
    """The options of a statement, and below them those of its table that are among the `known`.

    Of the names in `one_of` a statement replaces all with its own.
    """
    kept = schema.fields[0].metadata.get(_KEY) if schema.fields else None
    if kept is None:
        return dict(given)
    names = {name.lower() for name in known}
    said = {name.lower() for name in given}
    exclusive = {name.lower() for name in one_of}
    if said & exclusive:
        names -= exclusive
    return {name: value for name, value in json.loads(kept).items() if name in names} | dict(given)
