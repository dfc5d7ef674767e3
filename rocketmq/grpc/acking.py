"""Translates AckMessage, ChangeInvisibleDuration and ForwardMessageToDeadLetterQueue. Pure.

RocketMQ: AckMessageActivity, ChangeInvisibleDurationActivity, ForwardMessageToDLQActivity.

Each names messages by their receipt handles. Topic and queue are those of the handle: a message that came from the
retry topic of its group has another topic than its client sees.
"""

from __future__ import annotations

from typing import Any

import msgpack

from model.limits import MAX_ACKED_OFFSETS, MAX_INVISIBLE_MS
from model.response_code import ResponseCode
from remoting.request_code import RequestCode
from rocketmq.grpc import proto
from rocketmq.grpc.edge import GrpcConnection, GrpcRequest, client_id_of
from rocketmq.grpc.handles import Handle, parse_handle
from rocketmq.grpc.http2.call import GrpcCall
from rocketmq.grpc.proto import MESSAGES, duration_ms
from rocketmq.grpc.receiving import required_group
from rocketmq.grpc.status import GrpcRefused, status

_DEAD_HANDLE = (
    "the receipt handle is dead: the message was acknowledged or delivered again, or its invisible time was changed"
)


def acknowledge(connection: GrpcConnection, call: GrpcCall, request: Any) -> GrpcRequest | list[Any]:
    """Translate the acknowledgement of messages; the answer has a result for each."""
    entries = request.entries
    if not 1 <= len(entries) <= MAX_ACKED_OFFSETS:
        raise GrpcRefused(
            proto.BAD_REQUEST, f"1 to {MAX_ACKED_OFFSETS} messages are acknowledged at once, not {len(entries)}"
        )
    group = required_group(request.group)
    handles: list[Handle | GrpcRefused] = []
    broker = connection.facts.broker_name()
    for entry in entries:
        try:
            handles.append(parse_handle(entry.receipt_handle, broker))
        except GrpcRefused as error:
            handles.append(error)
    offsets: dict[tuple[str, int, int], list[int]] = {}
    for each in handles:
        if isinstance(each, Handle):
            offsets.setdefault((each.topic, each.queue_id, each.token), []).append(each.offset)
    rows = [[*delivery, sorted(of_delivery)] for delivery, of_delivery in offsets.items()]

    def answer(answer_header: dict[str, Any], body: bytes | None, code: int) -> list[Any]:
        dead_rows: Any = msgpack.unpackb(body or b"\x90")
        dead = {tuple(row) for row in dead_rows}
        response, all_ok = MESSAGES["AckMessageResponse"](), status(proto.OK)
        codes = set()
        for entry, handle in zip(entries, handles, strict=True):
            result = response.entries.add(message_id=entry.message_id, receipt_handle=entry.receipt_handle)
            if isinstance(handle, GrpcRefused):
                result.status.CopyFrom(status(handle.code, str(handle)))
            elif (handle.topic, handle.queue_id, handle.offset) in dead:
                result.status.CopyFrom(status(proto.INVALID_RECEIPT_HANDLE, _DEAD_HANDLE))
            else:
                result.status.CopyFrom(all_ok)
            codes.add(result.status.code)
        several = status(proto.MULTIPLE_RESULTS, "see the entries")
        response.status.CopyFrom(response.entries[0].status if len(codes) == 1 else several)
        return [response]

    if not rows:
        return answer({}, None, 0)
    header = {"group": group, "client_id": client_id_of(call)}
    return GrpcRequest(RequestCode.ACK_MESSAGE, header, msgpack.packb(rows), answer)


def change_invisible_duration(connection: GrpcConnection, call: GrpcCall, request: Any) -> GrpcRequest | list[Any]:
    """Translate a change of the invisible time of a message; clients take over the handle also of a refusal."""
    response, old_handle = MESSAGES["ChangeInvisibleDurationResponse"], request.receipt_handle
    try:
        handle = parse_handle(old_handle, connection.facts.broker_name())
        invisible_ms = duration_ms(request.invisible_duration)
        if not 0 <= invisible_ms <= MAX_INVISIBLE_MS:
            text = f"an invisible time is 0 to {MAX_INVISIBLE_MS} ms, not {invisible_ms}"
            raise GrpcRefused(proto.ILLEGAL_INVISIBLE_TIME, text)
        header = {**_message_header(call, required_group(request.group), handle), "invisible_ms": invisible_ms}
    except GrpcRefused as error:
        return [response(status=status(error.code, str(error)), receipt_handle=old_handle)]

    def answer(answer_header: dict[str, Any], body: bytes | None, code: int) -> list[Any]:
        new = handle._replace(token=answer_header["token"]).text()
        return [response(status=status(proto.OK), receipt_handle=new)]

    refusal = response(receipt_handle=old_handle)
    return GrpcRequest(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header, None, answer, refusal=refusal)


def forward_to_dlq(connection: GrpcConnection, call: GrpcCall, request: Any) -> GrpcRequest:
    """Translate the end of a message that failed too often.

    With a dead handle the client is answered OK all the same, because it would ask for ever, and another
    client may have the message now.
    """
    handle = parse_handle(request.receipt_handle, connection.facts.broker_name())

    def answer(answer_header: dict[str, Any], body: bytes | None, code: int) -> list[Any]:
        result = status(proto.OK, _DEAD_HANDLE if code else "")
        return [MESSAGES["ForwardMessageToDeadLetterQueueResponse"](status=result)]

    header = _message_header(call, required_group(request.group), handle)
    return GrpcRequest(RequestCode.POP_DEAD_LETTER, header, None, answer, (ResponseCode.NO_MESSAGE,))


def _message_header(call: GrpcCall, group: str, handle: Handle) -> dict[str, Any]:
    """The header of a request about one message."""
    return {
        "group": group,
        "topic": handle.topic,
        "queue_id": handle.queue_id,
        "client_id": client_id_of(call),
        "offset": handle.offset,
        "token": handle.token,
    }
