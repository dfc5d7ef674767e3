"""Finds stored messages by key and by id for `Admin`. RocketMQ: MQAdminImpl.queryMessage, viewMessage.

A broker answers in slices of about a second, so a search through many files takes several requests, each of which
continues where the one before stopped. All brokers search at the same time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import anyio

from client.admin.requests import ClusterRequests, fail, unpack
from model.arguments import check_whole
from model.decode import decode_or_keep
from model.errors import ConnectFailed, NetworkError, RlabError
from model.limits import LOOKUP_TIMEOUT_S, MAX_LOOKUP_MESSAGES, MAX_PULL_BATCH
from model.message import MessageExt
from model.message_queue import MessageQueue, check_queue
from remoting.request_code import RequestCode

DEFAULT_FOUND = 32
_READER = "rlab-message-reader"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundMessage:
    """A stored message and its place."""

    # `queue.topic` distinguishes a retry or a dead letter from the original; if delayed: its future queue, offset -1
    message: MessageExt
    due_ms: int | None  # when a delayed message is delivered, wall clock in milliseconds; None if it is not delayed
    # the flaw of a payload that is not a message, which is `message.body` then; "" for a message
    undecodable: str = ""
    # "open: ..." or "ended" of a half message, whose offset is -1; "" for any other
    half: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundMessages:
    """The result of a search."""

    messages: tuple[FoundMessage, ...]  # the newest first
    is_complete: bool  # whether there are no more; else `max_n` of them are here
    unreachable: tuple[str, ...]  # names of brokers that did not answer; their messages are missing


async def find_messages(
    cluster: ClusterRequests, code: RequestCode, header: Mapping[str, Any], max_n: int
) -> FoundMessages:
    """Find by key or by id, as the code says, on all brokers at once."""
    check_whole("max_n", max_n, 1, MAX_LOOKUP_MESSAGES)
    masters = await cluster.masters()
    candidates: list[FoundMessage] = []
    failed: dict[str, RlabError] = {}
    searched: list[str] = []

    async def search(name: str) -> None:
        try:
            messages, is_complete = await _find_on(cluster, name, masters[name], code, header, max_n)
        except RlabError as error:
            failed[name] = error
            return
        candidates.extend(messages)
        if is_complete:
            searched.append(name)

    async with anyio.create_task_group() as tasks:
        for name in masters:
            tasks.start_soon(search, name)
    for name, error in sorted(failed.items()):
        if not isinstance(error, NetworkError):
            fail(f"broker {name}", error)
    if len(failed) == len(masters):
        raise ConnectFailed("no broker answers: " + "; ".join(f"{name}: {failed[name]}" for name in masters))
    candidates.sort(key=lambda each: (each.message.stored_ms, each.message.queue, each.message.offset), reverse=True)
    return FoundMessages(
        messages=tuple(candidates[:max_n]),
        is_complete=len(searched) + len(failed) == len(masters) and len(candidates) <= max_n,
        unreachable=tuple(sorted(failed)),
    )


async def _find_on(
    cluster: ClusterRequests, name: str, address: str, code: RequestCode, header: Mapping[str, Any], max_n: int
) -> tuple[list[FoundMessage], bool]:
    """Search one broker to the end, or until enough was found."""
    messages: list[FoundMessage] = []
    before_position: int | None = None
    while len(messages) < max_n:
        query = {**header, "max_n": max_n - len(messages), "before": before_position, "halves": True}
        answer = await cluster.request(address, code, query, broker=name, timeout_s=LOOKUP_TIMEOUT_S)
        for topic, queue_id, due_ms, record, *half in unpack(answer):
            [(message, undecodable)] = decode_or_keep(MessageQueue(topic, name, queue_id), record)
            is_delayed = due_ms >= 0
            message = message._replace(offset=-1) if is_delayed or half else message
            messages.append(
                FoundMessage(
                    message=message,
                    due_ms=due_ms if is_delayed else None,
                    undecodable=undecodable,
                    half=_half_text(half[0]) if half else "",
                )
            )
        before_position = answer.header["next_before"]
        if before_position < 0:
            return messages, True
    return messages, False


def _half_text(check_state: tuple[int, float] | None) -> str:
    """The state of a half message as text, from the data of its broker, which is None once the transaction is ended."""
    if check_state is None:
        return "ended"
    checks, next_s = check_state
    when = "waits for a producer of its group" if next_s < 0 else f"next check in {next_s:.0f} s"
    return f"open: {checks} checks, {when}"


async def read_queue(
    cluster: ClusterRequests, queue: MessageQueue, offset: int | None, since_ms: int | None, max_n: int
) -> tuple[list[tuple[MessageExt, str]], int]:
    """Read a queue from an offset, or else from a time, or else its newest messages."""
    check_whole("max_n", max_n, 1, MAX_PULL_BATCH)
    address = (await cluster.masters([check_queue(queue).broker_name]))[queue.broker_name]
    where = {"topic": queue.topic, "queue_id": queue.queue_id}
    if offset is None:
        if since_ms is None:
            answer = await cluster.request(address, RequestCode.GET_MAX_OFFSET, where, broker=queue.broker_name)
            offset = max(0, int(answer.header["offset"]) - max_n)
        else:
            where["timestamp_ms"] = since_ms
            code = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
            answer = await cluster.request(address, code, where, broker=queue.broker_name)
            offset = int(answer.header["offset"])
    return await cluster.pull(address, _READER, queue, offset, max_n)
