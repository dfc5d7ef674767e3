"""MessageAdmin: finding stored messages by key and by id. RocketMQ: MQAdminImpl.queryMessage, viewMessage.

A broker answers in slices of about a second, so a search through much that nobody has searched before takes several
requests; each goes on where the one before stopped. Brokers are asked side by side.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import anyio

from client.admin.requests import fail, unpack
from client.admin.topics import TopicAdmin
from model.decode import decode_messages
from model.errors import ConnectFailed, InvalidParameter, NetworkError, RlabError
from model.limits import LOOKUP_TIMEOUT_S, MAX_LOOKUP_MESSAGES
from model.message import MessageExt
from model.message_queue import MessageQueue
from remoting.wire.request_code import RequestCode

DEFAULT_FOUND = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundMessage:
    """A stored message, and where it is.

    Attributes:
        message: as a consumer of that queue gets it; `queue.topic` tells a retry or a dead letter from the original.
            A delayed message is in no queue yet: its `queue` is where it will be, its `offset` is -1.
        due_ms: when a delayed message is delivered, wall clock in milliseconds; None if it is not delayed.
    """

    message: MessageExt
    due_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundMessages:
    """What a search has found.

    Attributes:
        messages: the newest first.
        is_complete: whether there are no more; else `max_n` of them are here.
        unreachable: names of brokers that did not answer; what they hold is missing.
    """

    messages: tuple[FoundMessage, ...]
    is_complete: bool
    unreachable: tuple[str, ...]


class MessageAdmin(TopicAdmin):
    """The part of `Admin` that is about single messages."""

    async def query_message(
        self, topic: str, key: str, *, max_n: int = DEFAULT_FOUND, begin_ms: int = 0, end_ms: int | None = None
    ) -> FoundMessages:
        """Find messages by one of their keys.

        Copies for a retry and dead letters of messages of the topic are found as well.

        Args:
            topic: the topic; that of retries or dead letters finds only those.
            key: one of the keys that the producer gave.
            max_n: most messages, 1 to 64.
            begin_ms: stored at this time or later, wall clock in milliseconds.
            end_ms: stored at this time or earlier; None for now.

        Raises:
            InvalidParameter: an illegal name or number.
            TopicNotExist: no broker serves the topic.
            ServiceNotAvailable: no broker is registered.
            ConnectFailed: no name server, or no broker, answers.
            SystemBusy: a broker has too many searches under way.
            ServerError: a broker cannot read its files.

        Cancellation: harmless.
        """
        await self.route(topic)
        times = {"begin_ms": begin_ms, "end_ms": end_ms}
        return await self._find(RequestCode.QUERY_MESSAGE, {"topic": topic, "key": key, **times}, max_n)

    async def view_message(self, message_id: str, *, max_n: int = MAX_LOOKUP_MESSAGES) -> FoundMessages:
        """Find every place in which a message is: where it was sent to, retries, dead letters.

        Args:
            message_id: the id that the producer gave it.
            max_n: most places, 1 to 64.

        Raises:
            RlabError: as `query_message`.

        Cancellation: harmless.
        """
        return await self._find(RequestCode.VIEW_MESSAGE_BY_ID, {"message_id": message_id}, max_n)

    async def _find(self, code: RequestCode, header: Mapping[str, Any], max_n: int) -> FoundMessages:
        if not 1 <= max_n <= MAX_LOOKUP_MESSAGES:
            raise InvalidParameter(f"max_n must be 1 to {MAX_LOOKUP_MESSAGES}, got {max_n}")
        masters = await self._cluster.masters()
        found: list[FoundMessage] = []
        failed: dict[str, RlabError] = {}
        searched: list[str] = []

        async def search(name: str) -> None:
            try:
                messages, is_complete = await self._find_on(name, masters[name], code, header, max_n)
            except RlabError as error:
                failed[name] = error
                return
            found.extend(messages)
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
        found.sort(key=lambda each: (each.message.stored_ms, each.message.queue, each.message.offset), reverse=True)
        return FoundMessages(
            messages=tuple(found[:max_n]),
            is_complete=len(searched) + len(failed) == len(masters) and len(found) <= max_n,
            unreachable=tuple(sorted(failed)),
        )

    async def _find_on(
        self, name: str, address: str, code: RequestCode, header: Mapping[str, Any], max_n: int
    ) -> tuple[list[FoundMessage], bool]:
        """Search one broker to the end, or until enough was found."""
        found: list[FoundMessage] = []
        before: int | None = None
        while len(found) < max_n:
            asked = {**header, "max_n": max_n - len(found), "before": before}
            answer = await self._cluster.remoting.request(address, code, asked, None, LOOKUP_TIMEOUT_S)
            for topic, queue_id, due_ms, record in unpack(answer):
                (message,) = decode_messages(MessageQueue(topic, name, queue_id), record)
                is_delayed = due_ms >= 0
                message = message._replace(offset=-1) if is_delayed else message
                found.append(FoundMessage(message=message, due_ms=due_ms if is_delayed else None))
            before = answer.header["next_before"]
            if before < 0:
                return found, True
        return found, False
