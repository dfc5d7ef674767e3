"""Telemetry, heartbeats and farewells of clients. Pure.

RocketMQ: ClientActivity, GrpcClientSettingsManager.

A client sends its settings over a stream that lasts as long as itself, and takes over those of the answer: how often
and how fast it tries again, how long a message may be. Producers need no more: nothing of them is kept, and their
heartbeats are answered.
"""

from __future__ import annotations

from typing import Any

from model.limits import MAX_BODY_BYTES
from remoting.request_code import RequestCode
from rocketmq.grpc import words
from rocketmq.grpc.edge import Asked, Caller
from rocketmq.grpc.http2 import Call
from rocketmq.grpc.status import Refused, status
from rocketmq.grpc.words import WORDS, duration_of

_SEND_ATTEMPTS, _FIRST_PAUSE_MS, _LONGEST_PAUSE_MS, _PAUSE_FACTOR = 3, 10, 1_000, 2.0
"""How a producer tries again. RocketMQ: ClientConfig of the proxy."""
_REQUEST_TIMEOUT_MS = 3_000


def telemetry(caller: Caller, call: Call, command: Any) -> Asked | list[Any]:
    """Answer the settings of a client with those that it has to use; other commands need no answer."""
    if not command.HasField("settings"):
        return []
    said = command.settings
    if said.client_type != words.PRODUCER:
        raise Refused(words.UNRECOGNIZED_CLIENT_TYPE, _ONLY_PRODUCERS)
    backoff = WORDS["ExponentialBackoff"](
        initial=duration_of(_FIRST_PAUSE_MS), max=duration_of(_LONGEST_PAUSE_MS), multiplier=_PAUSE_FACTOR
    )
    settings = WORDS["Settings"](
        client_type=said.client_type,
        backoff_policy=WORDS["RetryPolicy"](max_attempts=_SEND_ATTEMPTS, exponential_backoff=backoff),
        request_timeout=duration_of(_REQUEST_TIMEOUT_MS),
        publishing=WORDS["Publishing"](
            topics=said.publishing.topics, max_body_size=MAX_BODY_BYTES, validate_message_type=True
        ),
        metric=WORDS["Metric"](on=False),
    )
    return _alive(WORDS["TelemetryCommand"](status=status(words.OK), settings=settings))


_ONLY_PRODUCERS = "only producers are served over gRPC here: consume with a client of the remoting protocol"


def heartbeat(caller: Caller, call: Call, request: Any) -> Asked:
    """Answer the heartbeat of a client."""
    if request.client_type != words.PRODUCER:
        raise Refused(words.UNRECOGNIZED_CLIENT_TYPE, _ONLY_PRODUCERS)
    return _alive(WORDS["HeartbeatResponse"](status=status(words.OK)))


def _alive(message: Any) -> Asked:
    """Answer with a message once the server has answered, as it does to anyone.

    A connection without a request is closed after a while, and an idle producer sends nothing else.
    """

    def answer(answered: dict[str, Any], body: bytes | None, code: int) -> list[Any]:
        return [message]

    return Asked(RequestCode.GET_SERVER_STATE, {}, None, answer)


def farewell(caller: Caller, call: Call, request: Any) -> list[Any]:
    """Answer the farewell of a client."""
    return [WORDS["NotifyClientTerminationResponse"](status=status(words.OK))]
