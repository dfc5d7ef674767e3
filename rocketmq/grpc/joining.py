"""Translates Telemetry, Heartbeat and NotifyClientTermination: clients join, stay in and leave groups. Pure.

RocketMQ: ClientActivity, GrpcClientSettingsManager.

A client sends its settings over a stream that stays open as long as the client runs. The answer has settings that the
client adopts: the number and the pauses of its retries, and the longest message. A consumer is a member of its group
from its settings on, with their subscriptions; after a restart of the broker, from its first heartbeat after a receive,
with the subscriptions of its receives. A producer answers checks of transactions, over the same stream. So does a
consumer that an operator has consume one message, or asks for the stacks of its threads (`broker/groups/relay.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgpack

from model.errors import InvalidParameter, RlabError
from model.group_settings import OWN_ATTEMPTS
from model.heartbeat import ConsumeFrom, ConsumerData, ConsumeType, HeartbeatData, MessageModel
from model.limits import MAX_ATTEMPTS, MAX_BODY_BYTES, MAX_POP_BATCH
from model.message import retry_delay_ms
from model.names import check_group
from model.record import iter_records
from model.response_code import ResponseCode
from model.subscription import make_subscription
from remoting.command import RESPONSE, Command
from remoting.request_code import RequestCode
from rocketmq.fields import expression_type, json_bytes
from rocketmq.grpc import proto
from rocketmq.grpc.edge import GrpcConnection, GrpcRequest, client_id_of
from rocketmq.grpc.http2.call import GrpcCall
from rocketmq.grpc.proto import MESSAGES, to_duration
from rocketmq.grpc.receiving import fill_stored, required_group, to_expression
from rocketmq.grpc.sending import producer_heartbeat
from rocketmq.grpc.status import GrpcRefused, status, status_of

_SEND_ATTEMPTS, _FIRST_PAUSE_MS, _LONGEST_PAUSE_MS, _PAUSE_FACTOR = 3, 10, 1_000, 2.0
"""How a producer tries again. RocketMQ: ClientConfig of the proxy."""
_REQUEST_TIMEOUT_MS = 3_000
_POLL_MS = 20_000
"""How long a push consumer lets a receive wait."""
_CONSUME_RESULTS = {
    proto.OK: "CR_SUCCESS",
    proto.FAILED_TO_CONSUME: "CR_LATER",
    proto.MESSAGE_CORRUPTED: "CR_RETURN_NULL",
}
"""Results of a message that a client consumed for an operator, as the tools of RocketMQ name them."""
_PAUSES_MS = tuple(retry_delay_ms(times) for times in range(MAX_ATTEMPTS))
"""Pauses between the attempts of a group without its own."""
_CONSUMERS = (proto.PUSH_CONSUMER, proto.SIMPLE_CONSUMER)
_SESSION_S = 30.0
"""A consumer sends a heartbeat every 10 s."""
_STRATEGY = "AVG"
"""The name that members of a group have to agree on; a member that pops has no strategy."""


def telemetry(connection: GrpcConnection, call: GrpcCall, command: Any) -> GrpcRequest | Command | list[Any]:
    """Answer the settings of a client with those that it has to use, or pass on its answer to a request."""
    if not command.HasField("settings"):
        return _answer_of_client(connection, call, command) or []
    client_settings = command.settings
    settings = MESSAGES["Settings"](
        client_type=client_settings.client_type,
        request_timeout=to_duration(_REQUEST_TIMEOUT_MS),
        metric=MESSAGES["Metric"](on=False),
    )
    if client_settings.client_type == proto.PRODUCER:
        settings.backoff_policy.max_attempts = _SEND_ATTEMPTS
        backoff = settings.backoff_policy.exponential_backoff
        backoff.initial.CopyFrom(to_duration(_FIRST_PAUSE_MS))
        backoff.max.CopyFrom(to_duration(_LONGEST_PAUSE_MS))
        backoff.multiplier = _PAUSE_FACTOR
        settings.publishing.topics.extend(client_settings.publishing.topics)
        settings.publishing.max_body_size, settings.publishing.validate_message_type = MAX_BODY_BYTES, True
        topics = [each.name for each in client_settings.publishing.topics if _is_group_name(each.name)]
        return _producer_settings(connection, client_id_of(call), topics, settings)
    return _consumer_settings(connection, call, client_settings, settings)


def _consumer_settings(
    connection: GrpcConnection, call: GrpcCall, client_settings: Any, settings: Any
) -> GrpcRequest | list[Any]:
    """Make a consumer a member of its group, and answer with the settings of the group.

    Without settings clients do not start, and those for Go and Java do not report why they were refused. With the
    settings of any group they start, and report the refusal of the first receive.
    """
    _check_client_type(client_settings.client_type)
    group = required_group(client_settings.subscription.group)
    settings.subscription.CopyFrom(client_settings.subscription)
    settings.subscription.receive_batch_size = MAX_POP_BATCH
    settings.subscription.long_polling_timeout.CopyFrom(to_duration(_POLL_MS))

    def adopt(retries: int, pauses_ms: Sequence[int], *, fifo: bool) -> Any:
        settings.backoff_policy.max_attempts = MAX_ATTEMPTS if retries == OWN_ATTEMPTS else retries + 1
        settings.backoff_policy.customized_backoff.ClearField("next")
        settings.backoff_policy.customized_backoff.next.extend(map(to_duration, pauses_ms or _PAUSES_MS))
        settings.subscription.fifo = fifo
        return settings

    def answer(answer_header: dict[str, Any], body: bytes | None, code: int) -> list[Any]:
        group_config: Any = msgpack.unpackb(body or b"")
        pauses_ms, fifo = answer_header.get("retry_delays_ms") or (), answer_header.get("fifo", False)
        adopted = adopt(group_config[-1], pauses_ms, fifo=fifo)
        return [MESSAGES["TelemetryCommand"](status=status(proto.OK), settings=adopted)]

    refusal = MESSAGES["TelemetryCommand"](settings=adopt(OWN_ATTEMPTS, (), fifo=False))
    try:
        _join(connection, call, group, client_settings.subscription.subscriptions)
    except RlabError as error:  # a wrong filter
        refusal.status.CopyFrom(status_of(error.code or ResponseCode.SYSTEM_ERROR, str(error)))
        return [refusal]
    return GrpcRequest(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": group}, None, answer, refusal=refusal)


def _join(connection: GrpcConnection, call: GrpcCall, group: str, subscriptions: Sequence[Any]) -> None:
    """Make a consumer a member, so that a new group begins now.

    RocketMQ's clients send the first heartbeat and the first receive a second after the start of a consumer has
    returned, and the messages of this second would lie before the beginning of the group.
    """
    connection.record_subscriptions(
        call, group, {each.topic.name: to_expression(each.expression) for each in subscriptions}
    )
    if subscriptions:
        body = _member_heartbeat(connection, client_id_of(call), group)
        connection.send_own_request(RequestCode.HEART_BEAT, {}, body)


def heartbeat(connection: GrpcConnection, call: GrpcCall, request: Any) -> GrpcRequest | list[Any]:
    """Translate the heartbeat of a consumer; others are answered.

    A consumer of which the edge knows no subscription yet joins with a later one: its next receive comes soon.
    """
    response, client_id = MESSAGES["HeartbeatResponse"], client_id_of(call)
    if request.client_type == proto.PRODUCER:
        return _answer_after_heartbeat(connection, client_id, response(status=status(proto.OK)))
    _check_client_type(request.client_type)
    group = required_group(request.group)
    if not connection.groups.get(client_id, {}).get(group):
        return _answer_after_health_check(response(status=status(proto.OK)))

    def answer(answer_header: dict[str, Any], body: bytes | None, code: int) -> list[Any]:
        return [response(status=status(proto.OK))]

    return GrpcRequest(RequestCode.HEART_BEAT, {}, _member_heartbeat(connection, client_id, group), answer)


def _member_heartbeat(connection: GrpcConnection, client_id: str, group: str) -> bytes:
    """The heartbeat of a consumer with the subscriptions that the edge knows."""
    filters = connection.groups[client_id][group]
    member = ConsumerData(
        group=group,
        consume_type=ConsumeType.POP,
        model=MessageModel.CLUSTERING,
        consume_from=ConsumeFrom.LAST_OFFSET,
        strategy=_STRATEGY,
        subscriptions=tuple(make_subscription(topic, expression, 0) for topic, expression in sorted(filters.items())),
        session_timeout_s=_SESSION_S,
        leaseless=True,
    )
    heartbeat_data = HeartbeatData(client_id=client_id, consumers=(member,), producer_groups=(), checkers=())
    packed: bytes = msgpack.packb(heartbeat_data.to_wire())
    return packed


def _producer_settings(connection: GrpcConnection, client_id: str, topics: Sequence[str], settings: Any) -> GrpcRequest:
    """Make a producer a member of its producer groups, and answer with its settings.

    A producer may have no right to a group, because only transactions take one. Then it joins a group only with its
    first half message.
    """
    before = dict(connection.producers.get(client_id, {}))
    connection.record_topics(client_id, topics)
    command = MESSAGES["TelemetryCommand"](status=status(proto.OK), settings=settings)
    request = _answer_after_heartbeat(connection, client_id, command)

    def answer(answer_header: dict[str, Any], body: bytes | None, code: int) -> list[Any]:
        if code:
            connection.producers[client_id] = before
        return request.answer(answer_header, body, code)

    return request._replace(answer=answer)


def _answer_after_heartbeat(connection: GrpcConnection, client_id: str, message: Any) -> GrpcRequest:
    """Answer a producer with a message, once the broker has its heartbeat; that also keeps its connection open."""

    def answer(answer_header: dict[str, Any], body: bytes | None, code: int) -> list[Any]:
        return [message]

    body = producer_heartbeat(connection, client_id)
    return GrpcRequest(RequestCode.HEART_BEAT, {}, body, answer, outcomes=(ResponseCode.NO_PERMISSION,))


def stream_ended(connection: GrpcConnection, call: GrpcCall) -> None:
    """Stop checks of transactions to a producer whose stream has ended, unless it has another one."""
    client_id = call.metadata.get("x-mq-client-id", "")
    if client_id in connection.producers:
        connection.send_own_request(RequestCode.HEART_BEAT, {}, producer_heartbeat(connection, client_id))


def _is_group_name(topic: str) -> bool:
    try:
        check_group(topic)
    except InvalidParameter:
        return False  # no half message can be sent to it
    return True


def _answer_after_health_check(message: Any) -> GrpcRequest:
    """Answer with a message once the server has answered a health check.

    The check keeps the connection of a consumer open before its first receive: an idle connection is closed in time.
    """

    def answer(answer_header: dict[str, Any], body: bytes | None, code: int) -> list[Any]:
        return [message]

    return GrpcRequest(RequestCode.GET_SERVER_STATE, {}, None, answer)


def notify_client_termination(connection: GrpcConnection, call: GrpcCall, request: Any) -> GrpcRequest | list[Any]:
    """Translate NotifyClientTermination; the messages of the client are visible to its group again at once."""
    response, client_id = MESSAGES["NotifyClientTerminationResponse"], client_id_of(call)
    connection.groups.pop(client_id, None)

    def answer(answer_header: dict[str, Any], body: bytes | None, code: int) -> list[Any]:
        return [response(status=status(proto.OK))]

    if not request.group.name:
        connection.producers.pop(client_id, None)
        return _answer_after_heartbeat(connection, client_id, response(status=status(proto.OK)))
    header = {"client_id": client_id, "groups": [request.group.name]}
    return GrpcRequest(RequestCode.UNREGISTER_CLIENT, header, None, answer)


def _check_client_type(client_type: int) -> None:
    if client_type not in _CONSUMERS:
        text = f"clients of type {client_type} are not served: producers, push consumers and simple consumers are"
        raise GrpcRefused(proto.UNRECOGNIZED_CLIENT_TYPE, text)


# --- requests of operators -------------------------------------------------------------------------------------------


def verify_message(connection: GrpcConnection, opaque: int, header: Mapping[str, Any], body: bytes | None) -> Any:
    """Translate the request that a consumer consumes one message now."""
    record = next(iter_records(body or b""))
    place = header["topic"], header["topic"], header["queue_id"], record.queue_offset, record.stored_ms
    command = MESSAGES["VerifyMessageCommand"](nonce=_nonce(opaque, header))
    fill_stored(command.message, connection, *place, record.payload)
    command.message.system_properties.delivery_attempt = record.times_delivered + 1
    return MESSAGES["TelemetryCommand"](status=status(proto.OK), verify_message_command=command)


def running_info(connection: GrpcConnection, opaque: int, header: Mapping[str, Any], body: bytes | None) -> Any:
    """Translate the request for the state of a consumer, of which its client has only the stacks of its threads."""
    if not header.get("stacks"):
        info = _running_info(connection, header["client_id"], header["group"])
        connection.peer.handle_soon(Command(RESPONSE, 0, opaque, {}, info))
        return None
    command = MESSAGES["PrintThreadStackTraceCommand"](nonce=_nonce(opaque, header))
    return MESSAGES["TelemetryCommand"](status=status(proto.OK), print_thread_stack_trace_command=command)


def _nonce(opaque: int, header: Mapping[str, Any]) -> str:
    """The text by which a client answers a request, with all that the answer needs."""
    return f"{opaque} {header['group']}"


def _answer_of_client(connection: GrpcConnection, call: GrpcCall, command: Any) -> Command | None:
    """The answer of a client to one of these requests; None for anything else that it sends."""
    stacks = None
    if command.HasField("thread_stack_trace"):
        nonce, stacks = command.thread_stack_trace.nonce, command.thread_stack_trace.thread_stack_trace
    elif command.HasField("verify_message_command"):  # the client of Node.js repeats the request
        nonce = command.verify_message_command.nonce
    else:
        nonce = command.verify_message_result.nonce
    opaque, _, group = nonce.partition(" ")
    if not (opaque.isascii() and opaque.isdigit()):
        return None
    result = _CONSUME_RESULTS.get(command.status.code)
    if stacks is not None and command.status.code == proto.OK:
        return Command(RESPONSE, 0, int(opaque), {}, _running_info(connection, client_id_of(call), group, stacks))
    if stacks is None and result is not None:
        consumed = {"consumeResult": result, "remark": command.status.message, "order": False, "autoCommit": True}
        return Command(RESPONSE, 0, int(opaque), {}, json_bytes({**consumed, "spentTimeMills": 0}))
    remark = f"the client answered {command.status.code} {command.status.message}: its version may not support this"
    return Command(RESPONSE, ResponseCode.SYSTEM_ERROR, int(opaque), {"remark": remark}, None)


def _running_info(connection: GrpcConnection, client_id: str, group: str, stacks: str = "") -> bytes:
    """The client and the subscriptions of a consumer, as the tools of RocketMQ read them: ConsumerRunningInfo."""
    stream = connection.stream_of(client_id)
    names = ("x-mq-language", "x-mq-client-version")
    client = " ".join(stream.metadata.get(name, "") for name in names) if stream is not None else ""
    filters = connection.groups.get(client_id, {}).get(group, {})
    info = {
        "properties": {"PROP_CONSUME_TYPE": "CONSUME_POP", "PROP_CLIENT_VERSION": client.strip()},
        "subscriptionSet": [
            {
                "topic": each.topic,
                "subString": each.expression,
                "subVersion": 0,
                "expressionType": expression_type(each),
            }
            for each in (make_subscription(topic, given, 0) for topic, given in sorted(filters.items()))
        ],
        **{"mqTable": {}, "mqPopTable": {}, "statusTable": {}, "jstack": stacks},
    }
    return json_bytes(info)
