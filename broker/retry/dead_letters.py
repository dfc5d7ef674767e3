"""MARK_DEAD_LETTERS: remembers which dead-letter messages were re-sent, so that none is re-sent twice.

Reading them is a pull of `%DLQ%group`, and re-sending is a send; only this memory is the broker's. RocketMQ has none:
its console re-sends as often as it is asked.

Operators re-send one message to see whether the repair works, and then the rest, so one number does not say what was
re-sent. Of each queue everything below a mark is, and some messages above it:

    mark 5             below 0, above 5
    mark 0 1 2         below 3, above 5
    mark 3 4           below 6
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

import msgpack

from broker.durability.metadata import Table
from broker.feature import Core, Feature
from broker.topics.service import Topics
from broker.topics.table import check_exists
from model.counted import plural
from model.errors import InvalidParameter, SystemBusy
from model.limits import MAX_RESENT_MARKS
from model.names import check_group, dlq_topic
from remoting.body import rows_of
from remoting.command import Command
from remoting.connection import Connection
from remoting.request_code import RequestCode
from remoting.server import Handler

_SCHEMA = """
create table if not exists resent (
    topic text not null, queue_id integer not null, topic_id integer not null, below integer not null,
    above blob not null, primary key (topic, queue_id)
) without rowid;
"""


class ResentMarks:
    """The marks of one queue: every offset below `below`, and those in `above`.

    Invariant: `below` itself is not marked, and at most MAX_RESENT_MARKS offsets are above it.
    """

    def __init__(self, below: int = 0, above: Iterable[int] = ()) -> None:
        self.below = below
        self._above: dict[int, None] = dict.fromkeys(above)

    @property
    def above(self) -> list[int]:
        """Marked offsets above `below`, sorted."""
        return sorted(self._above)

    def mark(self, offsets: Iterable[int], *, oldest: int) -> None:
        """Mark messages as re-sent; those marked before stay marked, and all below `oldest` count as marked.

        Raises:
            SystemBusy: too many marks with gaps between them; nothing was marked.
        """
        below = max(self.below, oldest)
        above = {offset: None for offset in (*self._above, *offsets) if offset >= below}
        while below in above:
            del above[below]
            below += 1
        if len(above) > MAX_RESENT_MARKS:
            raise SystemBusy(
                f"{plural(len(above), 'message')} would be marked after one that is not: re-send that at offset "
                f"{below} first"
            )
        self.below, self._above = below, above

    def __contains__(self, offset: int) -> bool:
        return offset < self.below or offset in self._above


class DeadLetters(Feature):
    """The marks of the dead-letter messages of every group."""

    def __init__(self, core: Core, topics: Topics) -> None:
        self._core = core
        self._topics = topics.table
        core.metadata.add_tables(_SCHEMA)
        self._rows = Table(core.metadata, "resent", replicated=True)
        self._resent = {
            (topic, queue_id): ResentMarks(below, cast("list[int]", msgpack.unpackb(above)))
            for topic, queue_id, _, below, above in self._rows.rows("topic, queue_id")
        }

    def handlers(self) -> dict[RequestCode, Handler]:
        """Request code -> handler."""
        return {RequestCode.MARK_DEAD_LETTERS: self.mark}

    def mark(self, connection: Connection, request: Command) -> None:
        """Mark messages, without any only read the marks, and return all marks; answers once they are stored."""
        core, header = self._core, request.header
        topic, queue_id = dlq_topic(check_group(header["group"])), header["queue_id"]
        entry = self._topics.existing(topic)
        check_exists(entry.config, queue_id)
        key = (entry.topic_id, queue_id)
        low, high = core.store.min_offset(*key), core.store.max_offset(*key)
        offsets: Sequence[int] = rows_of(request) if request.body else ()
        if any(offset >= high for offset in offsets):
            raise InvalidParameter(f"the request's body must be an array of offsets from 0 to {high - 1}")
        marks = self._resent.get((topic, queue_id)) or ResentMarks()
        if offsets:
            marks.mark(offsets, oldest=low)
            self._resent[(topic, queue_id)] = marks
            self._rows.put(topic, queue_id, entry.topic_id, marks.below, msgpack.packb(marks.above))
        answer = {"below": marks.below, "min_offset": low, "max_offset": high}
        core.barrier.respond_after_commit(connection, request, answer, msgpack.packb(marks.above))

    def topic_deleted(self, topic: str, cause: str) -> None:
        """Forget the marks of a topic: a later topic of the same name begins without marks."""
        for key in [key for key in self._resent if key[0] == topic]:
            del self._resent[key]
        self._rows.delete_where("topic", topic)
