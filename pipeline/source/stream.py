"""The reader of a stream: finds the end of each micro-batch, and plans and reads it.

A micro-batch is a half-open range of offsets of each queue. Spark writes its end to the checkpoint before the batch
runs, and the log does not change, so a batch that is run again has the same rows. `pipeline/source/offsets.py` decides
how much of the lag a micro-batch reads. An offset also has the numbers of its topics: if a number differs, the topic
was deleted and created again, and is read from its beginning like a new topic.

For a new query Spark calls, in this order: prepareForTriggerAvailableNow (if it is one), initialOffset, latestOffset,
initialOffset again, partitions, ...; for a query that continues from a checkpoint it does not call initialOffset.
Spark calls `commit` one batch late and never for the last batch of a query, so a listener commits the offsets of a
group, `pipeline/source/progress.py`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from model.errors import ConfigError, NetworkError
from model.message_queue import MessageQueue
from pipeline.source.offsets import (
    Offsets,
    Range,
    TopicIds,
    from_json,
    is_due,
    limit_ranges,
    read_topic_ids,
    recreated_topics,
    to_json,
)
from pipeline.source.options import SourceOptions
from pipeline.source.planner import Planner
from pipeline.source.queue_reader import MessagesLost
from pipeline.source.ranges import open_client, plan_tasks, read_ranges, sampled_bytes, session_cores
from pipeline.wire import WireClient

SAMPLE_INTERVAL_S = 10.0
"""How long a stream plans with the mean size of some messages before it reads others."""

logger = logging.getLogger(__name__)


class RefusedStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader of a stream with wrong options: every method raises the error."""

    def __init__(self, error: ConfigError) -> None:
        self._error = error

    def initialOffset(self) -> dict[str, Any]:
        """Raise the error."""
        raise self._error

    def prepareForTriggerAvailableNow(self) -> None:
        """Raise the error."""
        raise self._error

    def getDefaultReadLimit(self) -> ReadLimit:
        """Raise the error."""
        raise self._error

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Raise the error."""
        raise self._error

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Raise the error."""
        raise self._error

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Raise the error."""
        raise self._error


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads topics as a stream; `now` is a clock in seconds that never goes back."""

    def __init__(
        self, options: SourceOptions, schema: StructType, now: Callable[[], float] = time.perf_counter
    ) -> None:
        self._options = options
        self._schema = schema
        self._now = now
        self._client: WireClient | None = None
        self._initial: Offsets | None = None
        self._began = False
        self._target: Offsets | None = None
        self._seen: Offsets = {}
        self._seen_at: float | None = None
        self._begins: Offsets = {}
        self._oldest: Offsets = {}
        self._topic_ids: TopicIds = {}
        self._gone: set[MessageQueue] = set()
        self._reported: dict[MessageQueue, str] = {}
        self._waiting_since: float | None = None
        self._sampled_bytes = self._sampled_at = 0.0

    # --- offsets, on the driver --------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:
        """Return the offsets at which a new query begins.

        Raises:
            RlabError: the cluster does not answer, or lacks a topic, queue or group of the options.
        """
        if self._initial is None:
            # Kept, because Spark calls this twice and needs the same result.
            planner = self._planner()
            bounds = planner.bounds(planner.queues(all_must_exist=True))
            self._initial = planner.resolve(self._options.start, bounds, "startingOffsets")
            self._topic_ids = planner.topic_ids
        return dict(to_json(self._initial, self._topic_ids))

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the end of a query that reads the present messages."""
        planner = self._planner()
        self._target = planner.ends(planner.queues(all_must_exist=False), all_must_exist=False)

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit that Spark passes to `latestOffset`, unless its trigger reads all messages at once."""
        if self._options.max_rows_per_trigger is not None:
            return ReadMaxRows(self._options.max_rows_per_trigger)
        if self._options.min_rows_per_trigger is not None:
            return ReadMinRows(self._options.min_rows_per_trigger)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return the end of the next micro-batch; `start` itself if no batch is due.

        Raises:
            MessagesLost: a queue ends before its start, or was deleted, and `failOnDataLoss` is set.
            RlabError: the cluster does not answer.
        """
        starts, topic_ids = from_json(start), read_topic_ids(start)
        if not self._began:
            self._began = True
            if starts == self._initial and not self._options.start.is_repeatable:
                # The checkpoint has only ends. After a crash in its first batch a query resolves its initial offset
                # again, and "latest" has moved on: the messages in between would be skipped. So the first batch is
                # empty, which writes the initial offset to the checkpoint before any message is read.
                return start
        ends = self._ends(starts, topic_ids)
        limit_rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        # An end before the start means that the queue was truncated: no message of the range is left. Deleted messages
        # do not count as lag, because a batch of them would be empty.
        backlog = [
            Range(queue, min(max(self._begin(queue, starts), self._oldest.get(queue, 0)), end), end)
            for queue, end in ends.items()
        ]
        if not isinstance(limit, ReadAllAvailable) and not self._is_due(sum(each.end - each.start for each in backlog)):
            return start
        reached = ends if limit_rows is None else limit_ranges(backlog, limit_rows)
        return dict(to_json(reached, {**topic_ids, **self._topic_ids}))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the last known ends of the queues, from which Spark's progress computes the lag."""
        return dict(to_json(self._seen, self._topic_ids)) if self._seen else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Plan the tasks of a micro-batch."""
        starts, ends = from_json(start), from_json(end)
        for topic_at in recreated_topics(read_topic_ids(start), read_topic_ids(end)):
            starts = _without(starts, topic_at)
        # A new queue may begin after offset 0 without a loss, because this stream has not read it yet.
        new_queues = [queue for queue in ends if queue not in starts and ends[queue] > 0]
        if not self._options.fail_on_data_loss:
            new_queues = [queue for queue in ends if ends[queue] > starts.get(queue, 0)]
        # Deleted queues are left to the tasks, which skip them or report the loss.
        begins = self._planner().begins(new_queues, all_must_exist=False) if new_queues else {}
        ranges = []
        for queue, last in ends.items():
            # A start beyond the end is not a loss: the first batch of a query ran again after "latest" had moved on; or
            # the queue was truncated, which `latestOffset` has reported.
            first = min(starts.get(queue, begins.get(queue, 0)), last)
            begin = min(max(first, begins.get(queue, 0)), last)
            if begin > first:
                logger.warning("queue %s: skipping %d deleted messages from offset %d on", queue, begin - first, first)
            ranges.append(Range(queue, begin, last))
        self._planner()
        assert self._client is not None, "the planner has it"
        client, options = self._client, self._options
        return plan_tasks(ranges, options, partial(self._mean_bytes, client), client.last_masters, session_cores())

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing; see the module header."""

    def stop(self) -> None:
        """Close the driver's connections."""
        if self._client is not None:
            self._client.close()

    # --- reading, on executors ---------------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Read the ranges of a task."""
        return read_ranges(partition, self._options, self._schema)

    # --- inside ------------------------------------------------------------------------------------------------------

    def _planner(self) -> Planner:
        # Not in the constructor, because Spark pickles the reader for its executors, and a socket cannot be pickled.
        if self._client is None:
            self._client = open_client(self._options)
        return Planner(self._client, self._options)

    def _mean_bytes(self, client: WireClient, some: list[Range]) -> float:
        """Return the mean size of a message; most batches use the sample of an earlier one, which takes requests."""
        now = self._now()
        if not self._sampled_bytes or now - self._sampled_at >= SAMPLE_INTERVAL_S:
            self._sampled_bytes, self._sampled_at = sampled_bytes(client, self._options, some), now
        return self._sampled_bytes

    def _begin(self, queue: MessageQueue, starts: Offsets) -> int:
        """Return the offset at which the next batch begins to read a queue."""
        return starts[queue] if queue in starts else self._begins[queue]

    def _ends(self, starts: Offsets, topic_ids: TopicIds) -> Offsets:
        """Return the end of every queue that has a start or is new; it is never before the beginning.

        Starts of topics that were created again are removed from `starts`.
        """
        self._poll(starts, topic_ids)
        target = self._target
        ends: Offsets = {}
        for queue in {**starts, **self._begins}:
            start, end = starts.get(queue), self._seen.get(queue)
            if target is not None and queue not in target:
                if start is not None:
                    ends[queue] = start  # it appeared after the end of this query was fixed
                continue
            if end is None:
                assert start is not None, "a queue that has appeared has an end"
                ends[queue] = start
                continue
            if start is not None and end < start:
                why = f"ends at {end}, and offset {start} was requested: it was truncated, or created again"
                self._lost(queue, f"queue {queue} {why}")
            ends[queue] = end if target is None else min(end, max(target[queue], self._begin(queue, starts)))
        return ends

    def _poll(self, starts: Offsets, topic_ids: TopicIds) -> None:
        """Request the ends of queues, and find missing and new queues; at most once in `metadataPollMs`."""
        now = self._now()
        # An idle query whose trigger has no interval calls this every 11 ms.
        is_time = self._seen_at is None or now - self._seen_at >= self._options.metadata_poll_s
        if is_time:
            self._seen = self._seen_ends()
            self._find_missing(starts)
        self._forget_recreated(starts, topic_ids)
        if is_time:
            self._begins = self._begins_of([queue for queue in self._seen if queue not in starts])
            self._oldest = self._oldest_of([queue for queue in self._seen if queue in starts])
            self._seen_at = now

    def _forget_recreated(self, starts: Offsets, topic_ids: TopicIds) -> None:
        """Report topics that were deleted and created again, and remove their starts."""
        for topic_at in recreated_topics(topic_ids, self._topic_ids):
            old = [queue for queue in starts if (queue.topic, queue.broker_name) == topic_at]
            for queue in old:
                text = (
                    f"the messages of queue {queue} from offset {starts[queue]} on are gone: its topic was deleted and"
                )
                self._lost(
                    queue, f"{text} created again (number {topic_ids[topic_at]}, and now {self._topic_ids[topic_at]})"
                )
                del starts[queue]

    def _seen_ends(self) -> Offsets:
        planner = self._planner()
        queues = planner.queues(all_must_exist=False)
        try:
            ends = planner.ends(queues, all_must_exist=False)
        except NetworkError as error:
            left = planner.queues(all_must_exist=False)
            # Race: a broker went down between the two requests; the others continue.
            if left == queues:
                ends = self._ends_without_name_server(queues, error)
            else:
                ends = planner.ends(left, all_must_exist=False)
        self._topic_ids = planner.topic_ids
        return ends

    def _ends_without_name_server(self, queues: list[MessageQueue], error: NetworkError) -> Offsets:
        """Return the ends on the brokers that answer; the stream waits for the others, as if they had left the route.

        Raises:
            NetworkError: the given error, if a name server answers, which would report a broker that left; or if no
                broker answers.
        """
        planner = self._planner()
        assert self._client is not None, "the planner has it"
        try:
            self._client.masters()
        except NetworkError:
            ends: Offsets = {}
        else:
            raise error
        for broker in sorted({queue.broker_name for queue in queues}):
            try:
                ends |= planner.ends([each for each in queues if each.broker_name == broker], all_must_exist=False)
            except NetworkError as away:
                logger.warning("waiting for broker %s: %s", broker, away)
        if not ends:
            raise error
        return ends

    def _oldest_of(self, queues: list[MessageQueue]) -> Offsets:
        """Return the beginnings of known queues if they matter: a limited batch must begin after deleted messages."""
        if self._options.fail_on_data_loss or self._options.max_rows_per_trigger is None or not queues:
            return {}
        try:
            return self._planner().begins(queues, all_must_exist=False)
        except NetworkError:
            return {}  # a broker just went down: the executors or the next poll report it

    def _begins_of(self, new: list[MessageQueue]) -> Offsets:
        """Return the beginnings of new queues: above 0 if a broker was down and its oldest messages have expired.

        A batch that ended before that offset would write a start to the checkpoint that no broker has.
        """
        if not new:
            return {}
        try:
            held = self._planner().bounds(new, all_must_exist=False)
        except NetworkError:
            return {}  # down again: they appear when they are back
        self._seen.update((queue, bounds.end) for queue, bounds in held.items())
        return {queue: bounds.begin for queue, bounds in held.items()}

    def _find_missing(self, starts: Offsets) -> None:
        """Distinguish queues whose broker is down, for which the stream waits, from deleted ones (reported once)."""
        self._gone.difference_update(self._seen)
        missing = [queue for queue in starts if queue not in self._seen and queue not in self._gone]
        if not missing:
            return
        assert self._client is not None, "the ends were requested with it"
        try:
            masters = self._client.masters()
        except NetworkError:
            return  # unknown for now; the queues keep their offsets
        queues_found = [queue for queue in missing if queue.broker_name in masters]
        if not queues_found:
            return
        # Race: a broker may have come back between the two requests, so the ends are requested again.
        self._seen = self._seen_ends()
        for queue in queues_found:
            if queue not in self._seen:
                self._lost(queue, f"queue {queue} no longer exists, and its offset {starts[queue]} was requested")
                self._gone.add(queue)

    def _lost(self, queue: MessageQueue, text: str) -> None:
        if self._options.fail_on_data_loss:
            raise MessagesLost(f"{text}; set option failOnDataLoss to false to continue without it")
        if self._reported.get(queue) != text:
            self._reported[queue] = text
            logger.warning("%s", text)

    def _is_due(self, available: int) -> bool:
        min_rows = self._options.min_rows_per_trigger
        if min_rows is None or self._target is not None:
            return True
        now = self._now()
        if self._waiting_since is None:
            self._waiting_since = now
        if is_due(available, min_rows, now - self._waiting_since, self._options.max_trigger_delay_s):
            self._waiting_since = now
            return True
        return False


def _without(offsets: Offsets, topic_at: tuple[str, str]) -> Offsets:
    return {queue: offset for queue, offset in offsets.items() if (queue.topic, queue.broker_name) != topic_at}
