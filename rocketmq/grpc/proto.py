"""The messages of RocketMQ's gRPC service: names, numbers and types of their fields, built into classes. Pure.

The table has the messages that are served here; a field that a peer sends and that the table leaves out is skipped.
Enumerations are plain numbers, of which the ones in use are listed below the table. Its descriptors are in a pool of
their own: in one process with a stock client of RocketMQ, the default pool would have two definitions of each message.

    >>> status = MESSAGES["Status"](code=OK, message="fine")
    >>> MESSAGES["Status"].FromString(status.SerializeToString()).code
    20000

RocketMQ: definition.proto and service.proto of its APIs.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_PACKAGE = "rlab.grpc"
_DEFINITIONS = """
Duration: 1 seconds int64, 2 nanos int32
Timestamp: 1 seconds int64, 2 nanos int32
Resource: 1 resource_namespace string, 2 name string
FilterExpression: 1 type int32, 2 expression string
ExponentialBackoff: 1 initial Duration, 2 max Duration, 3 multiplier float
CustomizedBackoff: 1 next Duration*
RetryPolicy: 1 max_attempts int32, 2 exponential_backoff ExponentialBackoff, 3 customized_backoff CustomizedBackoff
SubscriptionEntry: 1 topic Resource, 2 expression FilterExpression
Address: 1 host string, 2 port int32
Endpoints: 1 scheme int32, 2 addresses Address*
Broker: 1 name string, 2 id int32, 3 endpoints Endpoints
MessageQueue: 1 topic Resource, 2 id int32, 3 permission int32, 4 broker Broker, 5 accept_message_types int32*
Digest: 1 type int32, 2 checksum string
SystemProperties: 1 tag string, 2 keys string*, 3 message_id string, 4 body_digest Digest, 5 body_encoding int32,
    6 message_type int32, 7 born_timestamp Timestamp, 8 born_host string, 9 store_timestamp Timestamp,
    10 store_host string, 11 delivery_timestamp Timestamp, 12 receipt_handle string, 13 queue_id int32,
    14 queue_offset int64, 15 invisible_duration Duration, 16 delivery_attempt int32, 17 message_group string,
    18 trace_context string, 19 orphaned_transaction_recovery_duration Duration
Message: 1 topic Resource, 2 user_properties map, 3 system_properties SystemProperties, 4 body bytes
Status: 1 code int32, 2 message string
Publishing: 1 topics Resource*, 2 max_body_size int32, 3 validate_message_type bool
Subscription: 1 group Resource, 2 subscriptions SubscriptionEntry*, 3 fifo bool, 4 receive_batch_size int32,
    5 long_polling_timeout Duration
Metric: 1 on bool
Settings: 1 client_type int32, 3 backoff_policy RetryPolicy, 4 request_timeout Duration, 5 publishing Publishing,
    6 subscription Subscription, 8 metric Metric
ThreadStackTrace: 1 nonce string, 2 thread_stack_trace string
VerifyMessageResult: 1 nonce string
RecoverOrphanedTransactionCommand: 1 message Message, 2 transaction_id string
PrintThreadStackTraceCommand: 1 nonce string
VerifyMessageCommand: 1 nonce string, 2 message Message
TelemetryCommand: 1 status Status, 2 settings Settings, 3 thread_stack_trace ThreadStackTrace,
    4 verify_message_result VerifyMessageResult,
    5 recover_orphaned_transaction_command RecoverOrphanedTransactionCommand,
    6 print_thread_stack_trace_command PrintThreadStackTraceCommand, 7 verify_message_command VerifyMessageCommand
QueryRouteRequest: 1 topic Resource, 2 endpoints Endpoints
QueryRouteResponse: 1 status Status, 2 message_queues MessageQueue*
SendMessageRequest: 1 messages Message*
SendResultEntry: 1 status Status, 2 message_id string, 3 transaction_id string, 4 offset int64, 5 recall_handle string
SendMessageResponse: 1 status Status, 2 entries SendResultEntry*
Assignment: 1 message_queue MessageQueue
QueryAssignmentRequest: 1 topic Resource, 2 group Resource, 3 endpoints Endpoints
QueryAssignmentResponse: 1 status Status, 2 assignments Assignment*
ReceiveMessageRequest: 1 group Resource, 2 message_queue MessageQueue, 3 filter_expression FilterExpression,
    4 batch_size int32, 5 invisible_duration Duration, 6 auto_renew bool, 7 long_polling_timeout Duration,
    8 attempt_id string
ReceiveMessageResponse: 1 status Status, 2 message Message, 3 delivery_timestamp Timestamp
AckMessageEntry: 1 message_id string, 2 receipt_handle string
AckMessageRequest: 1 group Resource, 2 topic Resource, 3 entries AckMessageEntry*
AckMessageResultEntry: 1 message_id string, 2 receipt_handle string, 3 status Status
AckMessageResponse: 1 status Status, 2 entries AckMessageResultEntry*
ChangeInvisibleDurationRequest: 1 group Resource, 2 topic Resource, 3 receipt_handle string,
    4 invisible_duration Duration, 5 message_id string
ChangeInvisibleDurationResponse: 1 status Status, 2 receipt_handle string
ForwardMessageToDeadLetterQueueRequest: 1 group Resource, 2 topic Resource, 3 receipt_handle string,
    4 message_id string, 5 delivery_attempt int32, 6 max_delivery_attempts int32
ForwardMessageToDeadLetterQueueResponse: 1 status Status
EndTransactionRequest: 1 topic Resource, 2 message_id string, 3 transaction_id string, 4 resolution int32,
    5 source int32
