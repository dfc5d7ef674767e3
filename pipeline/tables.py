"""Options of a table in Spark's catalog, stored in the schema of the table. Pure.

    CREATE TABLE orders USING rlab OPTIONS (nameServer '127.0.0.1:9876', subscribe 'orders')

Spark 4.3 passes the options of a table to a Python source only during its creation, and only if Spark needs the schema;
a later read, insert or stream gets only the options of that statement. But Spark passes the schema from the catalog
each time. So the options are metadata of the first column.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from pyspark.sql.types import StructField, StructType

_KEY = "rlab.options"
_PREFIX = "option."
_OF_CATALOG = ("provider", "owner")
"""Spark adds these options only when a table is created."""


def options_of_create(options: Mapping[str, str]) -> dict[str, str] | None:
    """Return the OPTIONS of a CREATE TABLE; None if these are the options of another statement."""
    if not all(name in options for name in _OF_CATALOG):
        return None
    # Each option occurs twice, once with the prefix; a name that never has the prefix is a property of the table.
    return {name.removeprefix(_PREFIX): value for name, value in options.items() if name.startswith(_PREFIX)}


def schema_with(schema: StructType, options: Mapping[str, str]) -> StructType:
    """Return the schema of a table with these options."""
    first, *others = schema.fields
    kept = {_KEY: json.dumps(dict(sorted(options.items())))}
    return StructType([StructField(first.name, first.dataType, first.nullable, kept), *others])


def options_with(
    options: Mapping[str, str], schema: StructType, option_names: Sequence[str], one_of: Sequence[str] = ()
) -> dict[str, str]:
    """Merge the options of a statement with the `option_names` of its table; the statement is first.

    If the statement has an option of `one_of`, all options of the table in `one_of` are dropped.
    """
    kept = schema.fields[0].metadata.get(_KEY) if schema.fields else None
    if kept is None:
        return dict(options)
    names = {name.lower() for name in option_names}
    of_statement = {name.lower() for name in options}
    exclusive = {name.lower() for name in one_of}
    if of_statement & exclusive:
        names -= exclusive
    return {name: value for name, value in json.loads(kept).items() if name in names} | dict(options)
