"""Schemas of the requests about the register of replica sets, which one name server keeps, and about single replicas.

RocketMQ: the requests of its controller, CONTROLLER_ALTER_SYNC_STATE_SET and CONTROLLER_ELECT_MASTER.
"""

from __future__ import annotations

from dataclasses import replace

from model.replica_limits import MAX_SET_NUMBER
from remoting.request_code import RequestCode
from remoting.wire.field import BROKER, Effect, Field, Rank, RequestSchema, Right

REPLICA_SCHEMA: dict[RequestCode, RequestSchema] = {
    RequestCode.GET_REPLICA_SET: RequestSchema(
        "broker -> name server",
        "The row of a replica set, or all rows of the register.",
        (replace(BROKER, required=False).requires(Right.CHANGE_SET, absent=Right.ADMIN),),
        rank=Rank.KEEPALIVE,
        answer="header `register_id`: random number of the register; body: msgpack array of encoded rows "
        "(`model/replica_set.py`). REQUEST_CODE_NOT_SUPPORTED by a name server without elections",
    ),
    RequestCode.PUT_REPLICA_SET: RequestSchema(
        "broker -> name server",
        "Replace the row of a replica set if it has the expected version, or make it.",
        (
            BROKER.requires(Right.CHANGE_SET),
            Field("expected_version", int, "0 to make the row", minimum=0, maximum=MAX_SET_NUMBER - 1),
        ),
        body="the encoded row (`model/replica_set.py`), whose name is the broker name",
        rank=Rank.KEEPALIVE,
        answer="header `written`: false if the row has another version; body: the encoded row as it is now, empty if "
        "the register has no row of this set. ILLEGAL_OPERATION if the row may not follow the stored one",
    ),
    RequestCode.GET_REPLICAS: RequestSchema(
        "admin -> any replica",
        "The state of a replica in any role, and of its set as it knows it.",
        answer="body: msgpack map: `row`, the encoded row or nil, the id, the role (master, following, waiting), the "
        "log position of it, whether the register answers it and where that is, the least margin of the lease of a "
        "master, and how far each other one of it has come",
        right=Right.ADMIN,
        effect=Effect.LOCAL,
    ),
    RequestCode.HAND_OVER: RequestSchema(
        "admin -> any replica",
        "Make another replica in sync the master, without loss.",
        (
            Field(
                "replica_id", int, "the replica that takes over; 0 for any in sync", minimum=0, maximum=MAX_SET_NUMBER
            ),
        ),
        answer="body: the encoded row, in which the other one is the master. NOT_MASTER if this one is not; "
        "REPLICATION_TIMEOUT if the others did not get everything in time, so this one serves on",
        right=Right.ADMIN,
        effect=Effect.LOCAL,
    ),
    RequestCode.REMOVE_REPLICA_SET: RequestSchema(
        "admin -> name server",
        "Remove the row of a replica set if it has the expected version: all its replicas are gone for good.",
        (
            replace(BROKER, right=None),
            Field("expected_version", int, "version of the row", minimum=1, maximum=MAX_SET_NUMBER),
        ),
        answer="header `removed`: false if the row has another version; body: then the encoded row, empty if the "
        "register has no row of this set",
        right=Right.ADMIN,
    ),
}
