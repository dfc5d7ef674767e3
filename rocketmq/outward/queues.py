"""Queues of our client at RocketMQ's brokers: locks, committed offsets, and requests for offsets. Pure.

A broker of RocketMQ grants no leases. A member that consumes in order gets locks instead, which last 60 s and are
renewed with each heartbeat; any other member gets the queues that it asks for. RocketMQ: RebalanceImpl.lock,
RebalancePushImpl.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from model.heartbeat import ConsumeFrom
from model.names import is_retry_topic
from model.response_code import ResponseCode
from remoting.request_code import RequestCode
from rocketmq.fields import Fields, json_bytes
from rocketmq.frame import Frame
from rocketmq.outward.answers import check_answer, pack_body, parse_json_body, unpack_body
from rocketmq.outward.edge import Calls, RefusedByServer, Server, Steps, StockCall, TranslatedAnswer


def queue_fields(topic: str, queue_id: int) -> dict[str, object]:
    """The fields that name a queue."""
    return {"topic": topic, "queueId": queue_id}


def broker_queues(server: Server, queues: Iterable[tuple[str, int]]) -> list[dict[str, object]]:
    """The names of queues at a broker."""
    name = server.cluster.name_of(server.address)
    return [{"topic": topic, "brokerName": name, "queueId": queue_id} for topic, queue_id in queues]


def lock_call(
    server: Server, group: str, queues: Iterable[tuple[str, int]], code: RequestCode = RequestCode.LOCK_BATCH_MQ
) -> StockCall:
    """A call that locks queues, renews their locks, or ends them. RocketMQ: LockBatchRequestBody."""
    body = {"consumerGroup": group, "clientId": server.client_id, "mqSet": broker_queues(server, queues)}
    return StockCall(code, {}, json_bytes(body))


def locked_queues(answer: Frame) -> set[tuple[str, int]]:
    """The queues whose lock was granted or renewed."""
    return {(queue["topic"], queue["queueId"]) for queue in parse_json_body(answer).get("lockOKMQSet", ())}


def lock(server: Server, header: dict[str, Any], body: bytes) -> Steps:
    """Grant the requested queues, each from its committed offset, or from the group's start offset.

    A group that consumes in order locks them first; other groups get all that they ask for.
    """
    group, rows = header["group"], [(topic, queue_id) for topic, queue_id in unpack_body(body)]
    refused: list[tuple[str, int]] = []
    if group in server.locked:
        [answer] = yield [lock_call(server, group, rows)]
        granted = locked_queues(answer)
        refused = [queue for queue in rows if queue not in granted]
        rows = [queue for queue in rows if queue in granted]
        server.locked.setdefault(group, {}).update(dict.fromkeys(rows))
        for queue in refused:
            server.cluster.forget(server.address, group, *queue)  # another member continues with it
            server.held.get(group, {}).pop(queue, None)
    offsets: dict[tuple[str, int], int] = {}
    if rows:
        answers = yield [_offset_call(group, *queue) for queue in rows]
        for queue, answer in zip(rows, answers, strict=True):
            if check_answer(answer, ResponseCode.QUERY_NOT_FOUND).code == 0:
                offsets[queue] = Fields(answer.fields).number("offset")
    new = [queue for queue in rows if queue not in offsets]
    if new:
        answers = yield [_start(server, group, *queue) for queue in new]
        for queue, answer in zip(new, answers, strict=True):
            offsets[queue] = Fields(check_answer(answer).fields).number("offset")
    server.held.setdefault(group, {}).update(dict.fromkeys(rows))
    leases: list[list[Any]] = []
    for topic, queue_id in rows:
        server.leases += 1
        # A broker that was killed has lost the commits of its last seconds; this client still has them.
        offset = max(offsets[topic, queue_id], server.cluster.committed(server.address, group, topic, queue_id))
        leases.append([topic, queue_id, server.leases, offset])
    return TranslatedAnswer({}, pack_body([leases, [[*queue, ""] for queue in refused]]))


def _offset_call(group: str, topic: str, queue_id: int) -> StockCall:
    return StockCall(RequestCode.QUERY_CONSUMER_OFFSET, {"consumerGroup": group, **queue_fields(topic, queue_id)})


def _start(server: Server, group: str, topic: str, queue_id: int) -> StockCall:
    """The call for the start offset of a group. RocketMQ: RebalancePushImpl.computePullFromWhere."""
    start, timestamp_ms = server.starts.get(group, (ConsumeFrom.LAST_OFFSET.value, 0))
    if is_retry_topic(topic) or start == ConsumeFrom.FIRST_OFFSET.value:
        return StockCall(RequestCode.GET_MIN_OFFSET, queue_fields(topic, queue_id))
    if start == ConsumeFrom.TIMESTAMP.value:
        fields = {**queue_fields(topic, queue_id), "timestamp": timestamp_ms}
        return StockCall(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, fields)
    return StockCall(RequestCode.GET_MAX_OFFSET, queue_fields(topic, queue_id))


def commit(server: Server, header: dict[str, Any], body: bytes) -> Steps:
    """Translate commits of queues; the answer names the refused ones."""
    group, rows = header["group"], unpack_body(body)
    refused = yield from _commits(server, group, rows, is_reset=bool(header.get("reset")))
    if refused is None:
        # Nothing to commit, but an answer is expected: make a cheap request.
        yield [StockCall(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group})]
    return TranslatedAnswer({}, pack_body(refused or []))


def unlock(server: Server, header: dict[str, Any], body: bytes) -> Steps:
    """Release queues: the last commit of each, and then the end of its lock, if there is one."""
    group, rows = header["group"], unpack_body(body)
    held = server.locked.get(group, {})
    released = [(topic, queue_id) for topic, queue_id, *_ in rows if held.pop((topic, queue_id), 0) is None]
    refused = yield from _commits(server, group, rows, is_reset=False)
    for topic, queue_id, *_ in rows:
        server.cluster.forget(server.address, group, topic, queue_id)
        server.held.get(group, {}).pop((topic, queue_id), None)
    if released:
        [answer] = yield [lock_call(server, group, released, RequestCode.UNLOCK_BATCH_MQ)]
        check_answer(answer)
    elif refused is None:
        yield [StockCall(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group})]
    return TranslatedAnswer({}, pack_body(refused or []))


def _commits(server: Server, group: str, rows: list[list[Any]], *, is_reset: bool) -> Calls[list[list[Any]] | None]:
    """Commit the rows with an offset; returns the refused ones, or None if no row had an offset."""
    rows = [row for row in rows if row[2] >= 0]
    if not rows:
        return None
    calls = []
    for topic, queue_id, offset, _ in rows:
        server.cluster.record_commit(server.address, (group, topic, queue_id), offset, is_reset=is_reset)
        fields = {"consumerGroup": group, **queue_fields(topic, queue_id), "commitOffset": offset}
        calls.append(StockCall(RequestCode.UPDATE_CONSUMER_OFFSET, fields))
    answers = yield calls
    return [
        [row[0], row[1], RefusedByServer(answer).code, answer.remark or ""]
        for row, answer in zip(rows, answers, strict=True)
        if answer.code
    ]


def _offset(call: StockCall, **more: int) -> Steps:
    """The offset in the answer of a call."""
    [answer] = yield [call]
    return TranslatedAnswer({"offset": Fields(check_answer(answer).fields).number("offset"), **more})


def query_committed(server: Server, header: dict[str, Any], body: bytes) -> Steps:
    """Translate the request for the committed offset of a group."""
    return _offset(_offset_call(header["group"], header["topic"], header["queue_id"]))


def max_offset(server: Server, header: dict[str, Any], body: bytes) -> Steps:
    """Translate the request for the end of a queue; the topic id is 0, because RocketMQ has none."""
    return _offset(StockCall(RequestCode.GET_MAX_OFFSET, queue_fields(header["topic"], header["queue_id"])), topic_id=0)


def min_offset(server: Server, header: dict[str, Any], body: bytes) -> Steps:
    """Translate the request for the beginning of a queue."""
    return _offset(StockCall(RequestCode.GET_MIN_OFFSET, queue_fields(header["topic"], header["queue_id"])))


def search_offset(server: Server, header: dict[str, Any], body: bytes) -> Steps:
    """Translate the request for the first offset that is stored at or after a time."""
    fields = {**queue_fields(header["topic"], header["queue_id"]), "timestamp": header["timestamp_ms"]}
    return _offset(StockCall(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, fields))
