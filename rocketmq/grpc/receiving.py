"""Translates ReceiveMessage and QueryAssignment. Pure. RocketMQ: ReceiveMessageActivity, RouteActivity.

A receive is a pop of all queues of the topic on this broker, whatever queue the client names: a message does not wait
until its queue has its turn. The messages of a push consumer stay invisible as long as it is connected, from the moment
on when it has read them: an answer may be lost, or come too late for its client, and then no client has its messages. A
simple consumer asks for a time.

    answer of a receive    status, message, message, ..., time of the delivery
    with no message        status MESSAGE_NOT_FOUND
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgpack

from model.limits import MAX_INVISIBLE_MS, MAX_POP_BATCH, MIN_INVISIBLE_MS
from model.message import MESSAGE_GROUP
from model.record import StoredRecord, iter_records
from model.response_code import ResponseCode
from model.subscription import Expression, Sql, make_subscription, parse_expression
from remoting.command import Command
from remoting.request_code import RequestCode
from remoting.wire.pop import ANY_QUEUE
from rocketmq.grpc import proto
from rocketmq.grpc.edge import GrpcConnection, GrpcRequest, client_id_of
from rocketmq.grpc.handles import Handle
from rocketmq.grpc.http2.call import GrpcCall
from rocketmq.grpc.proto import MESSAGES, duration_ms, set_time, to_timestamp
from rocketmq.grpc.routes import readable_brokers, required_topic
from rocketmq.grpc.sending import TRACE_CONTEXT
from rocketmq.grpc.status import GrpcRefused, status
from rocketmq.message import KEYS, ORIGIN_MESSAGE_ID, RETRY_TOPIC, TAGS, UNIQ_KEY
from rocketmq.pulling import MAX_SUSPEND_MS, decode_payload

RENEWED_INVISIBLE_MS = 10_000
"""How long a message is invisible after the connection of its push consumer is gone."""
_NETWORK_MARGIN_MS = 200
"""An empty answer is sent this time before the deadline of its call."""
_DEFAULT_POLL_MS = 20_000
_SYSTEM_PROPERTIES = frozenset((TAGS, KEYS, UNIQ_KEY, RETRY_TOPIC, ORIGIN_MESSAGE_ID, MESSAGE_GROUP, TRACE_CONTEXT))


def receive(connection: GrpcConnection, call: GrpcCall, request: Any) -> GrpcRequest:
    """Translate a receive; the broker holds it as long as its client wants."""
    group, topic = required_group(request.group), required_topic(request.message_queue.topic)
    expression = to_expression(request.filter_expression)
    invisible_ms = RENEWED_INVISIBLE_MS if request.auto_renew else duration_ms(request.invisible_duration)
    if not MIN_INVISIBLE_MS <= invisible_ms <= MAX_INVISIBLE_MS:
        text = f"an invisible time is {MIN_INVISIBLE_MS} to {MAX_INVISIBLE_MS} ms, not {invisible_ms}"
        raise GrpcRefused(proto.ILLEGAL_INVISIBLE_TIME, text)
    poll_ms = _DEFAULT_POLL_MS
    if request.HasField("long_polling_timeout"):
        poll_ms = duration_ms(request.long_polling_timeout)
    if call.timeout_ms is not None:
        poll_ms = min(poll_ms, call.timeout_ms - _NETWORK_MARGIN_MS)
    subscription = make_subscription(topic, expression, 0)
    header: dict[str, Any] = {
        "group": group,
        "topic": topic,
        "queue_id": ANY_QUEUE,
        "client_id": client_id_of(call),
        "max_n": min(max(1, request.batch_size), MAX_POP_BATCH),
        "invisible_ms": invisible_ms,
        "suspend_ms": min(max(0, poll_ms), MAX_SUSPEND_MS),
        **subscription.to_header(),
    }
    connection.record_subscriptions(call, group, {topic: expression})
    code = RequestCode.POP_MESSAGE_BY_SQL if subscription.is_sql else RequestCode.POP_MESSAGE
    delivery = _Delivery(connection, group, client_id_of(call), is_kept=request.auto_renew)
    answer = partial(_translate_messages, connection, header, _tags_of(expression), delivery)

    def cancel(pop: int) -> Command:
        named = {"group": group, "client_id": header["client_id"], "pop": pop}
        return connection.own_request(RequestCode.CANCEL_POP, named)

    return GrpcRequest(code, header, None, answer, (ResponseCode.PULL_NOT_FOUND,), receipt=delivery, cancel=cancel)


@dataclass(slots=True)
class _Delivery:
    """The messages of one call, until it is known whether the client has read its answer; see `Receipt`.

    A request may be answered twice, by a fault that duplicates it; the call has the first answer.
    """

    connection: GrpcConnection
    group: str
    client_id: str
    is_kept: bool  # whether they stay invisible as long as the client is connected
    rows: list[list[Any]] = field(default_factory=list)  # topic, queue id, token, offsets
    last_rows: list[list[Any]] = field(default_factory=list)  # those of the last answer

    def add(self, rows: list[list[Any]]) -> None:
        self.rows = self.rows + rows
        self.last_rows = rows

    def read(self) -> None:
        if self.is_kept and self.rows:
            self.send(RequestCode.KEEP_MESSAGES, [row[:3] for row in self.rows])

    def unread(self) -> None:
        """Make them visible again at once."""
        if self.rows:
            self.send(RequestCode.RETURN_MESSAGES, self.rows)

    def unsent(self) -> None:
        """Make those of the last answer visible again at once."""
        self.rows = self.rows[: len(self.rows) - len(self.last_rows)]
        if self.last_rows:
            self.send(RequestCode.RETURN_MESSAGES, self.last_rows)

    def send(self, code: RequestCode, rows: list[list[Any]]) -> None:
        header = {"group": self.group, "client_id": self.client_id}
        self.connection.send_own_request(code, header, msgpack.packb(rows))


def _translate_messages(
    connection: GrpcConnection,
    request_header: Mapping[str, Any],
    tags: frozenset[str] | None,
    delivery: _Delivery,
    answer_header: dict[str, Any],
    body: bytes | None,
    code: int,
) -> list[Any]:
    batches: Any = [] if code else msgpack.unpackb(body or b"\x90")
    answer = MESSAGES["ReceiveMessageResponse"]
    messages: list[Any] = []
    rows: list[list[Any]] = []
    mismatched: list[list[Any]] = []  # of another tag with the same hash
    for topic, queue_id, token, _, attempts, records in batches:
        delivered, excluded = [], []
        for record, attempt in zip(iter_records(records), attempts, strict=True):
            handle = Handle(connection.facts.broker_name(), topic, queue_id, record.queue_offset, token)
            found = answer()
            _fill_delivered(found.message, connection, request_header, handle, record, attempt)
            if tags is None or topic != request_header["topic"] or found.message.system_properties.tag in tags:
                messages.append(found)
                delivered.append(record.queue_offset)
            else:
                excluded.append(record.queue_offset)
        if delivered:
            rows.append([topic, queue_id, token, delivered])
        if excluded:
            mismatched.append([topic, queue_id, token, excluded])
    delivery.add(rows)
    if mismatched:
        delivery.send(RequestCode.ACK_MESSAGE, mismatched)
    if not messages:
        return [answer(status=status(proto.MESSAGE_NOT_FOUND, "no message has come"))]
    return [
        answer(status=status(proto.OK)),
        *messages,
        answer(delivery_timestamp=to_timestamp(connection.facts.now_ms())),
    ]


def _fill_delivered(
    message: Any,
    connection: GrpcConnection,
    request_header: Mapping[str, Any],
    handle: Handle,
    record: StoredRecord,
    attempt: int,
) -> None:
    """Fill in a delivered message, with its handle."""
    topic, place = request_header["topic"], (handle.queue_id, record.queue_offset)
    fill_stored(message, connection, handle.topic, topic, *place, record.stored_ms, record.payload)
    system, invisible_ms = message.system_properties, request_header["invisible_ms"]
    system.receipt_handle, system.delivery_attempt = handle.text(), attempt
    set_time(system.invisible_duration, invisible_ms)


def fill_stored(
    message: Any,
    connection: GrpcConnection,
    stored_in: str,
    topic: str,
    queue_id: int,
    offset: int,
    stored_ms: int,
    payload: bytes,
) -> None:
    """Fill in a stored message as clients read it; a payload that is not one of our messages is delivered as a body.

    Parts of a message are set where they are: to build and copy each of them takes twice the time.

    Args:
        message: an empty message, in the answer or command that it is sent with.
        connection: the connection of the client.
        stored_in: topic of the queue; the retry topic of a message that came from there.
        topic: topic of the answer, unless the message names the one to which it was sent.
        queue_id: queue of the message.
        offset: its offset there.
        stored_ms: when it was stored.
        payload: the message.
    """
    found = decode_payload(payload, stored_in)
    body, properties, _, born_ms = found or (payload, {}, 0, stored_ms)
    message.topic.name = properties.get(RETRY_TOPIC, topic)
    message.body = body
    system = message.system_properties
    system.tag = properties.get(TAGS, "")
    system.keys.extend(properties.get(KEYS, "").split())
    system.message_id = properties.get(UNIQ_KEY, "")
    # The one digest of which every client computes the same text.
    digest = system.body_digest
    digest.type, digest.checksum = proto.MD5, hashlib.md5(body, usedforsecurity=False).hexdigest().upper()
    system.body_encoding = proto.IDENTITY
    message_group = properties.get(MESSAGE_GROUP, "")
    system.message_type = proto.FIFO if message_group else proto.NORMAL
    system.message_group = message_group
    set_time(system.born_timestamp, born_ms)
    set_time(system.store_timestamp, stored_ms)
    system.store_host = connection.address
    system.queue_id, system.queue_offset = queue_id, offset
    system.trace_context = properties.get(TRACE_CONTEXT, "")
    for name, value in properties.items():
        if name not in _SYSTEM_PROPERTIES:
            message.user_properties[name] = value


def query_assignment(connection: GrpcConnection, call: GrpcCall, request: Any) -> GrpcRequest:
    """Translate the request of a push consumer for its assignment: every member receives from every broker."""
    topic, group = required_topic(request.topic), required_group(request.group)

    def answer(answer_header: dict[str, Any], body: bytes | None, code: int) -> list[Any]:
        assignments = [
            MESSAGES["Assignment"](message_queue=queue)
            for queue in readable_brokers(topic, msgpack.unpackb(body or b""))
        ]
        return [MESSAGES["QueryAssignmentResponse"](status=status(proto.OK), assignments=assignments)]

    connection.record_subscriptions(call, group, {})
    return GrpcRequest(RequestCode.GET_ROUTEINFO_FROM_BROKER, {"topic": topic}, None, answer)


def _tags_of(expression: Expression) -> frozenset[str] | None:
    return None if isinstance(expression, Sql) else parse_expression(expression)


def to_expression(message_filter: Any) -> Expression:
    """The filter that a message names; all messages if it names none."""
    text = message_filter.expression or "*"
    return Sql(text) if message_filter.type == proto.SQL else text


def required_group(resource: Any) -> str:
    """The group that a message names.

    Raises:
        GrpcRefused: it names none.
    """
    if not resource.name:
        raise GrpcRefused(proto.ILLEGAL_GROUP, "the name of the consumer group is missing")
    return str(resource.name)
