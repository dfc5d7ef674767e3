"""The one table of all requests: the server checks headers with it, and the documentation is made from it. Pure.

Each file beside this one has the requests of one feature; here they are joined. A field is a key in the header's map.
`check_header` runs before every handler, so handlers index the header without further checks. Rows of bodies are
checked by `remoting/body.py`, other bodies by `from_wire` of the records in `model/`.
"""

from __future__ import annotations

from typing import Any

from model.errors import InvalidParameter
from model.limits import MAX_FIELD_CHARS
from remoting.command import Command, short_text
from remoting.request_code import RequestCode
from remoting.wire.assignment import ASSIGNMENT_SCHEMA
from remoting.wire.field import Field, RequestSchema
from remoting.wire.groups import GROUP_SCHEMA
from remoting.wire.leases import LEASE_SCHEMA
from remoting.wire.messages import MESSAGE_SCHEMA
from remoting.wire.pop import POP_SCHEMA
from remoting.wire.replicas import REPLICA_SCHEMA
from remoting.wire.replication import REPLICATION_SCHEMA
from remoting.wire.servers import SERVER_SCHEMA
from remoting.wire.sink import SINK_SCHEMA
from remoting.wire.topics import TOPIC_SCHEMA
from remoting.wire.transactions import TRANSACTION_SCHEMA

SCHEMA: dict[RequestCode, RequestSchema] = {
    **MESSAGE_SCHEMA,
    **GROUP_SCHEMA,
    **LEASE_SCHEMA,
    **SERVER_SCHEMA,
    **TOPIC_SCHEMA,
    **POP_SCHEMA,
    **ASSIGNMENT_SCHEMA,
    **SINK_SCHEMA,
    **TRANSACTION_SCHEMA,
    **REPLICA_SCHEMA,
    **REPLICATION_SCHEMA,
}

_MIN, _MAX = -(2**63), 2**63 - 1  # stored numbers are signed 64-bit numbers, and msgpack accepts larger ones
_PLURAL: dict[type[object] | None, str] = {int: "whole numbers", str: "strings"}

Bounds = tuple[int, int]


def field_bounds(field: Field) -> Bounds | None:
    """Return the bounds of a number, or of the numbers in a list; None for other fields."""
    if (field.items or field.type) is not int:
        return None
    return (_MIN if field.minimum is None else field.minimum, _MAX if field.maximum is None else field.maximum)


def _rule(field: Field) -> tuple[Any, Any]:
    """Return the check beyond the type: bounds of a number, (None, most characters) of a text, (None, list)."""
    if field.items is not None:
        return None, field
    if field.type is str:
        return None, MAX_FIELD_CHARS if field.maximum is None else field.maximum
    return field_bounds(field) or (None, None)


# Two slots for all kinds of rules: the check runs for each field of each message that is sent one by one.
_CHECKS: dict[int, tuple[tuple[str, type, bool, Any, Any], ...]] = {
    int(code): tuple((field.name, field.type, field.required, *_rule(field)) for field in schema.fields)
    for code, schema in SCHEMA.items()
}


def check_header(request: Command) -> None:
    """Check the header of a request against the table.

    Raises:
        InvalidParameter: a field is missing, of the wrong type or out of range; the error names it.
    """
    header = request.header
    for name, kind, required, low, high in _CHECKS[request.code]:
        value = header.get(name)
        if type(value) is kind:
            if low is not None:
                if not low <= value <= high:
                    raise InvalidParameter(f"{_field(request.code, name)} must be {range_text(low, high)}, got {value}")
            elif kind is str:
                if len(header[name]) > high:
                    raise _too_long(request.code, name, high)
            elif high is not None:
                _check_items(request.code, high, header[name])
        elif value is not None or required:
            raise InvalidParameter(
                f"{_field(request.code, name)} must be of type {kind.__name__}, got {short_text(value)}"
            )


def _check_items(code: int, field: Field, values: list[Any]) -> None:
    if any(type(value) is not field.items for value in values):
        raise InvalidParameter(f"{_field(code, field.name)} must be a list of {_PLURAL[field.items]}")
    if field.items is str and any(len(value) > MAX_FIELD_CHARS for value in values):
        raise _too_long(code, field.name, MAX_FIELD_CHARS)
    bounds = field_bounds(field)
    if bounds is not None and values and not bounds[0] <= min(values) <= max(values) <= bounds[1]:
        raise InvalidParameter(f"{_field(code, field.name)} must be a list of numbers, each {range_text(*bounds)}")


def _too_long(code: int, name: str, max_chars: int) -> InvalidParameter:
    return InvalidParameter(f"{_field(code, name)} may have at most {max_chars} characters")


def _field(code: int, name: str) -> str:
    return f"{RequestCode(code).name}: field {name!r}"


def range_text(low: int, high: int) -> str:
    """Return the bounds of a number in words."""
    if high == _MAX:
        return f"at least {low}" if low != _MIN else "of 64 bits"
    return f"{low} to {high}" if low != _MIN else f"at most {high}"
