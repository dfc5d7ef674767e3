"""Translates EndTransaction, and the checks of transactions that were not ended. Pure.

RocketMQ: EndTransactionActivity, ProducerProcessor. The producer group of a half message is the name of its topic, as
at RocketMQ's proxy, because these clients have no groups of producers: any producer of the topic answers its check. The
id of a transaction has the place of its half message, so it outlives a restart of the broker.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgpack

from model.transaction import EndOutcome, TransactionState
from remoting.request_code import RequestCode
from rocketmq.grpc import proto
from rocketmq.grpc.edge import GrpcConnection, GrpcRequest, client_id_of
from rocketmq.grpc.handles import TransactionId, parse_transaction_id
from rocketmq.grpc.http2.call import GrpcCall
from rocketmq.grpc.proto import MESSAGES
from rocketmq.grpc.receiving import fill_stored
from rocketmq.grpc.routes import required_topic
from rocketmq.grpc.status import GrpcRefused, status
from rocketmq.pulling import decode_payload

_STATES = {proto.COMMIT: TransactionState.COMMIT, proto.ROLLBACK: TransactionState.ROLLBACK}


def end(connection: GrpcConnection, call: GrpcCall, request: Any) -> GrpcRequest:
    """Translate the end of one transaction, from a producer that ends it or answers a check.

    To repeat an end changes nothing, and is answered OK.
    """
    topic, message_id = required_topic(request.topic), request.message_id
    if not message_id.strip():
        raise GrpcRefused(proto.ILLEGAL_MESSAGE_ID, "the id of the half message is missing")
    transaction = parse_transaction_id(request.transaction_id, connection.facts.broker_name())
    state = _STATES.get(request.resolution, TransactionState.UNKNOWN)
    header = {"group": topic, "client_id": client_id_of(call), "from_check": request.source == proto.SERVER_CHECK}

    def answer(answer_header: dict[str, Any], outcomes: bytes | None, code: int) -> list[Any]:
        found: Any = msgpack.unpackb(outcomes or b"\x90")
        result = status(proto.OK)
        if EndOutcome.NOT_FOUND in found:
            text = f"topic {topic!r} has no half message {message_id!r} at {transaction.offset} of this broker"
            result = status(proto.INVALID_TRANSACTION_ID, text)
        return [MESSAGES["EndTransactionResponse"](status=result)]

    rows = [[transaction.offset, message_id, int(state)]]
    return GrpcRequest(RequestCode.END_TRANSACTION, header, msgpack.packb(rows), answer)


def check(connection: GrpcConnection, opaque: int, header: Mapping[str, Any], body: bytes | None) -> Any:
    """Translate a check of a transaction, with its message as a consumer would get it.

    A payload that is not a message is not checked, because a client could not read it.
    """
    topic, offset, payload = header["topic"], header["offset"], body or b""
    found = decode_payload(payload, topic)
    if found is None:
        return None
    transaction_id = TransactionId(connection.facts.broker_name(), offset).text()
    command = MESSAGES["RecoverOrphanedTransactionCommand"](transaction_id=transaction_id)
    fill_stored(command.message, connection, topic, topic, header["queue_id"], offset, found[-1], payload)
    command.message.system_properties.message_type = proto.TRANSACTION
    return MESSAGES["TelemetryCommand"](status=status(proto.OK), recover_orphaned_transaction_command=command)
