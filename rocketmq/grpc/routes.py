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
from rocketmq.grpc import proto
from rocketmq.grpc.edge import GrpcConnection, GrpcRequest
from rocketmq.grpc.http2.call import GrpcCall
from rocketmq.grpc.proto import MESSAGES
from rocketmq.grpc.status import GrpcRefused, status

_ACCEPTED_TYPES = {
    MessageType.MIXED: (proto.NORMAL, proto.FIFO, proto.DELAY, proto.TRANSACTION),
    MessageType.NORMAL: (proto.NORMAL,),
    MessageType.FIFO: (proto.FIFO,),
    MessageType.DELAY: (proto.DELAY,),
    MessageType.TRANSACTION: (proto.TRANSACTION,),
}
"""The types of messages that a topic of a type takes; a client refuses to send others before it asks."""
_MASTER = 0


def query_name_server(connection: GrpcConnection, call: GrpcCall, request: Any) -> GrpcRequest:
    """Translate the request for the brokers and queues of a topic, at a name server."""
    return _query(RequestCode.GET_ROUTEINFO_BY_TOPIC, request)


def query_broker(connection: GrpcConnection, call: GrpcCall, request: Any) -> GrpcRequest:
    """Translate the request for the brokers and queues of a topic, at a broker, which asks its name server."""
    return _query(RequestCode.GET_ROUTEINFO_FROM_BROKER, request)


def _query(code: RequestCode, request: Any) -> GrpcRequest:
    topic = required_topic(request.topic)

    def answer(answer_header: dict[str, Any], body: bytes | None, code: int) -> list[Any]:
        route: Any = msgpack.unpackb(body or b"")
        types: dict[str, int] = route.get("message_types", {})
        addresses = _masters(route)
        queues = [
            (queue_id, name, permission)
            for name, read, write, perm in route["queues"]
            if name in addresses
            for queue_id, permission in _permissions(read, write, perm)
        ]
        # The brokers in turns: a client repeats a failed send at the next queue of the list, three times at most, and
        # with four queues of one broker in a row all of them would go to a broker that is dead.
        queues.sort()
        found = [
            _queue(topic, name, addresses[name], queue_id, permission, types.get(name, 0))
            for queue_id, name, permission in queues
        ]
        return [MESSAGES["QueryRouteResponse"](status=status(proto.OK), message_queues=found)]

    return GrpcRequest(code, {"topic": topic}, None, answer)


def readable_brokers(topic: str, route: Any) -> list[Any]:
    """One queue for each broker of a route that can be read; its number stands for any queue of the broker."""
    addresses, types = _masters(route), route.get("message_types", {})
    return [
        _queue(topic, name, addresses[name], ANY_QUEUE, proto.READ, types.get(name, 0))
        for name, read, _, perm in route["queues"]
        if name in addresses and read and perm & Perm.READ
    ]


def _masters(route: Any) -> dict[str, str]:
    return {
        name: address for _, name, listed in route["brokers"] for broker_id, address in listed if broker_id == _MASTER
    }


def _permissions(read: int, write: int, perm: int) -> list[tuple[int, int]]:
    """The queues of one broker, each with its permission; those without one are left out."""
    n_read = read if perm & Perm.READ else 0
    n_write = write if perm & Perm.WRITE else 0
    both = min(n_read, n_write)
    return [
        (queue_id, proto.READ_WRITE if queue_id < both else proto.READ if n_read > n_write else proto.WRITE)
        for queue_id in range(max(n_read, n_write))
    ]


def _queue(topic: str, broker: str, address: str, queue_id: int, permission: int, message_type: int) -> Any:
    return MESSAGES["MessageQueue"](
        topic=MESSAGES["Resource"](name=topic),
        id=queue_id,
        permission=permission,
        broker=MESSAGES["Broker"](name=broker, id=_MASTER, endpoints=to_endpoints(address)),
        accept_message_types=_ACCEPTED_TYPES[MessageType(message_type)],
    )


def to_endpoints(address: str) -> Any:
    """The endpoints of one address `host:port`."""
    host, port = parse_address(address)
    try:
        scheme = proto.IPV4 if ip_address(host).version == 4 else proto.IPV6
    except ValueError:
        scheme = proto.DOMAIN_NAME
    return MESSAGES["Endpoints"](scheme=scheme, addresses=[MESSAGES["Address"](host=host, port=port)])


def required_topic(resource: Any) -> str:
    """The topic that a message names; namespaces are not kept apart.

    Raises:
        GrpcRefused: it names none.
    """
    if not resource.name:
        raise GrpcRefused(proto.ILLEGAL_TOPIC, "the name of the topic is missing")
    return str(resource.name)
