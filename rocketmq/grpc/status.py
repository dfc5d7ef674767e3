"""The results of this project as those of RocketMQ's gRPC service. Pure."""

from __future__ import annotations

from typing import Any

from model.limits import MAX_REMARK_CHARS
from model.response_code import ResponseCode
from rocketmq.grpc import words
from rocketmq.grpc.words import WORDS

_CODES: dict[int, int] = {
    ResponseCode.SUCCESS: words.OK,
    ResponseCode.SYSTEM_BUSY: words.TOO_MANY_REQUESTS,
    ResponseCode.FLOW_CONTROL: words.TOO_MANY_REQUESTS,
    ResponseCode.POLLING_FULL: words.TOO_MANY_REQUESTS,
    ResponseCode.FLUSH_DISK_TIMEOUT: words.MASTER_TIMEOUT,
    ResponseCode.REPLICATION_TIMEOUT: words.SLAVE_TIMEOUT,
    ResponseCode.NOT_ENOUGH_REPLICAS: words.HA_NOT_AVAILABLE,
    ResponseCode.NOT_MASTER: words.HA_NOT_AVAILABLE,
    ResponseCode.MESSAGE_ILLEGAL: words.MESSAGE_CORRUPTED,
    ResponseCode.INVALID_PARAMETER: words.BAD_REQUEST,
    ResponseCode.ILLEGAL_OPERATION: words.BAD_REQUEST,
    ResponseCode.CLIENT_ID_CONFLICT: words.BAD_REQUEST,
    ResponseCode.SUBSCRIPTION_PARSE_FAILED: words.ILLEGAL_FILTER,
    ResponseCode.NO_PERMISSION: words.FORBIDDEN,
    ResponseCode.NOT_AUTHENTICATED: words.UNAUTHORIZED,
    ResponseCode.TOPIC_NOT_EXIST: words.TOPIC_NOT_FOUND,
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: words.GROUP_NOT_FOUND,
    ResponseCode.PULL_NOT_FOUND: words.MESSAGE_NOT_FOUND,
    ResponseCode.NO_MESSAGE: words.INVALID_RECEIPT_HANDLE,
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: words.NOT_IMPLEMENTED,
}
"""Other codes are failures of the server, which a client may try again."""


class GrpcRefused(ValueError):
    """A call that the edge refuses itself, with a result of RocketMQ's."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def status_of(code: int, remark: str) -> Any:
    """The status of a response code."""
    return status(_CODES.get(code, words.INTERNAL_SERVER_ERROR), remark)


def status(code: int, text: str = "") -> Any:
    """A status; half a surrogate pair in its text is escaped."""
    shown = text[:MAX_REMARK_CHARS].encode(errors="backslashreplace").decode()
    return WORDS["Status"](code=code, message=shown or ("OK" if code == words.OK else ""))
