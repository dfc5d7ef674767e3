"""MARK_DEAD_LETTERS: remembers which dead letters were re-sent, so that nobody re-sends them twice.

Reading them is a pull of `%DLQ%group`, and re-sending is a send; only this memory is the broker's. RocketMQ has none:
its console re-sends as often as it is asked.
"""

from __future__ import annotations

import msgpack

from broker.broker import Broker
from broker.retry.resent_letters import ResentLetters
from broker.topics.table import check_exists
from model.errors import InvalidParameter, RlabError
from model.names import check_group, dlq_topic
from remoting.body import rows_of
from remoting.command import Command
from remoting.connection import Connection
from remoting.server import Handler
from remoting.wire.request_code import RequestCode


class DeadLetterHandlers:
    """Keeps the marks of every group's dead letters."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        # By the number of the topic: one that was deleted and made again begins without marks.
        self._resent = {
            (topic_id, queue_id): ResentLetters(below, above)
            for topic_id, queue_id, below, above in broker.metadata.resent_letters()
        }

    def handlers(self) -> dict[RequestCode, Handler]:
        """Request code -> handler."""
        return {RequestCode.MARK_DEAD_LETTERS: self.mark}

    def mark(self, connection: Connection, request: Command) -> None:
        """Mark letters, none of them for a question, and tell all marks; answered once they are stored."""
        broker, header = self._broker, request.header
        topic, queue_id = dlq_topic(check_group(header["group"])), header["queue_id"]
        entry = broker.topics.existing(topic)
        check_exists(entry.config, queue_id)
        key = (entry.topic_id, queue_id)
        low, high = broker.store.min_offset(*key), broker.store.max_offset(*key)
        offsets = rows_of(request) if request.body else ()
        if any(offset >= high for offset in offsets):
            raise InvalidParameter(f"the request's body must be an array of offsets from 0 to {high - 1}")
        resent = self._resent.get(key) or ResentLetters()
        if offsets:
            resent.mark(offsets, oldest=low)
            self._resent[key] = resent
            broker.metadata.save_resent_letters(topic, queue_id, entry.topic_id, resent.below, resent.above)
        answer = {"below": resent.below, "min_offset": low, "max_offset": high}, msgpack.packb(resent.above)

        def respond(failure: RlabError | None) -> None:
            if failure is None:
                connection.respond(request, *answer)
            else:
                connection.respond_error(request, failure)

        broker.barrier.after_commit(respond)
