"""Offsets of queues: their JSON, the limit of a micro-batch, and the division of ranges into tasks. Pure.

A position is the offset of the next message to read, so ranges are half open. In JSON, where every end is exclusive:

    {"orders": {"broker-a": {"0": 23, "1": -1}}}        -1 is the end of the queue, -2 its beginning

The offset of a stream also has the number of each broker's topic, `"topic_id": 7` beside its queues: a topic that was
deleted and created again has another number, and offsets of the old topic are invalid in it.

Invariant: JSON for Spark has sorted keys. Spark compares offsets as text, so another order of the same mapping would
look like a change, and a stream over idle queues would run empty batches continuously.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from model.errors import ConfigError
from model.message_queue import MessageQueue

EARLIEST = -2
LATEST = -1
MAX_OFFSET = 2**63 - 1

Offsets = dict[MessageQueue, int]
TopicIds = dict[tuple[str, str], int]
"""(topic, broker name) -> number of the topic in that broker."""
JsonOffsets = dict[str, dict[str, dict[str, int]]]
_TOPIC_ID = "topic_id"


class Bounds(NamedTuple):
    """Offsets that a queue holds: from `begin` to before `end`."""

    begin: int
    end: int


class Range(NamedTuple):
    """Offsets `start` to before `end` of one queue."""

    queue: MessageQueue
    start: int
    end: int


def to_json(offsets: Mapping[MessageQueue, int], topic_ids: Mapping[tuple[str, str], int] | None = None) -> JsonOffsets:
    """Return the mapping for JSON, sorted by topic, broker name and queue id as text, with the numbers of topics."""
    by_topic: JsonOffsets = {}
    for queue in sorted(offsets, key=lambda queue: (queue.topic, queue.broker_name, str(queue.queue_id))):
        brokers = by_topic.setdefault(queue.topic, {})
        brokers.setdefault(queue.broker_name, {})[str(queue.queue_id)] = offsets[queue]
    for (topic, broker_name), topic_id in (topic_ids or {}).items():
        if broker_name in by_topic.get(topic, {}):
            by_topic[topic][broker_name][_TOPIC_ID] = topic_id  # after the queues, in text order
    return by_topic


def to_text(offsets: Mapping[MessageQueue, int]) -> str:
    """Return the JSON text for options."""
    return json.dumps(to_json(offsets))


def parse_offsets(text: str, option: str = "offsets") -> Offsets:
    """Parse the JSON of an option.

    Raises:
        ConfigError: it does not have the form in the module header; the text names the option and the fault.
    """
    example = 'write it as {"topic": {"broker": {"0": 23, "1": -1}}}'
    offsets: Offsets = {}
    for topic, brokers in _items(_document(text, option, example), option, example):
        for broker_name, queues in _items(brokers, f"{option}: {topic!r}", example):
            for queue_id, offset in _items(queues, f"{option}: {topic!r}, {broker_name!r}", example):
                if queue_id == _TOPIC_ID:
                    continue  # users may copy the progress of a stream into an option
                if not (queue_id.isascii() and queue_id.isdigit()):
                    raise ConfigError(f"{option}: queue {queue_id!r} of {topic!r} is not a whole number: {example}")
                if type(offset) is not int or not EARLIEST <= offset <= MAX_OFFSET:
                    raise ConfigError(
                        f"{option}: offset {offset!r} of {topic}@{broker_name}:{queue_id} is neither an offset nor "
                        f"{LATEST} for the end nor {EARLIEST} for the beginning"
                    )
                offsets[MessageQueue(topic, broker_name, int(queue_id))] = offset
    return offsets


def from_json(document: JsonOffsets) -> Offsets:
    """Invert `to_json`, for an offset from Spark's checkpoint; `read_topic_ids` has the numbers of topics."""
    return {
        MessageQueue(topic, broker_name, int(queue_id)): offset
        for topic, brokers in document.items()
        for broker_name, queues in brokers.items()
        for queue_id, offset in queues.items()
        if queue_id != _TOPIC_ID
    }


def read_topic_ids(document: Mapping[str, Mapping[str, Mapping[str, int]]]) -> TopicIds:
    """Return the numbers of topics in an offset from Spark's checkpoint; empty for an offset of an earlier version."""
    return {
        (topic, broker_name): queues[_TOPIC_ID]
        for topic, brokers in document.items()
        for broker_name, queues in brokers.items()
        if _TOPIC_ID in queues
    }


def recreated_topics(start: Mapping[tuple[str, str], int], end: Mapping[tuple[str, str], int]) -> list[tuple[str, str]]:
    """Return the topics and brokers of topics that were deleted and created again between two offsets of a stream."""
    return sorted(topic_at for topic_at, topic_id in start.items() if end.get(topic_at, topic_id) != topic_id)


