"""Lists the dead-letter messages of a group, and sends them again once the cause of their failures is repaired.

A message that failed more often than `max_attempts` allows is stored in `%DLQ%group`, on the broker that had it. That
topic has no consumers, so it is read here with plain pulls, without a lease. Such a stored message is called a letter
here. A re-sent message has the topic, id, keys, tags and properties that its producer gave it, and its attempts are
counted from the beginning.

A letter is marked as re-sent after a broker has stored the copy. So if this process dies between the two steps, the
letter may be sent twice, but it is never lost. RocketMQ: "resend" of its dashboard, which keeps no record of it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import NamedTuple, cast

import msgpack

from client.admin.requests import ClusterRequests, fail, masters_of
from model.errors import MessageIllegal, RlabError, ServiceNotAvailable, TopicNotExist
from model.limits import MAX_PULL_BATCH
from model.message import Message, MessageExt, encode_payload, tag_hash
from model.message_queue import MessageQueue
from model.names import check_group, dlq_topic, retry_topic
from model.topic_route import TopicRoute
from remoting.request_code import RequestCode
from remoting.tasks import run_together

RESEND_TOGETHER = 64
"""Letters that are sent before the first of them is marked; up to this many are sent twice if the process dies."""


class ResendTo(StrEnum):
    """The receiver of a letter that is sent again."""

    GROUP = "group"
    """Only the group that failed to process it, through its retry topic."""
    TOPIC = "topic"
    """Every group: it is published to its original topic."""


class DeadLetter(NamedTuple):
    """One dead letter.

    `message.queue` is in `%DLQ%group`, `message.topic` is the topic that its producer sent it to, and
    `message.times_delivered` counts its retries. `resent`: it was sent again before. `undecodable`: the flaw of
    a payload that is not a message, else empty; `message.body` is the whole payload then, and there is no message id.
    """

    message: MessageExt
    resent: bool
    undecodable: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterQueue:
    """The counts of dead letters on one broker, and when the first and the last were stored, wall clock in ms."""

    queue: MessageQueue
    letters: int
    resent: int
    oldest_ms: int | None
    newest_ms: int | None


class _Marks(NamedTuple):
    """The offsets of the letters in a queue, and those that were sent again."""

    min_offset: int
    max_offset: int
    below: int
    above: frozenset[int]

    def resent(self, offset: int) -> bool:
        return offset < self.below or offset in self.above


class DeadLetterAdmin:
    """The dead letters of one group; made by `Admin.dead_letters`.

    All methods raise RlabError when a broker that has letters cannot be reached.

    Attributes:
        passed_over: dead letters that `resend_all` did not send, because their payloads are not messages.
    """

    def __init__(self, cluster: ClusterRequests, group: str, check_known: Callable[[], Awaitable[None]]) -> None:
        self.passed_over = 0
        self.group = check_group(group)
        self.topic = dlq_topic(group)
        self._cluster = cluster
        self._check_known = check_known

    async def queues(self) -> tuple[DeadLetterQueue, ...]:
        """The dead letters on each broker; empty if the group never had one.

        Raises:
            GroupNotExist: there is no such group.
        """
        rows = []
        for queue, address in await self._queues():
            marks = await self._marks(address, queue)
            end_times = [
                message.stored_ms
                for offset in (marks.min_offset, marks.max_offset - 1)
                if marks.min_offset < marks.max_offset
                for message, _ in (await self._pull(address, queue, offset, 1))[0][:1]
            ]
            rows.append(
                DeadLetterQueue(
                    queue=queue,
                    letters=marks.max_offset - marks.min_offset,
                    resent=sum(marks.resent(offset) for offset in range(marks.min_offset, marks.max_offset)),
                    oldest_ms=end_times[0] if end_times else None,
                    newest_ms=end_times[-1] if end_times else None,
                )
            )
        return tuple(rows)

    async def letters(self) -> AsyncGenerator[DeadLetter]:
        """Go through all letters that are stored now, broker by broker, the oldest first.

        Letters that are added during the iteration are left out, so that re-sending all of them comes to an end. A
        payload that is not a message does not stop the iteration: see `DeadLetter`.

        Raises:
            GroupNotExist: there is no such group.
        """
        for queue, address in await self._queues():
            marks = await self._marks(address, queue)
            offset = marks.min_offset
            while offset < marks.max_offset:
                messages, offset = await self._pull(address, queue, offset, MAX_PULL_BATCH)
                for message, undecodable in messages:
                    if message.offset < marks.max_offset:
                        yield DeadLetter(message, marks.resent(message.offset), undecodable)

    async def find(self, message_ids: Iterable[str], *, include_resent: bool = False) -> dict[str, list[DeadLetter]]:
        """Find letters by the message id that the producer gave; returns those that are to be sent, by id.

        A message that failed again has several letters. If all letters of an id were sent again already, none is
        returned, or with `include_resent` the newest one.
        """
        by_id: dict[str, list[DeadLetter]] = {message_id: [] for message_id in message_ids}
        async for letter in self.letters():
            if letter.message.message_id in by_id and not letter.undecodable:
                by_id[letter.message.message_id].append(letter)
        for message_id, letters in by_id.items():
            newest = sorted(letters, key=lambda letter: letter.message.stored_ms)[-1:]
            by_id[message_id] = [letter for letter in letters if not letter.resent] or (
                newest if include_resent else []
            )
        return by_id

    async def resend_all(self, to: ResendTo = ResendTo.GROUP, progress: Callable[[int], None] | None = None) -> int:
        """Send every letter again that was not sent again before, and return how many.

        `progress` is called with the number sent so far. Payloads that are not messages stay and are counted in
        `passed_over`. Cancellation: see `resend`.
        """
        sent, batch = 0, list[DeadLetter]()
        self.passed_over = 0
        async for letter in self.letters():
            if letter.undecodable:
                self.passed_over += 1
            elif not letter.resent:
                batch.append(letter)
            if len(batch) == RESEND_TOGETHER:
                await self.resend(batch, to)
                sent, batch = sent + len(batch), []
                if progress is not None:
                    progress(sent)
        await self.resend(batch, to)
        return sent + len(batch)

    async def resend(self, letters: Sequence[DeadLetter], to: ResendTo = ResendTo.GROUP) -> None:
        """Send letters again, also those that were sent again before, and mark them.

        Raises:
            TopicNotExist: the topic of a letter no longer exists.
            MessageIllegal: a payload is not a message; nothing was sent.
            RlabError: a broker refused a letter or did not answer; the others of its batch of 64 were sent and marked.

        Cancellation: as if the process died: up to 64 letters that were sent and not marked will be sent again.
        """
        for letter in letters:
            if letter.undecodable:
                where = f"{letter.message.queue}+{letter.message.offset}"
                raise MessageIllegal(f"{where} is not a message, so it cannot be sent again: {letter.undecodable}")
        for start in range(0, len(letters), RESEND_TOGETHER):
            await self._resend_together(letters[start : start + RESEND_TOGETHER], to)

    # --- parts -------------------------------------------------------------------------------------------------------

    async def _resend_together(self, letters: Sequence[DeadLetter], to: ResendTo) -> None:
        topics = dict.fromkeys(self._target(letter, to) for letter in letters)
        queues = {topic: await self._publish_queues(topic) for topic in topics}
        sent: list[MessageExt] = []
        failures: list[RlabError] = []

        async def send(letter: DeadLetter) -> None:
            try:
                await self._send(letter.message, queues[self._target(letter, to)])
            except RlabError as error:
                failures.append(error)
            else:
                sent.append(letter.message)

        await run_together([partial(send, letter) for letter in letters])
        by_queue: dict[MessageQueue, list[int]] = {}
        for message in sent:
            by_queue.setdefault(message.queue, []).append(message.offset)
        addresses = dict(await self._queues()) if by_queue else {}
        for queue, offsets in by_queue.items():
            await self._marks(addresses[queue], queue, offsets)
        if failures:
            fail(f"{len(failures)} of {len(letters)} letters could not be sent, for instance", failures[0])

    def _target(self, letter: DeadLetter, to: ResendTo) -> str:
        return retry_topic(self.group) if to is ResendTo.GROUP else letter.message.topic

    async def _publish_queues(self, topic: str) -> list[tuple[MessageQueue, str]]:
        """The writable queues of a topic, with the address of each; the topic is never created here."""
        route = await self._cluster.name_servers.route(topic)
        if route is None:
            alone = topic == retry_topic(self.group)
            remedy = "start a consumer of the group first" if alone else "create it, or re-send to the group alone"
            raise TopicNotExist(f"topic {topic!r} is gone, so nothing was sent to it: {remedy}")
        queues = _with_addresses(route, route.publish_queues())
        if not queues:
            raise ServiceNotAvailable(f"no queue of topic {topic!r} takes messages now")
        return queues

    async def _send(self, message: MessageExt, queues: list[tuple[MessageQueue, str]]) -> None:
        # To the broker that has the letter where possible, so that no other one has to be up.
        near = [each for each in queues if each[0].broker_name == message.queue.broker_name] or queues
        queue, address = near[message.offset % len(near)]
        copy = Message(message.topic, message.body, message.keys, message.tags, message.properties)
        payload = encode_payload(copy, message.born_ms, message.message_id)
        header = {"topic": queue.topic, "queue_id": queue.queue_id, "tag_hash": tag_hash(message.tags)}
        await self._cluster.request(address, RequestCode.SEND_MESSAGE, header, payload, broker=queue.broker_name)

    async def _queues(self) -> list[tuple[MessageQueue, str]]:
        """Every queue of the group's dead letters, with the address of its broker."""
        route = await self._cluster.name_servers.route(self.topic)
        if route is None:
            await self._check_known()
            return []
        return _with_addresses(route, route.subscribe_queues())

    async def _marks(self, address: str, queue: MessageQueue, offsets: Iterable[int] = ()) -> _Marks:
        marks_header: dict[str, object] = {"group": self.group, "queue_id": queue.queue_id}
        code, body = RequestCode.MARK_DEAD_LETTERS, msgpack.packb(list(offsets))
        try:
            answer = await self._cluster.request(address, code, marks_header, body, broker=queue.broker_name)
        except RlabError as error:
            fail(f"broker {queue.broker_name}", error)
        above = cast("list[int]", msgpack.unpackb(answer.body or b""))
        header = answer.header
        return _Marks(header["min_offset"], header["max_offset"], header["below"], frozenset(above))

    async def _pull(
        self, address: str, queue: MessageQueue, offset: int, max_n: int
    ) -> tuple[list[tuple[MessageExt, str]], int]:
        """Read from an offset; returns messages as `decode_or_keep` does, and the next offset."""
        messages, next_offset = await self._cluster.pull(address, self.group, queue, offset, max_n)
        # Deleted or damaged messages: continue after them. Never go back, or the iteration would not end.
        return messages, next_offset if messages else max(offset + 1, next_offset)


def _with_addresses(route: TopicRoute, queues: Iterable[MessageQueue]) -> list[tuple[MessageQueue, str]]:
    """The queues whose broker has a registered master, each with its address."""
    masters = masters_of(route.brokers)
    return [(queue, masters[queue.broker_name]) for queue in queues if queue.broker_name in masters]
