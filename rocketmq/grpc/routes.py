"""Translates QueryRoute. Pure. RocketMQ: RouteActivity.

Each queue of the route has its broker's address. It is the address for which the broker is registered, so no other one
has to be configured.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

import msgpack

from model.topic_route import MessageType, Perm
from remoting.address import parse_address
from remoting.request_code import RequestCode
from remoting.wire.pop import ANY_QUEUE
from rocketmq.grpc import words
from rocketmq.grpc.edge import Asked, GrpcCaller
from rocketmq.grpc.http2 import GrpcCall
from rocketmq.grpc.status import GrpcRefused, status
from rocketmq.grpc.words import WORDS

_ACCEPTED_TYPES = {
    MessageType.MIXED: (words.NORMAL, words.FIFO, words.DELAY),
    MessageType.NORMAL: (words.NORMAL,),
    MessageType.FIFO: (words.FIFO,),
    MessageType.DELAY: (words.DELAY,),
    MessageType.TRANSACTION: (words.TRANSACTION,),
}
"""The types of messages that a topic of a type takes; a client refuses to send others before it asks."""
_MASTER = 0


def query_name_server(caller: GrpcCaller, call: GrpcCall, request: Any) -> Asked:
    """Translate the request for the brokers and queues of a topic, at a name server."""
    return _query(RequestCode.GET_ROUTEINFO_BY_TOPIC, request)


def query_broker(caller: GrpcCaller, call: GrpcCall, request: Any) -> Asked:
    """Translate the request for the brokers and queues of a topic, at a broker, which asks its name server."""
    return _query(RequestCode.GET_ROUTE_OF_BROKER, request)


def _query(code: RequestCode, request: Any) -> Asked:
    topic = topic_of(request.topic)

    def answer(answered: dict[str, Any], body: bytes | None, code: int) -> list[Any]:
        found: Any = msgpack.unpackb(body or b"")
        types: dict[str, int] = found.get("message_types", {})
        addresses = _masters(found)
        queues = [
            _queue(topic, name, addresses[name], queue_id, permission, types.get(name, 0))
            for name, read, write, perm in found["queues"]
            if name in addresses
            for queue_id, permission in _permissions(read, write, perm)
        ]
        return [WORDS["QueryRouteResponse"](status=status(words.OK), message_queues=queues)]

    return Asked(code, {"topic": topic}, None, answer)


def readable_brokers(topic: str, found: Any) -> list[Any]:
    """One queue for each broker of a route that can be read; its number stands for any queue of the broker."""
    addresses, types = _masters(found), found.get("message_types", {})
    return [
        _queue(topic, name, addresses[name], ANY_QUEUE, words.READ, types.get(name, 0))
        for name, read, _, perm in found["queues"]
        if name in addresses and read and perm & Perm.READ
    ]


def _masters(found: Any) -> dict[str, str]:
    return {
        name: address for _, name, listed in found["brokers"] for broker_id, address in listed if broker_id == _MASTER
    }


def _permissions(read: int, write: int, perm: int) -> list[tuple[int, int]]:
    """The queues of one broker, each with its permission; those without one are left out."""
    n_read = read if perm & Perm.READ else 0
    n_write = write if perm & Perm.WRITE else 0
    both = min(n_read, n_write)
    return [
        (queue_id, words.READ_WRITE if queue_id < both else words.READ if n_read > n_write else words.WRITE)
        for queue_id in range(max(n_read, n_write))
    ]


def _queue(topic: str, broker: str, address: str, queue_id: int, permission: int, message_type: int) -> Any:
    return WORDS["MessageQueue"](
        topic=WORDS["Resource"](name=topic),
        id=queue_id,
        permission=permission,
        broker=WORDS["Broker"](name=broker, id=_MASTER, endpoints=endpoints_of(address)),
        accept_message_types=_ACCEPTED_TYPES[MessageType(message_type)],
    )


def endpoints_of(address: str) -> Any:
    """The endpoints of one address `host:port`."""
    host, port = parse_address(address)
    try:
        scheme = words.IPV4 if ip_address(host).version == 4 else words.IPV6
    except ValueError:
        scheme = words.DOMAIN_NAME
    return WORDS["Endpoints"](scheme=scheme, addresses=[WORDS["Address"](host=host, port=port)])


def topic_of(resource: Any) -> str:
    """The topic that a message names; namespaces are not kept apart.

    Raises:
        GrpcRefused: it names none.
    """
    if not resource.name:
        raise GrpcRefused(words.ILLEGAL_TOPIC, "the name of the topic is missing")
    return str(resource.name)
