"""The requests about the replicas of a broker: the register of replica sets, which one name server keeps.

RocketMQ: the requests of its controller, CONTROLLER_ALTER_SYNC_STATE_SET and CONTROLLER_ELECT_MASTER.
"""

from __future__ import annotations

from dataclasses import replace

from model.replica_limits import MAX_SET_NUMBER
from remoting.request_code import RequestCode
from remoting.wire.field import BROKER, Field, Rank, RequestSchema, Right

REPLICA_SCHEMA: dict[RequestCode, RequestSchema] = {
    RequestCode.GET_REPLICA_SET: RequestSchema(
        "broker -> name server",
        "The row of a replica set, or all rows of the register.",
        (replace(BROKER, required=False).takes(Right.CHANGE_SET, absent=Right.ADMIN),),
        rank=Rank.KEEPALIVE,
        answer="header `register_id`: random number of the register; body: msgpack array of encoded rows "
        "(`model/replica_set.py`). REQUEST_CODE_NOT_SUPPORTED by a name server without elections",
    ),
    RequestCode.PUT_REPLICA_SET: RequestSchema(
        "broker -> name server",
        "Replace the row of a replica set if it has the expected version, or make it.",
        (
            BROKER.takes(Right.CHANGE_SET),
            Field("expected_version", int, "0 to make the row", minimum=0, maximum=MAX_SET_NUMBER - 1),
        ),
        body="the encoded row (`model/replica_set.py`), whose name is the broker name",
        rank=Rank.KEEPALIVE,
        answer="header `written`: false if the row has another version; body: the encoded row as it is now, empty if "
        "there is none. ILLEGAL_OPERATION if the row may not follow the stored one",
    ),
    RequestCode.REMOVE_REPLICA_SET: RequestSchema(
        "admin -> name server",
        "Remove the row of a replica set if it has the expected version: all its replicas are gone for good.",
        (
            replace(BROKER, right=None),
            Field("expected_version", int, "version of the row", minimum=1, maximum=MAX_SET_NUMBER),
        ),
        answer="header `removed`: false if the row has another version; body: then the encoded row, empty if there is "
        "none",
        right=Right.ADMIN,
    ),
}
