"""Positions in queues: their JSON, what one micro-batch takes of a backlog, and how a range is cut for tasks. Pure.

A position is the offset of the next message to read, so ranges are half open. In JSON, where every end is exclusive:

    {"orders": {"broker-a": {"0": 23, "1": -1}}}        -1 is the end of the queue, -2 its beginning

Invariant: what is made here for Spark has its keys sorted. Spark compares offsets as text, and two orders of one
mapping look like news to it: a stream over idle queues then runs empty batch after empty batch.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple

from model.errors import ConfigError
from model.message_queue import MessageQueue

EARLIEST = -2
LATEST = -1
MAX_OFFSET = 2**63 - 1

Offsets = dict[MessageQueue, int]
JsonOffsets = dict[str, dict[str, dict[str, int]]]


class Bounds(NamedTuple):
    """What a queue holds: from `begin`, before `end`."""

    begin: int
    end: int


class Range(NamedTuple):
    """Offsets `start` to before `end` of one queue."""

    queue: MessageQueue
    start: int
    end: int


def to_json(offsets: Mapping[MessageQueue, int]) -> JsonOffsets:
    """Return the mapping for JSON, sorted by topic, broker name and queue id as text."""
    found: JsonOffsets = {}
    for queue in sorted(offsets, key=lambda queue: (queue.topic, queue.broker_name, str(queue.queue_id))):
        brokers = found.setdefault(queue.topic, {})
        brokers.setdefault(queue.broker_name, {})[str(queue.queue_id)] = offsets[queue]
    return found


def to_text(offsets: Mapping[MessageQueue, int]) -> str:
    """Return the JSON text that options take."""
    return json.dumps(to_json(offsets))


def parse_offsets(text: str, option: str = "offsets") -> Offsets:
    """Read the JSON of an option.

    Raises:
        ConfigError: it is not of the form in the module header; the text names the option and what is wrong.
    """
    example = 'write it as {"topic": {"broker": {"0": 23, "1": -1}}}'
    try:
        document = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"{option} is no JSON ({error}): {example}") from error
    offsets: Offsets = {}
    for topic, brokers in _items(document, option, example):
        for broker_name, queues in _items(brokers, f"{option}: {topic!r}", example):
            for queue_id, offset in _items(queues, f"{option}: {topic!r}, {broker_name!r}", example):
                if not (queue_id.isascii() and queue_id.isdigit()):
                    raise ConfigError(f"{option}: queue {queue_id!r} of {topic!r} is no whole number: {example}")
                if type(offset) is not int or not EARLIEST <= offset <= MAX_OFFSET:
                    raise ConfigError(
                        f"{option}: offset {offset!r} of {topic}@{broker_name}:{queue_id} is neither an offset nor "
                        f"{LATEST} for the end nor {EARLIEST} for the beginning"
                    )
                offsets[MessageQueue(topic, broker_name, int(queue_id))] = offset
    return offsets


def from_json(document: JsonOffsets) -> Offsets:
    """Read back what `to_json` made: an offset that Spark kept in its checkpoint."""
    return {
        MessageQueue(topic, broker_name, int(queue_id)): offset
        for topic, brokers in document.items()
        for broker_name, queues in brokers.items()
        for queue_id, offset in queues.items()
    }


def parse_queues(text: str, option: str = "assign") -> tuple[MessageQueue, ...]:
    """Read `{"topic": {"broker": [0, 1]}}`.

    Raises:
        ConfigError: it is not of this form, or names no queue.
    """
    example = 'write it as {"topic": {"broker": [0, 1]}}'
    try:
        document = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"{option} is no JSON ({error}): {example}") from error
    queues: set[MessageQueue] = set()
    for topic, brokers in _items(document, option, example):
        for broker_name, queue_ids in _items(brokers, f"{option}: {topic!r}", example):
            if type(queue_ids) is not list or not all(type(one) is int and one >= 0 for one in queue_ids):
                raise ConfigError(f"{option}: {topic!r}, {broker_name!r} must have a list of queue ids: {example}")
            queues.update(MessageQueue(topic, broker_name, queue_id) for queue_id in queue_ids)
    if not queues:
        raise ConfigError(f"{option} names no queue: {example}")
    return tuple(sorted(queues))


def queues_to_text(queues: Iterable[MessageQueue]) -> str:
    """Return the JSON text that option assign takes."""
    found: dict[str, dict[str, list[int]]] = {}
    for queue in sorted(queues):
        found.setdefault(queue.topic, {}).setdefault(queue.broker_name, []).append(queue.queue_id)
    return json.dumps(found)


def _items(value: object, where: str, example: str) -> Iterable[tuple[str, object]]:
    if not isinstance(value, dict):
        raise ConfigError(f"{where} is no JSON object: {example}")
    return value.items()


def limited(ranges: Iterable[Range], max_rows: int) -> Offsets:
    """Say how far each queue is read when all of them together may give so many messages.

    Every queue with a backlog gives at least one message, so that a quiet queue beside a busy one is never starved; the
    rest is shared in proportion to the backlogs. Nothing is lost to rounding: what the floors leave over goes to the
    largest remainders, the first queue of two equal ones.

    Args:
        ranges: the whole backlog, one range per queue; `end` is not below `start`.
        max_rows: most messages, at least 1. When more queues than that have a backlog, each of them gives one.

    Returns:
        Queue -> exclusive end.
    """
    ordered = sorted(ranges)
    backlog = {one.queue: one.end - one.start for one in ordered if one.end > one.start}
    total = sum(backlog.values())
    if total <= max_rows:
        return {one.queue: one.end for one in ordered}
    # One each is given; only what lies behind it is shared.
    spare, rest = max(0, max_rows - len(backlog)), max(1, total - len(backlog))
    shares = {queue: divmod((size - 1) * spare, rest) for queue, size in backlog.items()}
    left_over = spare - sum(share for share, _ in shares.values())
    extra = set(sorted(shares, key=lambda queue: (-shares[queue][1], queue))[:left_over])
    return {
        one.queue: one.start + (1 + shares[one.queue][0] + (one.queue in extra) if one.queue in backlog else 0)
        for one in ordered
    }


def split(ranges: Iterable[Range], min_partitions: int = 0, max_rows: int | None = None) -> list[Range]:
    """Cut ranges into pieces, one per task.

    Args:
        ranges: one per queue; empty ones give no piece.
        min_partitions: at least so many pieces, as far as there are messages; each range is cut in proportion to its
            length. 0 for no such wish.
        max_rows: most messages of a piece, or None.

    Returns:
        Pieces in order; those of one range join without gap or overlap.
    """
    ordered = sorted(one for one in ranges if one.end > one.start)
    total = sum(one.end - one.start for one in ordered)
    pieces: list[Range] = []
    for one in ordered:
        size = one.end - one.start
        # Rounded up: with fractions rounded down, ten ranges and a wish for fifteen pieces would give ten.
        count = max(1, -(-size * min_partitions // total))
        if max_rows is not None:
            count = max(count, -(-size // max_rows))
        count = min(count, size)
        cuts = [one.start + size * number // count for number in range(count + 1)]
        pieces.extend(Range(one.queue, *cut) for cut in pairwise(cuts))
    return pieces


def together(pieces: Iterable[Range], max_rows: int) -> list[tuple[Range, ...]]:
    """Put neighbouring pieces together that have few messages, up to `max_rows` in all.

    Returns:
        What each task reads: every piece once, in order.
    """
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


def is_due(available: int, min_rows: int, waited_s: float, max_wait_s: float) -> bool:
    """Whether a micro-batch that wants `min_rows` messages may start: it has them, or has waited long enough."""
    return available >= min_rows or (available > 0 and waited_s >= max_wait_s)
