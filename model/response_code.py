"""Response codes of the wire, with RocketMQ's numbers and names where it has them.

They are in `model` and not in `remoting` because every error class has the one code that represents it on the wire
(`model/errors.py`), and `model` imports nothing of ours. Codes from 90000 up are this project's own.
"""

from __future__ import annotations

from enum import IntEnum


class ResponseCode(IntEnum):
    """Results of requests. RocketMQ: ResponseCode and RemotingSysResponseCode."""

    SUCCESS = 0
    SYSTEM_ERROR = 1
    SYSTEM_BUSY = 2
    REQUEST_CODE_NOT_SUPPORTED = 3
    FLUSH_DISK_TIMEOUT = 10
    MESSAGE_ILLEGAL = 13
    SERVICE_NOT_AVAILABLE = 14
    NO_PERMISSION = 16
    TOPIC_NOT_EXIST = 17
    PULL_NOT_FOUND = 19
    PULL_RETRY_IMMEDIATELY = 20
    PULL_OFFSET_MOVED = 21
    QUERY_NOT_FOUND = 22
    SUBSCRIPTION_PARSE_FAILED = 23
    SUBSCRIPTION_GROUP_NOT_EXIST = 26
    INVALID_PARAMETER = 29
    CONSUMER_NOT_ONLINE = 206
    NO_MESSAGE = 208
    POLLING_FULL = 209
    FLOW_CONTROL = 215
    ILLEGAL_OPERATION = 604
    PROTOCOL_ERROR = 90_001
    LEASE_LOST = 90_002
    CLIENT_ID_CONFLICT = 90_003
    OFFSET_REGRESSION = 90_004
    STORAGE_FULL = 90_005
    STALE_REGISTRATION = 90_006
    STAGE_LOST = 90_007
    BROKER_NAME_TAKEN = 90_008
    NOT_AUTHENTICATED = 90_009
    NOT_MASTER = 90_010
    NOT_ENOUGH_REPLICAS = 90_011
    REPLICATION_TIMEOUT = 90_012
    REGISTER_UNAVAILABLE = 90_013
