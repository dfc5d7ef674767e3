"""Reads the trace of a cluster, the topic SYS_TRACE of all its brokers, as it grows.

Reading joins no group and commits no offset. So brokers keep no messages for the reader, and it is in no list of
groups.
"""

from __future__ import annotations

import logging

from client.admin.requests import ClusterRequests, masters_of
from model.errors import NetworkError, TopicNotExist
from model.event_log import decode_events
from model.events import Event
from model.limits import MAX_EVENTS_PER_READ
from model.message_queue import MessageQueue
from model.missing_trace import MissingTrace, describe_missing
from model.names import TRACE_TOPIC
from remoting.request_code import RequestCode

logger = logging.getLogger(__name__)

_GROUP = "rlab-trace-reader"
_MESSAGES = 64


class TraceReader:
    """Reads the events that brokers and clients have sent to a cluster; made by `Admin.trace`."""

    def __init__(self, cluster: ClusterRequests, since_ms: float | None) -> None:
        self._cluster = cluster
        self._since_ms = since_ms
        self._next: dict[MessageQueue, int] = {}
        self._silent: dict[str, str] = {}  # brokers that did not answer the last read -> why

    async def read(self) -> list[Event]:
        """The events that were stored since the last read, of every broker that answers; unsorted.

        Brokers that are new since the last read are read as well. Empty when there is nothing new; with more than
        `MAX_EVENTS_PER_READ` the next read goes on.

        Raises:
            ConnectFailed: no name server answers.

        Cancellation: harmless; events that were read by the cancelled call are read again.
        """
        try:
            queues = (await self._cluster.route(TRACE_TOPIC)).subscribe_queues()
        except TopicNotExist:
            return []
        masters = masters_of(await self._cluster.brokers())  # none, while a set of replicas has no master
        events: list[Event] = []
        read: dict[MessageQueue, int] = {}
        self._silent.clear()
        for queue in queues:
            if queue.broker_name in masters and len(events) < MAX_EVENTS_PER_READ:
                try:
                    read[queue] = await self._read_queue(masters[queue.broker_name], queue, events)
                except NetworkError as error:
                    self._silent[queue.broker_name] = str(error)
                    logger.info("the trace on broker %s cannot be read for now: %s", queue.broker_name, error)
        self._next.update(read)
        return events

    async def missing(self, trace_s: float | None = None) -> MissingTrace:
        """Describe the parts that the last read lacks, because of brokers that did not answer; see `describe_missing`.

        Cancellation: harmless.
        """
        return describe_missing(await self._cluster.absent(TRACE_TOPIC), self._silent, trace_s)

    async def _read_queue(self, address: str, queue: MessageQueue, events: list[Event]) -> int:
        """Add the events of a queue; returns the offset to go on from."""
        offset = self._next.get(queue)
        if offset is None:
            offset = await self._first_offset(address, queue)
        while len(events) < MAX_EVENTS_PER_READ:
            messages, after = await self._cluster.pull(address, _GROUP, queue, offset, _MESSAGES)
            for message, problem in messages:
                decoded, bad = ([], 1) if problem else decode_events(message.body)
                if bad:
                    logger.warning("%d lines of %s at offset %d are not events", bad, queue, message.offset)
                events += decoded
            if after == offset:
                break
            offset = after
        return offset

    async def _first_offset(self, address: str, queue: MessageQueue) -> int:
        code, where = RequestCode.GET_MIN_OFFSET, {"topic": queue.topic, "queue_id": queue.queue_id}
        if self._since_ms is not None:
            code, where["timestamp_ms"] = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, int(self._since_ms)
        answer = await self._cluster.request(address, code, where, broker=queue.broker_name)
        return int(answer.header["offset"])
