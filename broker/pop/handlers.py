"""POP_MESSAGE, ACK_MESSAGE, BATCH_ACK_MESSAGE, CHANGE_MESSAGE_INVISIBLETIME, and what is in flight.

RocketMQ: PopMessageProcessor, AckMessageProcessor, ChangeInvisibleTimeProcessor. A handle is checked against the token
of the delivery, which is random: neither a guess nor an old handle does anything.
"""

from __future__ import annotations

from typing import Any

import msgpack

from broker.broker import Broker
from broker.pop.ledger import GroupQueue, PopKey
from model.errors import ReceiptHandleDead, RlabError
from remoting.body import rows_of
from remoting.command import Command, Reply
from remoting.connection import Connection
from remoting.server import Handler
from remoting.wire.request_code import RequestCode


class PopHandlers:
    """Serves consumers that take messages one by one."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._pops = broker.pops

    def handlers(self) -> dict[RequestCode, Handler]:
        """Request code -> handler."""
        return {
            RequestCode.POP_MESSAGE: self._pops.pop,
            RequestCode.ACK_MESSAGE: self.ack,
            RequestCode.BATCH_ACK_MESSAGE: self.ack,
            RequestCode.CHANGE_MESSAGE_INVISIBLETIME: self.change_invisible_time,
            RequestCode.GET_POP_STATS: self.stats,
        }

    def ack(self, connection: Connection, request: Command) -> None:
        """End messages; answered once that is stored, with those whose handles were dead."""
        pops, ledger, group = self._pops, self._pops.ledger, request.header["group"]
        rows = rows_of(request)
        pops.check_backlog()
        dead: list[tuple[str, int, int]] = []
        changed: dict[GroupQueue, None] = {}
        for topic, queue_id, token, offsets in rows:
            queue = ledger.queues.get(PopKey(group, topic, queue_id))
            ended = [] if queue is None else ledger.ack(queue, token, offsets)
            if queue is not None and ended:
                changed[queue] = None
            if len(ended) < len(offsets):
                dead.extend((topic, queue_id, offset) for offset in _without(offsets, ended))

        def answer(failure: RlabError | None) -> None:
            if failure is None:
                connection.respond(request, {}, msgpack.packb(dead))
            else:
                connection.respond_error(request, failure)

        self._broker.barrier.after_commit(answer)
        for queue in changed:
            pops.changed(queue)
        pops.compact_if_long()

    def change_invisible_time(self, connection: Connection, request: Command) -> None:
        """Give a message another time and a new handle; answered once that is stored."""
        pops, header = self._pops, request.header
        topic, queue_id, offset = header["topic"], header["queue_id"], header["offset"]
        pops.check_backlog()
        queue = pops.ledger.queues.get(PopKey(header["group"], topic, queue_id))
        extended = None
        if queue is not None:
            extended = pops.extend(queue, header["token"], offset, header["invisible_ms"] / 1000)
        if extended is None:
            raise ReceiptHandleDead(
                f"the handle of message {offset} of {topic}:{queue_id} is dead: it was acknowledged, delivered again "
                "or made invisible anew"
            )
        token, visible_ms = extended

        def answer(failure: RlabError | None) -> None:
            if failure is None:
                connection.respond(request, {"token": token, "visible_ms": visible_ms})
            else:
                connection.respond_error(request, failure)

        self._broker.barrier.after_commit(answer)
        pops.compact_if_long()

    def stats(self, connection: Connection, request: Command) -> Reply:
        """What a group has in flight."""
        only = request.header.get("topic")
        queues = self._pops.ledger.of_group(request.header["group"])
        now = self._broker.loop.time()
        rows = [
            _stats_row(queue, now) for queue in queues if only in (None, queue.key.topic) and not queue.window.is_idle
        ]
        return Reply({}, msgpack.packb(rows))


def _stats_row(queue: GroupQueue, now: float) -> list[Any]:
    window = queue.window
    batches = window.batches.values()
    by_client: dict[str, int] = {}
    for batch in batches:
        by_client[batch.client_id] = by_client.get(batch.client_id, 0) + batch.left
    oldest = min((batch.since for batch in batches), default=None)
    first = min((batch.visible_at for batch in batches), default=None)
    return [
        *queue.key[1:],
        window.committed,
        window.next_offset,
        window.in_flight,
        window.due_count,
        -1 if oldest is None else round((now - oldest) * 1000),
        -1 if first is None else max(0, round((first - now) * 1000)),
        window.attempts_max,
        bool(queue.waiters),
        sorted(by_client.items()),
    ]


def _without(offsets: list[int], ended: list[int]) -> list[int]:
    """Offsets that were not ended; those that were stand in the same order. One that is named twice is ended once."""
    dead, at = [], 0
    for offset in offsets:
        if at < len(ended) and offset == ended[at]:
            at += 1
        else:
            dead.append(offset)
    return dead
