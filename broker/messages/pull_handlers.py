"""PULL_MESSAGE, and the questions about the offsets of a queue.

RocketMQ: PullMessageProcessor, AdminBrokerProcessor.
"""

from __future__ import annotations

from broker.broker import Broker
from broker.topics.table import check_exists
from remoting.command import Command, Reply
from remoting.connection import Connection
from remoting.server import Handler
from remoting.wire.request_code import RequestCode


class PullHandlers:
    """Serves stored bytes, and tells where a queue begins and ends."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def handlers(self) -> dict[RequestCode, Handler]:
        """Request code -> handler."""
        return {
            RequestCode.PULL_MESSAGE: self._broker.pulls.pull,
            RequestCode.GET_MAX_OFFSET: self.max_offset,
            RequestCode.GET_MIN_OFFSET: self.min_offset,
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: self.search_offset,
        }

    def max_offset(self, connection: Connection, request: Command) -> Reply:
        """The offset that the next message gets."""
        return Reply({"offset": self._broker.store.max_offset(*self._queue(request))})

    def min_offset(self, connection: Connection, request: Command) -> Reply:
        """The lowest offset still held."""
        return Reply({"offset": self._broker.store.min_offset(*self._queue(request))})

    def search_offset(self, connection: Connection, request: Command) -> Reply:
        """The first offset stored at or after a time."""
        timestamp_ms = request.header["timestamp_ms"]
        return Reply({"offset": self._broker.store.offset_at(*self._queue(request), timestamp_ms)})

    def _queue(self, request: Command) -> tuple[int, int]:
        """(topic id, queue id) of a queue that can be read or written."""
        topic, queue_id = request.header["topic"], request.header["queue_id"]
        entry = self._broker.topics.existing(topic)
        check_exists(entry.config, queue_id)
        return entry.topic_id, queue_id
