"""PopRequest: the header of a POP_MESSAGE. It is read and checked once, although a parked pop may run many times."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from broker.messages.matching import parse_filter
from broker.messages.parked import ParkedRequest, Place
from model.errors import InvalidParameter
from model.heartbeat import ConsumeFrom
from model.limits import MAX_ATTEMPTS
from model.names import check_group, check_id, retry_topic
from model.sql.compiled import Matches
from remoting.command import Command
from remoting.connection import Connection
from remoting.overload.shares import find_sharer
from remoting.wire.pop import ANY_QUEUE

# Cached, because a client pops thousands of times with the same names; errors are not cached.
_checked_group = lru_cache(maxsize=1024)(check_group)
_checked_id = lru_cache(maxsize=1024)(check_id)
_CONSUME_FROM = {each.value: each for each in ConsumeFrom}


class PopRequest(NamedTuple):
    """The fields of a POP_MESSAGE request."""

    group: str
    topic: str
    queue_id: int  # `ANY_QUEUE` if the broker chooses the queue
    client_id: str
    max_n: int
    invisible_s: float
    tag_hashes: frozenset[int] | None  # hashes of the wanted tags, or None for all tags
    matches: Matches | None  # the filter of the wanted messages, or None without one
    order: bool  # whether only one batch of a queue is invisible at a time
    max_attempts: int  # deliveries after which a message is sent to the DLQ
    # Start of the group on a queue without a committed offset; None if the request does not say.
    consume_from: ConsumeFrom | None
    consume_timestamp_ms: int  # for `ConsumeFrom.TIMESTAMP`
    retry_topic: str | None  # the group's retry topic if its messages are delivered too, else None


class ParkedPop(ParkedRequest[Connection]):
    """A pop that waits for messages of its queue, or of any queue, and perhaps of its group's retry topic."""

    __slots__ = ("pop",)

    def __init__(self, connection: Connection, request: Command, pop: PopRequest, deadline: float) -> None:
        places: tuple[Place, ...] = ((pop.topic, (pop.group, pop.queue_id)),)
        if pop.retry_topic is not None:
            places += ((pop.retry_topic, (pop.group, ANY_QUEUE)),)
        super().__init__(connection, request, places, deadline, find_sharer(connection.owner))
        self.pop = pop


def read_pop(header: dict[str, Any]) -> PopRequest:
    """Read the header of a pop, which has been checked against its schema.

    Raises:
        InvalidParameter: an illegal name, or an unknown `consume_from`.
        FilterIllegal: the filter is not an expression of the language.
    """
    group, topic, queue_id = _checked_group(header["group"]), header["topic"], header["queue_id"]
    order = bool(header.get("order"))
    wants_retry_topic = header.get("retry")
    if wants_retry_topic is None:
        wants_retry_topic = queue_id == ANY_QUEUE and not order
    group_retry_topic = retry_topic(group)
    consume_from = header.get("consume_from")
    hashes = header.get("tag_hashes")
    return PopRequest(
        group,
        topic,
        queue_id,
        _checked_id("client id", header["client_id"]),
        header["max_n"],
        header["invisible_ms"] / 1000,
        None if hashes is None else frozenset(hashes),
        parse_filter(header),
        order,
        header.get("max_attempts") or MAX_ATTEMPTS,
        None if consume_from is None else _consume_from(consume_from),
        header.get("consume_timestamp_ms") or 0,
        group_retry_topic if wants_retry_topic and topic != group_retry_topic else None,
    )


def _consume_from(word: str) -> ConsumeFrom:
    consume_from = _CONSUME_FROM.get(word)
    if consume_from is None:
        words = ", ".join(_CONSUME_FROM)
        raise InvalidParameter(f"POP_MESSAGE: field 'consume_from' must be one of {words}, got {word[:80]!r}")
    return consume_from
