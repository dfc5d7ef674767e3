"""The results of this project as those of RocketMQ's gRPC service. Pure."""

from __future__ import annotations

from typing import Any

from model.limits import MAX_REMARK_CHARS
from model.response_code import ResponseCode
from rocketmq.grpc import proto
from rocketmq.grpc.proto import MESSAGES

_CODES: dict[int, int] = {
    ResponseCode.SUCCESS: proto.OK,
    ResponseCode.SYSTEM_BUSY: proto.TOO_MANY_REQUESTS,
    ResponseCode.FLOW_CONTROL: proto.TOO_MANY_REQUESTS,
    ResponseCode.POLLING_FULL: proto.TOO_MANY_REQUESTS,
    ResponseCode.FLUSH_DISK_TIMEOUT: proto.MASTER_TIMEOUT,
    ResponseCode.REPLICATION_TIMEOUT: proto.SLAVE_TIMEOUT,
    ResponseCode.NOT_ENOUGH_REPLICAS: proto.HA_NOT_AVAILABLE,
    ResponseCode.NOT_MASTER: proto.HA_NOT_AVAILABLE,
    ResponseCode.MESSAGE_ILLEGAL: proto.MESSAGE_CORRUPTED,
    ResponseCode.INVALID_PARAMETER: proto.BAD_REQUEST,
    ResponseCode.ILLEGAL_OPERATION: proto.BAD_REQUEST,
    ResponseCode.CLIENT_ID_CONFLICT: proto.BAD_REQUEST,
    ResponseCode.SUBSCRIPTION_PARSE_FAILED: proto.ILLEGAL_FILTER,
    ResponseCode.NO_PERMISSION: proto.FORBIDDEN,
    ResponseCode.NOT_AUTHENTICATED: proto.UNAUTHORIZED,
    ResponseCode.TOPIC_NOT_EXIST: proto.TOPIC_NOT_FOUND,
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: proto.GROUP_NOT_FOUND,
    ResponseCode.QUERY_NOT_FOUND: proto.MESSAGE_NOT_FOUND,
    ResponseCode.PULL_NOT_FOUND: proto.MESSAGE_NOT_FOUND,
    ResponseCode.NO_MESSAGE: proto.INVALID_RECEIPT_HANDLE,
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: proto.NOT_IMPLEMENTED,
}
"""Other codes are failures of the server, which a client may try again."""


class GrpcRefused(ValueError):
    """A call that the edge refuses itself, with a result of RocketMQ's."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def status_of(code: int, remark: str) -> Any:
    """The status of a response code."""
    return status(_CODES.get(code, proto.INTERNAL_SERVER_ERROR), remark)


def status(code: int, text: str = "") -> Any:
    """A status; half a surrogate pair in its text is escaped."""
    shown = text[:MAX_REMARK_CHARS].encode(errors="backslashreplace").decode()
    return MESSAGES["Status"](code=code, message=shown or ("OK" if code == proto.OK else ""))
