"""Schemas of the requests between the replicas of a broker: a replica follows its master (`replica/stream/`).

RocketMQ: HAConnection, AutoSwitchHAConnection, which have a port and a protocol of their own.
"""

from __future__ import annotations

from model.replica_limits import MAX_REPLICA_EPOCHS, MAX_REPLICA_FRAME_BYTES, MAX_SET_NUMBER, SEGMENT_RANGE_BYTES
from remoting.request_code import RequestCode
from remoting.wire.field import BROKER, Effect, Field, Rank, RequestSchema, Right

_CRC = Field("crc", int, "CRC-32 of all other fields and the body", minimum=0, maximum=2**32 - 1)
_EPOCH = Field("epoch", int, "number of the mastership of the sender's master", minimum=1, maximum=MAX_SET_NUMBER)
_REPLICA_ID = Field("replica_id", int, "id of the replica that sends it", minimum=1, maximum=MAX_SET_NUMBER)
_NUMBER = Field("number", int, "number of the frame on this connection, from 1 on", minimum=1)

REPLICATION_SCHEMA: dict[RequestCode, RequestSchema] = {
    RequestCode.REPLICA_HELLO: RequestSchema(
        "replica -> master",
        "Begin to follow a master. The replica then cuts its log at the position of the answer, or discards it, and "
        "begins the stream with REPLICATED.",
        (
            BROKER.requires(Right.REPLICATE),
            Field("set_id", int, "random number of the set", minimum=1, maximum=MAX_SET_NUMBER),
            Field("register_id", int, "random number of the register of the set", minimum=1, maximum=MAX_SET_NUMBER),
            _REPLICA_ID,
            Field("incarnation", int, "number of this start of the replica", minimum=1, maximum=MAX_SET_NUMBER),
            Field("epoch", int, "epoch of the newest row of the set that the replica knows", minimum=1),
            Field("end_position", int, "where the replica's log ends", minimum=0),
        ),
        rows=(
            Field("epoch", int, "number of a mastership in the replica's log", minimum=0),
            Field("start_position", int, "log position where it begins", minimum=0),
            Field("replica_id", int, "the master of that epoch", minimum=0),
        ),
        max_rows=MAX_REPLICA_EPOCHS,
        answer="header `epoch` of the master, `position` where the replica's log has to end, `discard`: whether it "
        "has to begin there, because the logs have nothing in common; `min_position` where the master's log begins; "
        "`sync`: whether an acknowledgement means that all is on the disk; body, with `discard`: the epochs of the "
        "master, as in the request. NOT_MASTER from any other replica, "
        "ILLEGAL_OPERATION for a wrong set, an unknown replica, or another process than the newest of one",
        rank=Rank.KEEPALIVE,
        effect=Effect.LOCAL,
    ),
    RequestCode.REPLICATE: RequestSchema(
        "master -> replica",
        "One-way: the next bytes of the log and the changes of the tables; without both a sign of life.",
        (
            _EPOCH,
            _NUMBER,
            Field("n", int, "newest flush that is complete with it; -1 before a snapshot", minimum=-1),
            Field("position", int, "log position of the first byte of the log", minimum=0),
            Field("base", int, "position of the segment that holds it; -1 without log bytes", minimum=-1),
            Field("log_bytes", int, "bytes of the body that are log", minimum=0, maximum=MAX_REPLICA_FRAME_BYTES),
            Field("committed", int, "newest flush that all replicas in sync have; -1 before one", minimum=-1),
            Field("committed_position", int, "log position of that flush", minimum=0),
            Field("min_position", int, "where the master's log begins: older segments are removed", minimum=0),
            Field("master_position", int, "where the master's log ends", minimum=0),
            _CRC,
        ),
        body="bytes of the log, then the encoded changes, which are made first",
        answer="none",
        rank=Rank.KEEPALIVE,
        right=Right.ANYONE,  # the replica has asked this server for it
    ),
    RequestCode.REPLICATED: RequestSchema(
        "replica -> master",
        "One-way: the replica has applied all frames up to a number; the first one, with number 0, begins the stream.",
        (
            _EPOCH,
            _REPLICA_ID,
            Field("number", int, "number of the newest frame that is applied; 0 before the first", minimum=0),
            Field("crc", int, "CRC-32 of that frame; 0 before the first", minimum=0, maximum=2**32 - 1),
            Field("received", int, "number of the newest frame that has come, applied or not", minimum=0),
        ),
        answer="none",
        rank=Rank.KEEPALIVE,
        effect=Effect.LOCAL,
        right=Right.ANYONE,  # refused on a connection without REPLICA_HELLO; it ends when the right to that is taken
    ),
    RequestCode.REPLICA_SEGMENT: RequestSchema(
        "replica -> master",
        "A range of a finished segment: of its index, or of its log to repair a damaged copy.",
        (
            BROKER.requires(Right.REPLICATE),
            Field("base", int, "log position of the first byte of the segment", minimum=0),
            Field("index", bool, "whether the range is of the index file"),
            Field("start", int, "first byte of the range in the file", minimum=0),
            Field("max_bytes", int, "most bytes of the range", minimum=1, maximum=SEGMENT_RANGE_BYTES),
        ),
        answer="header `size` of the whole file; body: the range. QUERY_NOT_FOUND while there is no such file",
        rank=Rank.DATA,
        effect=Effect.LOCAL,
    ),
    RequestCode.REPLICA_SNAPSHOT: RequestSchema(
        "master -> replica",
        "One-way: a part of the replicated tables; the replica makes them its own when it has the last part.",
        (
            _EPOCH,
            _NUMBER,
            Field("n", int, "flush at which the tables were read", minimum=0),
            Field("part", int, "0 for the first part", minimum=0),
            Field("last", bool, "whether no more parts follow"),
            _CRC,
        ),
        body="rows of the tables, encoded",
        answer="none",
        rank=Rank.KEEPALIVE,
        right=Right.ANYONE,
    ),
    RequestCode.REPLICA_HANDOVER: RequestSchema(
        "master -> replica",
        "One-way: the set has another master: read the row of the register.",
        (
            Field("epoch", int, "epoch of the new master", minimum=1, maximum=MAX_SET_NUMBER),
            Field("master", int, "replica id of the new master", minimum=1, maximum=MAX_SET_NUMBER),
        ),
        answer="none",
        rank=Rank.KEEPALIVE,
        right=Right.ANYONE,
    ),
}