def parse_queues(text: str, option: str = "assign") -> tuple[MessageQueue, ...]:
    """Parse `{"topic": {"broker": [0, 1]}}`.

    Raises:
        ConfigError: it does not have this form, or names no queue.
    """
    example = 'write it as {"topic": {"broker": [0, 1]}}'
    queues: set[MessageQueue] = set()
    for topic, brokers in _items(_document(text, option, example), option, example):
        for broker_name, queue_ids in _items(brokers, f"{option}: {topic!r}", example):
            if type(queue_ids) is not list or not all(type(number) is int and number >= 0 for number in queue_ids):
                raise ConfigError(f"{option}: {topic!r}, {broker_name!r} must have a list of queue ids: {example}")
            queues.update(MessageQueue(topic, broker_name, queue_id) for queue_id in queue_ids)
    if not queues:
        raise ConfigError(f"{option} names no queue: {example}")
    return tuple(sorted(queues))


def queues_to_text(queues: Iterable[MessageQueue]) -> str:
    """Return the JSON text for option assign."""
    by_topic: dict[str, dict[str, list[int]]] = {}
    for queue in sorted(queues):
        by_topic.setdefault(queue.topic, {}).setdefault(queue.broker_name, []).append(queue.queue_id)
    return json.dumps(by_topic)


def _document(text: str, option: str, example: str) -> object:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ConfigError(f"{option} is not JSON ({error}): {example}") from error


def _items(value: object, where: str, example: str) -> Iterable[tuple[str, object]]:
    if not isinstance(value, dict):
        raise ConfigError(f"{where} is not a JSON object: {example}")
    return value.items()


def limit_ranges(ranges: Iterable[Range], max_rows: int) -> Offsets:
    """Return the end (exclusive) of each queue if `max_rows` limits the messages of all queues together.

    At least one message of every queue with a lag is read, so that a quiet queue beside a busy one never starves; the
    rest is proportional to the lags. Messages that remain after rounding down go to the largest remainders, and of two
    equal remainders to the first queue.

    `ranges` has the whole lag, one range per queue, with `start` <= `end`. `max_rows` is at least 1; if more queues
    than that have a lag, one message of each is read.
    """
    ordered = sorted(ranges)
    lag = {each.queue: each.end - each.start for each in ordered if each.end > each.start}
    total = sum(lag.values())
    if total <= max_rows:
        return {each.queue: each.end for each in ordered}
    # Each queue gets one message; only the others are distributed.
    spare, rest = max(0, max_rows - len(lag)), max(1, total - len(lag))
    parts = {queue: divmod((size - 1) * spare, rest) for queue, size in lag.items()}
    left_over = spare - sum(part for part, _ in parts.values())
    extra = set(sorted(parts, key=lambda queue: (-parts[queue][1], queue))[:left_over])
    return {
        each.queue: each.start + (1 + parts[each.queue][0] + (each.queue in extra) if each.queue in lag else 0)
        for each in ordered
    }


def split(ranges: Iterable[Range], min_partitions: int = 0, max_rows: int | None = None) -> list[Range]:
    """Cut ranges into pieces, in order; the pieces of one range have no gap or overlap.

    There are at least `min_partitions` pieces if there are enough messages, and each range is cut in proportion to its
    length; a piece has at most `max_rows` messages. Empty ranges yield no piece.
    """
    ordered = sorted(each for each in ranges if each.end > each.start)
    total = sum(each.end - each.start for each in ordered)
    pieces: list[Range] = []
    for each in ordered:
        size = each.end - each.start
        # Rounded up: rounded down, ten ranges would yield ten pieces if fifteen are wanted.
        count = max(1, -(-size * min_partitions // total))
        if max_rows is not None:
            count = max(count, -(-size // max_rows))
        count = min(count, size)
        cuts = [each.start + size * number // count for number in range(count + 1)]
        pieces.extend(Range(each.queue, *cut) for cut in pairwise(cuts))
    return pieces


def join_small(pieces: Iterable[Range], max_rows: int) -> list[tuple[Range, ...]]:
    """Join neighbouring small pieces into tasks of up to `max_rows` messages; every piece is in one task, in order."""
    tasks: list[tuple[Range, ...]] = []
    room = 0
    for piece in pieces:
        size = piece.end - piece.start
        if tasks and size <= room:
            tasks[-1] += (piece,)
        else:
            tasks.append((piece,))
            room = max_rows
        room -= size
    return tasks


def join_pieces(pieces: Sequence[Range], max_pieces: int) -> list[tuple[Range, ...]]:
    """Join neighbouring pieces into at most `max_pieces` non-empty tasks with about the same number of messages."""
    total = sum(piece.end - piece.start for piece in pieces)
    tasks: dict[int, list[Range]] = {}
    size_before = 0
    for piece in pieces:
        size = piece.end - piece.start
        # By the middle of the piece, so that a long piece does not attract short pieces after it to its task.
        number = min(max_pieces - 1, (2 * size_before + size) * max_pieces // (2 * total))
        tasks.setdefault(number, []).append(piece)
        size_before += size
    return [tuple(task) for task in tasks.values()]


def is_due(available: int, min_rows: int, waited_s: float, max_wait_s: float) -> bool:
    """Whether a micro-batch that needs `min_rows` messages may start: it has them, or has waited long enough."""
    return available >= min_rows or (available > 0 and waited_s >= max_wait_s)
