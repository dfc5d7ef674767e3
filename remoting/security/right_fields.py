"""The rights that each request takes, looked up in its schema. Pure.

The fields of `remoting/wire/` declare which right a request takes to the thing that they name; this module reads these
fields of a request. A request without any such field takes `admin`, so a new request is refused until its author has
decided its rights. Most requests name their topic and group in the header, and the gate remembers the decision for each
such pair of a user. The rows of bodies, and other names in bodies, are read each time.

    required_rights(UPDATE_CONSUMER_OFFSET of group g, client c1, rows for orders)   groups g, consume orders
    claimed_ids(the same)                                                        c1
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from model.heartbeat import HeartbeatData
from model.message import topic_of_payload
from model.names import is_group_topic, query_name
from remoting.body import rows_of, unpack_body
from remoting.command import Command
from remoting.request_code import RequestCode
from remoting.wire.field import Field, Noun, RequestSchema, Right
from remoting.wire.schema import SCHEMA

RequiredRight = tuple[Right, str]
"""A right, and the name of the topic, group or broker; "" for the cluster."""
NamedValue = tuple[str, str]
"""The name of a field of `RequestSchema.names`, and the value that it names."""

_OF_HEADER = frozenset({"topic", "group", "client_id"})
"""The fields by which the gate distinguishes requests when it remembers which were allowed."""


def _heartbeat(request: Command) -> Iterator[NamedValue]:
    if not request.body:
        return  # it repeats the last heartbeat of this connection
    data = HeartbeatData.from_wire(unpack_body(request.body))
    yield "client_id", data.client_id
    for group in data.producer_groups:
        yield "producers", group
    for group in data.checkers:
        yield "checkers", group
    for consumer in data.consumers:
        yield "consumers", consumer.group
        for subscription in consumer.subscriptions:
            yield "subscriptions", subscription.topic


def _copy_for_a_retry(request: Command) -> Iterator[NamedValue]:
    """The original topic of a copy for a retry, or of a dead-letter message: its listener gets the copy."""
    if is_group_topic(request.header["topic"]):
        topic = topic_of_payload(request.body or b"")
        if topic is not None:
            yield "payload", topic


_READERS: dict[int, Callable[[Command], Iterator[NamedValue]]] = {
    RequestCode.HEART_BEAT: _heartbeat,
    RequestCode.SEND_MESSAGE: _copy_for_a_retry,
}
"""Readers of bodies without rows whose fields in `RequestSchema.names` take a right."""


class RightFields(NamedTuple):
    """The fields of one request that take a right.

    Attributes:
        cluster: the right to the cluster, None without one.
        header, names: fields of the header, and names in the body.
        columns: (place, field) of the columns of the body.
        owned: fields of the header with an id that belongs to one user.
        by_header: whether topic, group and client id of the header decide about the whole request.
    """

    cluster: Right | None
    header: tuple[Field, ...]
    columns: tuple[tuple[int, Field], ...]
    names: dict[str, Field]
    owned: tuple[Field, ...]
    by_header: bool


def right_fields(schema: RequestSchema) -> RightFields:
    """Return the fields of a schema that take a right."""
    header = tuple(field for field in schema.fields if field.right not in (None, Right.OWN))
    owned = tuple(field for field in schema.fields if field.right is Right.OWN)
    columns = tuple((index, column) for index, column in enumerate(schema.columns) if column.right is not None)
    names = {field.name: field for field in schema.names if field.right is not None}
    asks_nothing = not (header or owned or columns or names)
    return RightFields(
        cluster=Right.ADMIN if schema.right is None and asks_nothing else schema.right,
        header=header,
        columns=columns,
        names=names,
        owned=owned,
        by_header=not columns and not names and all(field.name in _OF_HEADER for field in (*header, *owned)),
    )


RIGHT_FIELDS: dict[int, RightFields] = {int(code): right_fields(schema) for code, schema in SCHEMA.items()}


def required_rights(request: Command) -> Iterator[RequiredRight]:
    """Yield each right that a request takes.

    Raises:
        InvalidParameter: the body cannot be read.
    """
    header, need = request.header, RIGHT_FIELDS[request.code]
    if need.cluster is not None:
        yield need.cluster, ""
    for field in need.header:
        value = header.get(field.name)
        if value is None:
            if field.absent is not None:
                yield field.absent, ""
        elif not field.when or acts(header, field.when):
            assert field.right is not None, "that is what these fields have"
            for name in value if field.type is list else (value,):
                yield field.right, name
    if need.columns:
        rows = rows_of(request)
        for index, column in need.columns:
            for name in dict.fromkeys(row[index] for row in rows):
                assert column.right is not None, "that is what these columns have"
                yield column.right, name
    if need.names:
        for field_name, name in _READERS[request.code](request):
            field_need = need.names.get(field_name)
            if field_need is not None and field_need.right not in (None, Right.OWN):
                yield field_need.right, name


def is_decided_by_header(request: Command) -> bool:
    """Whether each such request with this topic, group and client id takes the same rights; see `acts`."""
    is_plain_send = request.code == RequestCode.SEND_MESSAGE and not is_group_topic(request.header["topic"])
    return RIGHT_FIELDS[request.code].by_header or is_plain_send


def acts(header: dict[str, Any], when: tuple[str, ...]) -> bool:
    """Whether one of these fields is present: a pull acts for a member, or only reads."""
    return any(header.get(name) is not None for name in when)


def claimed_ids(request: Command) -> list[str]:
    """The ids in a request that belong to one user only: client ids, and for sinks the id of the query."""
    need = RIGHT_FIELDS[request.code]
    ids = [id_name(field, request.header[field.name]) for field in need.owned if field.name in request.header]
    if need.names:
        for field_name, name in _READERS[request.code](request):
            field_need = need.names.get(field_name)
            if field_need is not None and field_need.right is Right.OWN:
                ids.append(id_name(field_need, name))
    return ids


def id_name(field: Field, value: str) -> str:
    """The name of an id among those of clients and of queries."""
    return query_name(value) if field.noun is Noun.QUERY else value