EndTransactionResponse: 1 status Status
RecallMessageRequest: 1 topic Resource, 2 recall_handle string
RecallMessageResponse: 1 status Status, 2 message_id string
HeartbeatRequest: 1 group Resource, 2 client_type int32
HeartbeatResponse: 1 status Status
NotifyClientTerminationRequest: 1 group Resource
NotifyClientTerminationResponse: 1 status Status
"""
"""One message a line, indented lines continue it: number, name and type of each field; `*` is a list of it."""

OK, MULTIPLE_RESULTS = 20_000, 30_000
BAD_REQUEST, ILLEGAL_TOPIC, ILLEGAL_GROUP = 40_000, 40_002, 40_003
ILLEGAL_MESSAGE_GROUP, ILLEGAL_PROPERTY_KEY, INVALID_TRANSACTION_ID, ILLEGAL_MESSAGE_ID = 40_006, 40_007, 40_008, 40_009
ILLEGAL_FILTER, ILLEGAL_INVISIBLE_TIME, ILLEGAL_DELIVERY_TIME, INVALID_RECEIPT_HANDLE = 40_010, 40_011, 40_012, 40_013
CONFLICT_WITH_TYPE, UNRECOGNIZED_CLIENT_TYPE, MESSAGE_CORRUPTED, CLIENT_ID_REQUIRED = 40_014, 40_015, 40_016, 40_017
UNAUTHORIZED, FORBIDDEN = 40_100, 40_300
NOT_FOUND, MESSAGE_NOT_FOUND, TOPIC_NOT_FOUND, GROUP_NOT_FOUND = 40_400, 40_401, 40_402, 40_403
BODY_TOO_LARGE, BODY_EMPTY, TOO_MANY_REQUESTS = 41_301, 41_302, 42_900
INTERNAL_SERVER_ERROR, HA_NOT_AVAILABLE, NOT_IMPLEMENTED = 50_001, 50_002, 50_100
PROXY_TIMEOUT, MASTER_TIMEOUT, SLAVE_TIMEOUT = 50_400, 50_401, 50_402
FAILED_TO_CONSUME = 60_000
"""Results. RocketMQ: Code."""

NORMAL, FIFO, DELAY, TRANSACTION = 1, 2, 3, 4
"""Types of messages. RocketMQ: MessageType."""
COMMIT, ROLLBACK = 1, 2
"""Ends of a transaction; any other number leaves it open. RocketMQ: TransactionResolution."""
SERVER_CHECK = 2
"""The end of a transaction that answers a check. RocketMQ: TransactionSource."""
PRODUCER, PUSH_CONSUMER, SIMPLE_CONSUMER = 1, 2, 3
"""Types of clients. RocketMQ: ClientType."""
READ, WRITE, READ_WRITE = 2, 3, 4
"""Permissions of a queue. RocketMQ: Permission."""
IPV4, IPV6, DOMAIN_NAME = 1, 2, 3
"""Kinds of addresses. RocketMQ: AddressScheme."""
IDENTITY, GZIP = 1, 2
"""Encodings of a body. RocketMQ: Encoding."""
TAG, SQL = 1, 2
"""Kinds of filters. RocketMQ: FilterType."""
MD5 = 2
"""The digest of which all clients compute the same text. RocketMQ: DigestType."""

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "int32": _Field.TYPE_INT32,
    "int64": _Field.TYPE_INT64,
    "float": _Field.TYPE_FLOAT,
    "bool": _Field.TYPE_BOOL,
    "string": _Field.TYPE_STRING,
    "bytes": _Field.TYPE_BYTES,
}


def _build() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="rlab/grpc.proto", package=_PACKAGE, syntax="proto3")
    for line in _DEFINITIONS.replace("\n    ", " ").strip().splitlines():
        name, _, fields = line.partition(": ")
        message = file.message_type.add(name=name)
        for each in fields.split(", "):
            number, field_name, kind = each.split()
            _add_field(message, int(number), field_name, kind)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = (pool.FindMessageTypeByName(f"{_PACKAGE}.{message.name}") for message in file.message_type)
    return {each.name: message_factory.GetMessageClass(each) for each in found}


def _add_field(message: Any, number: int, name: str, kind: str) -> None:
    label = _Field.LABEL_REPEATED if kind.endswith("*") or kind == "map" else _Field.LABEL_OPTIONAL
    kind = kind.removesuffix("*")
    if kind == "map":  # of texts; in a descriptor it is a list of pairs
        pair = message.nested_type.add(name="UserPropertiesEntry")
        pair.options.map_entry = True
        _add_field(pair, 1, "key", "string")
        _add_field(pair, 2, "value", "string")
        kind = f"{message.name}.{pair.name}"
    field = message.field.add(name=name, number=number, label=label)
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"


MESSAGES: dict[str, Any] = _build()
"""Message name -> its class."""


_MAX_MS = 2**53
"""Every reader has it as a whole number. The largest number of seconds is more in ms than 64 bits hold."""


def duration_ms(duration: Any) -> int:
    """Milliseconds of a Duration or Timestamp, rounded down; of one beyond 285,000 years, the next that is not."""
    ms = int(duration.seconds) * 1000 + int(duration.nanos) // 1_000_000
    return max(-_MAX_MS, min(ms, _MAX_MS))


def set_time(part: Any, ms: int) -> None:
    """Set a Duration or Timestamp of a message to milliseconds."""
    part.seconds, part.nanos = ms // 1000, ms % 1000 * 1_000_000


def to_duration(ms: int) -> Any:
    """A Duration of milliseconds."""
    return MESSAGES["Duration"](seconds=ms // 1000, nanos=ms % 1000 * 1_000_000)


def to_timestamp(ms: int) -> Any:
    """A Timestamp of the wall clock in milliseconds."""
    return MESSAGES["Timestamp"](seconds=ms // 1000, nanos=ms % 1000 * 1_000_000)
