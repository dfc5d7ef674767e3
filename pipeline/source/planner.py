"""Finds the queues and the offsets of a read with requests to the cluster. Runs on the driver."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from model.counted import plural
from model.errors import ConfigError, QueryNotFound, TopicNotExist
from model.message_queue import MessageQueue
from model.names import is_system_topic
from pipeline.source.offsets import EARLIEST, Bounds, Offsets, TopicIds
from pipeline.source.options import Position, SourceOptions
from pipeline.wire import WireClient
from remoting.command import Command
from remoting.request_code import RequestCode

_SHOWN_TOPICS = 10


class Planner:
    """Finds queues and offsets for the options of a read; the caller closes `client`."""

    def __init__(self, client: WireClient, options: SourceOptions) -> None:
        self._client = client
        self._options = options
        self.topic_ids: TopicIds = {}  # numbers of the topics whose queue ends were requested

    def queues(self, *, all_must_exist: bool) -> list[MessageQueue]:
        """Return the queues that can be read now, sorted.

        A running stream keeps the offset of a queue whose broker is down, and continues when it is back.

        Raises:
            ConfigError: a named topic or queue does not exist, although `all_must_exist`.
            RlabError: no name server answers.
        """
        options = self._options
        if options.queues:
            return self._assigned(options.queues, all_must_exist=all_must_exist)
        names: Iterable[str] = options.topics
        if options.pattern is not None:
            names = [name for name in self._client.topics() if _matches(options.pattern, name)]
        queues: list[MessageQueue] = []
        for topic in names:
            route = self._client.route(topic)
            if route is not None:
                queues.extend(route.subscribe_queues())
            elif all_must_exist and options.pattern is None:
                raise ConfigError(f"topic {topic!r} does not exist, or no broker of it is up; {self._known_topics()}")
        return sorted(queues)

    def absent(self) -> list[str]:
        """Describe the queues of the read on brokers that are listed as absent, a text for each broker.

        Queues that an option names are not checked, because each of them has to exist.

        Raises:
            RlabError: no name server answers.
        """
        options, texts = self._options, list[str]()
        if options.queues:
            return texts
        brokers = [broker for topic in options.topics for broker in self._client.absent(topic)]
        if options.pattern is not None:
            brokers = self._client.absent()
        for broker in brokers:
            for config in broker.topics:
                pattern, topic = options.pattern, config.topic
                if topic in options.topics if pattern is None else _matches(pattern, topic):
                    queues = broker.queues_of(config.topic)
                    texts += [f"{plural(len(queues), 'queue')} of {config.topic} ({broker})"] if queues else []
        return texts

    def bounds(self, queues: Iterable[MessageQueue], *, all_must_exist: bool = True) -> dict[MessageQueue, Bounds]:
        """Return the offsets that each queue holds now; see `begins`."""
        all_queues = list(queues)
        begins = self.begins(all_queues, all_must_exist=all_must_exist)
        ends = self.ends(begins, all_must_exist=all_must_exist)
        return {queue: Bounds(begins[queue], end) for queue, end in ends.items()}

    def begins(self, queues: Iterable[MessageQueue], *, all_must_exist: bool = True) -> Offsets:
        """Return the lowest offset that each queue still holds.

        Raises:
            TopicNotExist: a queue was deleted since its route was read; without `all_must_exist`, it is skipped.
            RlabError: a broker cannot be reached, or refuses.
        """
        return self._ask(RequestCode.GET_MIN_OFFSET, list(queues), all_must_exist=all_must_exist)

    def ends(self, queues: Iterable[MessageQueue], *, all_must_exist: bool = True) -> Offsets:
        """Return the offset of the next message of each queue; see `begins`."""
        return self._ask(RequestCode.GET_MAX_OFFSET, list(queues), all_must_exist=all_must_exist)

    def resolve(self, position: Position, bounds: Mapping[MessageQueue, Bounds], option: str) -> Offsets:
        """Convert a position of the options to an offset for each queue; `option` is its name, for errors.

        Raises:
            ConfigError: the position has a queue that is not read, a group without a commit on these queues, or a
                timestamp since which no message was stored.
            RlabError: a broker does not answer.
        """
        for name, by_queue in ((option, position.offsets), (f"{option}ByTimestamp", position.timestamps_ms)):
            unknown = sorted(set(by_queue) - set(bounds))
            if unknown:
                raise ConfigError(f"option {name} names {unknown[0]}, which is not among the {len(bounds)} queues read")
        committed = self._committed(position.group, bounds) if position.group else {}
        timestamps_ms: Offsets = {}
        if position.timestamp_ms is not None:
            timestamps_ms = dict.fromkeys(bounds, position.timestamp_ms)
        timestamps_ms.update(position.timestamps_ms)
        left = {queue: ms for queue, ms in timestamps_ms.items() if queue not in committed}
        offsets = committed | self._at_times(left, position, bounds)
        for queue, held in bounds.items():
            offset = position.offsets.get(queue, position.default)
            offsets.setdefault(queue, offset if offset >= 0 else held.begin if offset == EARLIEST else held.end)
        return {queue: offsets[queue] for queue in bounds}

    def _at_times(
        self, timestamps_ms: Mapping[MessageQueue, int], position: Position, bounds: Mapping[MessageQueue, Bounds]
    ) -> Offsets:
        extra = {queue: {"timestamp_ms": ms} for queue, ms in timestamps_ms.items()}
        offsets = self._ask(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, list(timestamps_ms), extra)
        for queue, ms in timestamps_ms.items():
            # The answer for a queue without such a message is its end, which may have moved since the bounds were read.
            if offsets[queue] >= bounds[queue].end and not position.or_latest:
                option = "startingOffsetsByTimestamp" if queue in position.timestamps_ms else "startingTimestamp"
                raise ConfigError(
                    f"option {option}: {queue} has no message stored at or after {ms}; set "
                    "startingOffsetsByTimestampStrategy to latest to begin at its end"
                )
        return offsets

    def _committed(self, group: str, queues: Iterable[MessageQueue]) -> Offsets:
        """Return the committed offsets of a group, without queues that have none."""
        offsets: Offsets = {}
        for queue in queues:
            header = {"group": group, "topic": queue.topic, "queue_id": queue.queue_id}
            # One by one, because a broker refuses a request for a queue without a commit.
            with suppress(QueryNotFound):
                (answer,) = self._client.ask_broker(queue.broker_name, RequestCode.QUERY_CONSUMER_OFFSET, [header])
                offsets[queue] = answer.header["offset"]
        if not offsets:
            raise ConfigError(f"option startingGroup: group {group!r} has committed no offset of the queues read")
        return offsets

    def _assigned(self, assigned: tuple[MessageQueue, ...], *, all_must_exist: bool) -> list[MessageQueue]:
        existing: set[MessageQueue] = set()
        for topic in sorted({queue.topic for queue in assigned}):
            route = self._client.route(topic)
            if route is not None:
                existing.update(route.subscribe_queues())
        missing = [queue for queue in assigned if queue not in existing]
        if missing and all_must_exist:
            raise ConfigError(f"option assign names {missing[0]}, which does not exist, or whose broker is down")
        return [queue for queue in assigned if queue in existing]

    def _ask(
        self,
        code: RequestCode,
        queues: list[MessageQueue],
        extra: Mapping[MessageQueue, Mapping[str, object]] | None = None,
        *,
        all_must_exist: bool = True,
    ) -> Offsets:
        offsets: Offsets = {}
        for broker_name in sorted({queue.broker_name for queue in queues}):
            queues_of_broker = [queue for queue in queues if queue.broker_name == broker_name]
            more = extra or {}
            headers = [
                {"topic": queue.topic, "queue_id": queue.queue_id, **more.get(queue, {})} for queue in queues_of_broker
            ]
            answers: Sequence[Command | None]
            try:
                answers = self._client.ask_broker(broker_name, code, headers)
            except TopicNotExist:
                if all_must_exist:
                    raise
                answers = [self._answer_if_it_exists(broker_name, code, header) for header in headers]
            for queue, answer in zip(queues_of_broker, answers, strict=True):
                if answer is None:
                    continue
                offsets[queue] = answer.header["offset"]
                if "topic_id" in answer.header:  # brokers of earlier versions do not send it
                    self.topic_ids[queue.topic, broker_name] = answer.header["topic_id"]
        return offsets

    def _answer_if_it_exists(self, broker_name: str, code: RequestCode, header: Mapping[str, object]) -> Command | None:
        # Sent alone, because one refusal fails all requests that were sent together.
        try:
            return self._client.ask_broker(broker_name, code, [header])[0]
        except TopicNotExist:
            return None

    def _known_topics(self) -> str:
        names = [name for name in self._client.topics() if not is_system_topic(name) and not name.startswith("%")]
        more = f" and {len(names) - _SHOWN_TOPICS} more" if len(names) > _SHOWN_TOPICS else ""
        return f"there are {', '.join(names[:_SHOWN_TOPICS])}{more}" if names else "there are no topics"


def _matches(pattern: re.Pattern[str], topic: str) -> bool:
    # Retry topics and DLQs only if the pattern itself has a "%", as in `%DLQ%.*`.
    if is_system_topic(topic) or (topic.startswith("%") and "%" not in pattern.pattern):
        return False
    return pattern.fullmatch(topic) is not None
