"""The rights that each request takes. Pure.

A request that is not in this table takes `admin`: one that is added is refused until somebody has thought of it. Most
requests name their topic and group in the header, and a user's answer to such a pair is remembered by the gate. Those
whose body has names are read here, each time: all of them are rare, or about many messages at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgpack

from model.errors import InvalidParameter
from model.heartbeat import HeartbeatData
from remoting.body import rows_of, unpacked
from remoting.command import Command
from remoting.request_code import RequestCode
from remoting.security.policy import Right

Wanted = tuple[Right, str]
"""A right, and the name of the topic, group or broker."""


class RequestNeed(NamedTuple):
    """The rights that a request takes to the topic and the group of its header, and to the cluster."""

    topic: Right | None = None
    group: Right | None = None
    cluster: Right | None = None
    body: Callable[[Command], Iterator[Wanted]] | None = None


def _heartbeat(request: Command) -> Iterator[Wanted]:
    if not request.body:
        return  # it repeats one that this connection has sent
    data = HeartbeatData.from_wire(unpacked(request.body))
    for group in data.checkers:  # other producers of a group are asked nothing
        yield Right.MEMBER, group
    for consumer in data.consumers:
        yield Right.MEMBER, consumer.group
        for subscription in consumer.subscriptions:
            yield Right.CONSUME, subscription.topic


def _left_groups(request: Command) -> Iterator[Wanted]:
    for group in request.header["groups"]:
        yield Right.MEMBER, group


def _half_messages(request: Command) -> Iterator[Wanted]:
    for topic in dict.fromkeys(row[0] for row in rows_of(request)):
        yield Right.PRODUCE, topic


def _staged(request: Command) -> Iterator[Wanted]:
    try:
        rows: Any = msgpack.unpackb(request.body or b"", use_list=False)
        topics = {str(row[0]): None for row in rows}
    except (ValueError, TypeError, LookupError, msgpack.UnpackException) as error:
        raise InvalidParameter(
            "SINK_STAGE: the body must be an array of [topic, queue id, tag hash, payload]"
        ) from error
    for topic in topics:
        yield Right.PRODUCE, topic


_MEMBER = RequestNeed(group=Right.MEMBER)
_MANAGE_GROUP = RequestNeed(group=Right.MANAGE_GROUP)
_KNOW_GROUP = RequestNeed(group=Right.KNOW_GROUP)
_KNOW_TOPIC = RequestNeed(topic=Right.KNOW)
_MANAGE_TOPIC = RequestNeed(topic=Right.MANAGE_TOPIC)
_PRODUCE = RequestNeed(topic=Right.PRODUCE)
_POP = RequestNeed(topic=Right.CONSUME, group=Right.MEMBER)
_ADMIN = RequestNeed(cluster=Right.ADMIN)
_ANYONE = RequestNeed(cluster=Right.ANYONE)
_REGISTER = RequestNeed(cluster=Right.REGISTER)

NEEDS: dict[RequestCode, RequestNeed] = {
    RequestCode.SEND_MESSAGE: _PRODUCE,
    RequestCode.SEND_BATCH_MESSAGE: _PRODUCE,
    RequestCode.SEND_HALF_MESSAGE: RequestNeed(group=Right.MEMBER, body=_half_messages),
    RequestCode.END_TRANSACTION: _MEMBER,
    RequestCode.SINK_STAGE: RequestNeed(body=_staged),
    RequestCode.SINK_SPREAD: _PRODUCE,
    # Whose batch it is, the claim on its query says.
    RequestCode.SINK_COMMIT: _ANYONE,
    RequestCode.SINK_ABORT: _ANYONE,
    # The group too, as soon as the pull is for more than to read: see `wanted`.
    RequestCode.PULL_MESSAGE: RequestNeed(topic=Right.CONSUME, group=Right.MEMBER),
    RequestCode.POP_MESSAGE: _POP,
    RequestCode.CONSUMER_SEND_MSG_BACK: _POP,
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME: _MEMBER,
    RequestCode.ACK_MESSAGE: _MEMBER,
    RequestCode.BATCH_ACK_MESSAGE: _MEMBER,
    RequestCode.QUERY_MESSAGE: RequestNeed(topic=Right.CONSUME),
    RequestCode.VIEW_MESSAGE_BY_ID: RequestNeed(topic=Right.CONSUME),  # in all topics: the header names none
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: _KNOW_TOPIC,
    RequestCode.GET_MAX_OFFSET: _KNOW_TOPIC,
    RequestCode.GET_MIN_OFFSET: _KNOW_TOPIC,
    RequestCode.HEART_BEAT: RequestNeed(body=_heartbeat),
    RequestCode.UNREGISTER_CLIENT: RequestNeed(body=_left_groups),
    RequestCode.LOCK_BATCH_MQ: _MEMBER,
    RequestCode.UNLOCK_BATCH_MQ: _MEMBER,
    RequestCode.UPDATE_CONSUMER_OFFSET: _MEMBER,
    RequestCode.QUERY_CONSUMER_OFFSET: _KNOW_GROUP,
    RequestCode.QUERY_ASSIGNMENT: _MEMBER,
    RequestCode.QUERY_TOPIC_ASSIGNMENT: RequestNeed(topic=Right.KNOW, group=Right.MEMBER),
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: _KNOW_GROUP,
    RequestCode.GET_CONSUMER_CONNECTION_LIST: _KNOW_GROUP,
    RequestCode.GET_CONSUMER_RUNNING_INFO: _KNOW_GROUP,
    RequestCode.CONSUME_MESSAGE_DIRECTLY: RequestNeed(topic=Right.CONSUME, group=Right.MANAGE_GROUP),
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: _KNOW_GROUP,
    RequestCode.GET_CONSUME_STATS: _KNOW_GROUP,
    RequestCode.GET_POP_STATS: _KNOW_GROUP,
    RequestCode.GET_GROUP_ASSIGNMENT: _KNOW_GROUP,
    RequestCode.GET_PRODUCER_CONNECTION_LIST: _KNOW_GROUP,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: _MANAGE_GROUP,
    RequestCode.DELETE_SUBSCRIPTIONGROUP: _MANAGE_GROUP,
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: _MANAGE_GROUP,
    RequestCode.SET_MESSAGE_REQUEST_MODE: _MANAGE_GROUP,
    RequestCode.MARK_DEAD_LETTERS: _MANAGE_GROUP,
    RequestCode.UPDATE_AND_CREATE_TOPIC: _MANAGE_TOPIC,
    RequestCode.DELETE_TOPIC_IN_BROKER: _MANAGE_TOPIC,
    RequestCode.DELETE_TOPIC_IN_NAMESRV: _MANAGE_TOPIC,
    RequestCode.GET_ROUTEINFO_BY_TOPIC: _KNOW_TOPIC,
    RequestCode.REGISTER_BROKER: _REGISTER,
    RequestCode.UNREGISTER_BROKER: _REGISTER,
    # Addresses of brokers: every client gets them with its first route.
    RequestCode.GET_BROKER_CLUSTER_INFO: _ANYONE,
    RequestCode.GET_SERVER_STATE: _ANYONE,
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: _ADMIN,
    RequestCode.ADD_WRITE_PERM_OF_BROKER: _ADMIN,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: _ADMIN,
    RequestCode.GET_ALL_PRODUCER_INFO: _ADMIN,
    RequestCode.GET_BROKER_CONSUME_STATS: _ADMIN,
    # With a topic they tell of that topic only.
    RequestCode.GET_BROKER_RUNTIME_INFO: _KNOW_TOPIC,
    RequestCode.GET_GROUP_LIST: _KNOW_TOPIC,
    RequestCode.GET_ABSENT_BROKERS: _KNOW_TOPIC,
    RequestCode.FORGET_BROKER: _ADMIN,
}

_IN_ALL_TOPICS = "*"
_OF_CLUSTER = (RequestCode.GET_BROKER_RUNTIME_INFO, RequestCode.GET_GROUP_LIST, RequestCode.GET_ABSENT_BROKERS)


def wanted(request: Command) -> Iterator[Wanted]:
    """Yield each right that a request takes.

    Raises:
        InvalidParameter: the body cannot be read.
    """
    code, header = request.code, request.header
    need = NEEDS.get(RequestCode(code), _ADMIN)
    topic = header.get("topic")
    if code in _OF_CLUSTER and topic is None:
        need = _ADMIN
    if need.topic is not None:
        yield need.topic, _IN_ALL_TOPICS if topic is None else topic
    if need.group is not None and not (code == RequestCode.PULL_MESSAGE and is_plain_read(header)):
        yield need.group, header["group"]
    if need.cluster is not None:
        yield need.cluster, header["broker_name"] if need.cluster is Right.REGISTER else ""
    if need.body is not None:
        yield from need.body(request)


def is_plain_read(header: dict[str, Any]) -> bool:
    """Whether a pull only reads: it acts for no member, and commits nothing."""
    return header.get("client_id") is None and header.get("token") is None and header.get("commit") is None


def names_of(request: Command) -> list[str]:
    """The ids in a request that belong to one user only: client ids, and of sinks the id of the query."""
    header = request.header
    names = [header["client_id"]] if header.get("client_id") is not None else []
    if "query_id" in header:
        names.append(f"query {header['query_id']}")
    if request.code == RequestCode.HEART_BEAT and request.body:
        names.append(HeartbeatData.from_wire(unpacked(request.body)).client_id)
    return names
