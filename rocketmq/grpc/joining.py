"""Translates Telemetry, Heartbeat and NotifyClientTermination: clients join, stay in and leave groups. Pure.

RocketMQ: ClientActivity, GrpcClientSettingsManager.

A client sends its settings over a stream that stays open as long as the client runs. The answer has settings that the
client adopts: the number and the pauses of its retries, and the longest message. A consumer is a member of its group
from its first heartbeat on, with the subscriptions of its settings, or, after a restart of the broker, of its last
receives. The broker stores nothing about producers.
"""

from __future__ import annotations

from typing import Any

import msgpack

from model.group_settings import OWN_ATTEMPTS
from model.heartbeat import ConsumeFrom, ConsumerData, ConsumeType, HeartbeatData, MessageModel
from model.limits import MAX_ATTEMPTS, MAX_BODY_BYTES, MAX_POP_BATCH
from model.message import retry_delay_ms
from model.subscription import subscription_of
from remoting.request_code import RequestCode
from rocketmq.grpc import words
from rocketmq.grpc.edge import Asked, GrpcCaller, client_id_of
from rocketmq.grpc.http2 import GrpcCall
from rocketmq.grpc.receiving import expression_of, group_of
from rocketmq.grpc.status import GrpcRefused, status
from rocketmq.grpc.words import WORDS, duration_of

_SEND_ATTEMPTS, _FIRST_PAUSE_MS, _LONGEST_PAUSE_MS, _PAUSE_FACTOR = 3, 10, 1_000, 2.0
"""How a producer tries again. RocketMQ: ClientConfig of the proxy."""
_REQUEST_TIMEOUT_MS = 3_000
_POLL_MS = 20_000
"""How long a push consumer lets a receive wait."""
_CONSUMERS = (words.PUSH_CONSUMER, words.SIMPLE_CONSUMER)
_SESSION_S = 30.0
"""A consumer sends a heartbeat every 10 s."""
_STRATEGY = "AVG"
"""The name that members of a group have to agree on; a member that pops has no strategy."""


def telemetry(caller: GrpcCaller, call: GrpcCall, command: Any) -> Asked | list[Any]:
    """Answer the settings of a client with those that it has to use; other commands need no answer."""
    if not command.HasField("settings"):
        return []
    said = command.settings
    settings = WORDS["Settings"](
        client_type=said.client_type, request_timeout=duration_of(_REQUEST_TIMEOUT_MS), metric=WORDS["Metric"](on=False)
    )
    if said.client_type == words.PRODUCER:
        settings.backoff_policy.max_attempts = _SEND_ATTEMPTS
        backoff = settings.backoff_policy.exponential_backoff
        backoff.initial.CopyFrom(duration_of(_FIRST_PAUSE_MS))
        backoff.max.CopyFrom(duration_of(_LONGEST_PAUSE_MS))
        backoff.multiplier = _PAUSE_FACTOR
        settings.publishing.topics.extend(said.publishing.topics)
        settings.publishing.max_body_size, settings.publishing.validate_message_type = MAX_BODY_BYTES, True
        return _alive(WORDS["TelemetryCommand"](status=status(words.OK), settings=settings))
    _check_kind(said.client_type)
    group = group_of(said.subscription.group)
    filters = {each.topic.name: expression_of(each.expression) for each in said.subscription.subscriptions}
    caller.subscribed(call, group, filters)

    def answer(answered: dict[str, Any], body: bytes | None, code: int) -> list[Any]:
        of_group: Any = msgpack.unpackb(body or b"")
        retries = of_group[-1]
        pauses_ms = answered.get("retry_delays_ms") or [retry_delay_ms(times) for times in range(MAX_ATTEMPTS)]
        settings.backoff_policy.max_attempts = MAX_ATTEMPTS if retries == OWN_ATTEMPTS else retries + 1
        settings.backoff_policy.customized_backoff.next.extend(duration_of(ms) for ms in pauses_ms)
        settings.subscription.CopyFrom(said.subscription)
        settings.subscription.fifo = answered.get("fifo", False)
        settings.subscription.receive_batch_size = MAX_POP_BATCH
        settings.subscription.long_polling_timeout.CopyFrom(duration_of(_POLL_MS))
        return [WORDS["TelemetryCommand"](status=status(words.OK), settings=settings)]

    return Asked(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": group}, None, answer)


def heartbeat(caller: GrpcCaller, call: GrpcCall, request: Any) -> Asked | list[Any]:
    """Translate the heartbeat of a consumer; others are answered.

    A consumer of which the edge knows no subscription yet joins with a later one: its next receive comes soon.
    """
    response = WORDS["HeartbeatResponse"]
    if request.client_type == words.PRODUCER:
        return _alive(response(status=status(words.OK)))
    _check_kind(request.client_type)
    group, client_id = group_of(request.group), client_id_of(call)
    filters = caller.groups.get(client_id, {}).get(group)
    if not filters:
        return _alive(response(status=status(words.OK)))
    member = ConsumerData(
        group=group,
        consume_type=ConsumeType.POP,
        model=MessageModel.CLUSTERING,
        consume_from=ConsumeFrom.LAST_OFFSET,
        strategy=_STRATEGY,
        subscriptions=tuple(subscription_of(topic, given, 0) for topic, given in sorted(filters.items())),
        session_timeout_s=_SESSION_S,
        leaseless=True,
    )
    beat = HeartbeatData(client_id=client_id, consumers=(member,), producer_groups=(), checkers=())

    def answer(answered: dict[str, Any], body: bytes | None, code: int) -> list[Any]:
        return [response(status=status(words.OK))]

    return Asked(RequestCode.HEART_BEAT, {}, msgpack.packb(beat.to_wire()), answer)


def _alive(message: Any) -> Asked:
    """Answer with a message once the server has answered a health check.

    The check keeps the connection of an idle producer open: a connection without a request is closed after a while.
    """

    def answer(answered: dict[str, Any], body: bytes | None, code: int) -> list[Any]:
        return [message]

    return Asked(RequestCode.GET_SERVER_STATE, {}, None, answer)


def farewell(caller: GrpcCaller, call: GrpcCall, request: Any) -> Asked | list[Any]:
    """Translate NotifyClientTermination; the messages of the client are visible to its group again at once."""
    response, client_id = WORDS["NotifyClientTerminationResponse"], client_id_of(call)
    caller.groups.pop(client_id, None)

    def answer(answered: dict[str, Any], body: bytes | None, code: int) -> list[Any]:
        return [response(status=status(words.OK))]

    if not request.group.name:
        return _alive(response(status=status(words.OK)))
    header = {"client_id": client_id, "groups": [request.group.name]}
    return Asked(RequestCode.UNREGISTER_CLIENT, header, None, answer)


def _check_kind(client_type: int) -> None:
    if client_type not in _CONSUMERS:
        text = f"clients of type {client_type} are not served: producers, push consumers and simple consumers are"
        raise GrpcRefused(words.UNRECOGNIZED_CLIENT_TYPE, text)
