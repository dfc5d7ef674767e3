"""The gRPC dialect of a name server and of a broker: the translator of each RPC. Pure."""

from __future__ import annotations

from remoting.request_code import RequestCode
from rocketmq.edge import ServerFacts
from rocketmq.grpc import acking, joining, receiving, routes, sending, transactions
from rocketmq.grpc.edge import TELEMETRY, GrpcDialect, Notifier, Rpc

_NAME_SERVER_RPCS = {
    "QueryRoute": Rpc(routes.query_name_server, "QueryRouteRequest", "QueryRouteResponse"),
    "RecallMessage": Rpc(sending.recall_at_name_server, "RecallMessageRequest", "RecallMessageResponse"),
}
_BROKER_RPCS = {
    "QueryRoute": Rpc(routes.query_broker, "QueryRouteRequest", "QueryRouteResponse"),
    TELEMETRY: Rpc(
        joining.telemetry, "TelemetryCommand", "TelemetryCommand", is_stream=True, ended=joining.stream_ended
    ),
    "Heartbeat": Rpc(joining.heartbeat, "HeartbeatRequest", "HeartbeatResponse"),
    "NotifyClientTermination": Rpc(
        joining.notify_client_termination, "NotifyClientTerminationRequest", "NotifyClientTerminationResponse"
    ),
    "SendMessage": Rpc(sending.send, "SendMessageRequest", "SendMessageResponse"),
    "RecallMessage": Rpc(sending.recall, "RecallMessageRequest", "RecallMessageResponse"),
    "EndTransaction": Rpc(transactions.end, "EndTransactionRequest", "EndTransactionResponse"),
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

_BROKER_NOTIFIERS: dict[int, Notifier] = {
    RequestCode.CHECK_TRANSACTION_STATE: transactions.check,
    RequestCode.CONSUME_MESSAGE_DIRECTLY: joining.verify_message,
    RequestCode.GET_CONSUMER_RUNNING_INFO: joining.running_info,
}


def name_server_grpc(facts: ServerFacts) -> GrpcDialect:
    """RocketMQ's gRPC protocol as a name server accepts it."""
    return GrpcDialect(facts, _NAME_SERVER_RPCS, "a name server serves QueryRoute, which names the brokers to call")


def broker_grpc(facts: ServerFacts) -> GrpcDialect:
    """RocketMQ's gRPC protocol as a broker accepts it."""
    return GrpcDialect(facts, _BROKER_RPCS, f"a broker serves {', '.join(_BROKER_RPCS)}", _BROKER_NOTIFIERS)
