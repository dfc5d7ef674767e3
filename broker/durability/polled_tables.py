"""PolledTables: the tables of a replica as one of RocketMQ keeps them, for the quirks of its SlaveSynchronize.

RocketMQ's slaves poll whole tables beside the log, so their tables are older than the log, and half written at times.
Here the changes arrive with the log; these quirks hold them back.

    SLAVE_OFFSETS_GO_BACK       committed at 0 s, 3 s and 11 s     the replica has the first until 11 s, then all
    SLAVE_SYNC_DELETES_TOPICS   a topic is made at 0 s             no topic at all until the first change after 5 s
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager

from broker.durability.changes import CLEAR, PUT, RowChange
from broker.durability.metadata_file import MetadataFile
from broker.durability.snapshot import SnapshotLoad
from model.quirks import Quirk

OFFSETS_POLL_S, TOPICS_POLL_S = 10.0, 5.0
"""RocketMQ: the task of SlaveSynchronize works if 10 s have passed; syncBrokerMetadataPeriod."""
_NEVER = float("inf")


class PolledTables:
    """The file of a replica, to whose `apply` and `load_snapshot` the quirks apply; `clock` is in seconds."""

    def __init__(self, file: MetadataFile, quirks: frozenset[Quirk], clock: Callable[[], float]) -> None:
        self._file, self._clock = file, clock
        self._holds_offsets = Quirk.SLAVE_OFFSETS_GO_BACK in quirks
        self._deletes_topics = Quirk.SLAVE_SYNC_DELETES_TOPICS in quirks
        self._offsets: list[RowChange] = []  # not applied yet
        self._offsets_at = clock() + OFFSETS_POLL_S
        self._topics: list[RowChange] = []
        self._topics_at = _NEVER

    def load_snapshot(self) -> AbstractContextManager[SnapshotLoad]:
        """See `MetadataFile.load_snapshot`; it is a poll of everything."""
        self._offsets, self._topics, self._topics_at = [], [], _NEVER
        return self._file.load_snapshot()

    def apply(self, changes: Iterable[RowChange]) -> None:
        """See `MetadataFile.apply`."""
        changes, now = list(changes), self._clock()
        if self._holds_offsets:
            self._offsets += [each for each in changes if each.table == "offsets"]
            changes = [each for each in changes if each.table != "offsets"]
            if now >= self._offsets_at:
                changes, self._offsets = [*changes, *self._offsets], []
                self._offsets_at = now + OFFSETS_POLL_S
        if self._deletes_topics:
            changes = self._without_topics(changes, now)
        self._file.apply(changes)

    def _without_topics(self, changes: list[RowChange], now: float) -> list[RowChange]:
        changed = [each for each in changes if each.table == "topics"]
        changes = [each for each in changes if each.table != "topics"]
        if changed and not self._topics:
            rows = self._file.rows(self._file.shape("topics").select())
            self._topics, self._topics_at = [RowChange("topics", PUT, row) for row in rows], now + TOPICS_POLL_S
            changes.append(RowChange("topics", CLEAR, ()))
        self._topics += changed
        if now >= self._topics_at:
            changes, self._topics, self._topics_at = [*changes, *self._topics], [], _NEVER
        return changes
