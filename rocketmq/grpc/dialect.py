"""The gRPC dialect of a name server and of a broker: the translator of each RPC. Pure."""

from __future__ import annotations

from rocketmq.edge import ServerFacts
from rocketmq.grpc import acking, joining, receiving, routes, sending
from rocketmq.grpc.edge import GrpcDialect, Rpc

_NAME_SERVER_RPCS = {"QueryRoute": Rpc(routes.query_name_server, "QueryRouteRequest", "QueryRouteResponse")}
_BROKER_RPCS = {
    "QueryRoute": Rpc(routes.query_broker, "QueryRouteRequest", "QueryRouteResponse"),
    "Telemetry": Rpc(joining.telemetry, "TelemetryCommand", "TelemetryCommand", is_stream=True),
    "Heartbeat": Rpc(joining.heartbeat, "HeartbeatRequest", "HeartbeatResponse"),
    "NotifyClientTermination": Rpc(
        joining.notify_client_termination, "NotifyClientTerminationRequest", "NotifyClientTerminationResponse"
    ),
    "SendMessage": Rpc(sending.send, "SendMessageRequest", "SendMessageResponse"),
    "QueryAssignment": Rpc(receiving.query_assignment, "QueryAssignmentRequest", "QueryAssignmentResponse"),
    "ReceiveMessage": Rpc(receiving.receive, "ReceiveMessageRequest", "ReceiveMessageResponse"),
    "AckMessage": Rpc(acking.acknowledge, "AckMessageRequest", "AckMessageResponse"),
    "ChangeInvisibleDuration": Rpc(
        acking.change_invisible_duration, "ChangeInvisibleDurationRequest", "ChangeInvisibleDurationResponse"
    ),
    "ForwardMessageToDeadLetterQueue": Rpc(
        acking.forward_to_dlq, "ForwardMessageToDeadLetterQueueRequest", "ForwardMessageToDeadLetterQueueResponse"
    ),
}


def name_server_grpc(facts: ServerFacts) -> GrpcDialect:
    """RocketMQ's gRPC protocol as a name server accepts it."""
    return GrpcDialect(facts, _NAME_SERVER_RPCS, "a name server serves QueryRoute, which names the brokers to call")


def broker_grpc(facts: ServerFacts) -> GrpcDialect:
    """RocketMQ's gRPC protocol as a broker accepts it."""
    return GrpcDialect(facts, _BROKER_RPCS, f"a broker serves {', '.join(_BROKER_RPCS)}")
