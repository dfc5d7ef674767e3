"""Reports damage to the log, at the start and when a read finds it: which messages can no longer be read.

Without a report, a loss would look like a group that has consumed everything. So each range that the store finds
damaged or missing causes one warning and one event in each run of the broker, and is counted until retention deletes
it. Delayed and half messages are stored in internal topics; they are reported under the topics of their destination.
"""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path

from broker.feature import Core, Feature
from broker.store.damage import DamagedRange
from broker.topics.service import Topics
from broker.topics.table import queue_count
from model.events import EventKind
from model.limits import MAX_DAMAGE_LINES, MAX_DAMAGE_OWNERS
from model.names import is_system_topic
from model.topic_route import TopicConfig

logger = logging.getLogger(__name__)


class DamageReports(Feature):
    """The reports of one broker on the damage in its data directory."""

    def __init__(self, core: Core, topics: Topics, data_dir: Path) -> None:
        self._core = core
        self._topics = topics.table
        self._data_dir = data_dir
        self._has_started = False
        core.store.on_damage = self.report

    def report(self) -> None:
        """Log, and record as events, the damage found since the last call; `report_start` does so at the start."""
        if not self._has_started:
            return  # the features that know the destinations of these messages do not all exist yet
        core, names = self._core, self._topics.names()
        # Messages of an unknown topic are not lost: they were deleted with it.
        damages = [damage for damage in core.store.damage.collect_new() if damage.topic_id in names]
        for number, damage in enumerate(damages):
            topic = names[damage.topic_id]
            n, is_logged = damage.n, number < MAX_DAMAGE_LINES
            if is_system_topic(topic):
                n -= self._report_destinations(damage, is_logged=is_logged)
            if not n:
                continue
            core.emit(
                EventKind.MESSAGES_DAMAGED,
                topic=topic,
                queue_id=damage.queue_id,
                offset=damage.first_offset,
                n=n,
                detail=damage.segment,
            )
            if is_logged:
                logger.warning(
                    "broker %s: offsets %d to %d of %s:%d, %d in all, are damaged or missing in %s: no consumer can "
                    "get them; %s",
                    *(core.name, damage.first_offset, damage.end_offset - 1, topic, damage.queue_id, n),
                    *(self._data_dir / damage.segment, self._remedy()),
                )
        if len(damages) > MAX_DAMAGE_LINES:
            logger.warning(
                "broker %s: %d ranges more, %d messages in all: rlab broker verify %s lists them",
                *(core.name, len(damages) - MAX_DAMAGE_LINES, sum(damage.n for damage in damages), self._data_dir),
            )

    def _remedy(self) -> str:
        if self._core.barrier.replication is not None:
            return f"another replica may have them: rlab broker handover {self._core.name}"
        return "if you have that file elsewhere, stop the broker and put it back"

    def _report_destinations(self, damage: DamagedRange, *, is_logged: bool) -> int:
        """Report the destinations of messages in the broker's own topics; returns of how many they are known."""
        core, key = self._core, (damage.topic_id, damage.queue_id)
        offsets = range(damage.first_offset, min(damage.end_offset, damage.first_offset + MAX_DAMAGE_OWNERS))
        destinations = (core.features.destination_of(key, offset) for offset in offsets)
        counts = Counter(destination for destination in destinations if destination is not None)
        for destination, n in counts.items():
            columns = {"topic": destination.topic, **({"group": destination.group} if destination.group else {})}
            detail = f"{destination.what} in {damage.segment}"
            core.emit(EventKind.MESSAGES_DAMAGED, **columns, queue_id=-1, n=n, detail=detail)
            if is_logged:
                logger.warning(
                    "broker %s: %d %s for %s%s are damaged or missing in %s, and will not be delivered",
                    *(
                        core.name,
                        n,
                        destination.what,
                        f"topic {destination.topic!r}" if destination.topic else "a topic that is unknown",
                    ),
                    *(
                        f" of producer group {destination.group!r}" if destination.group else "",
                        self._data_dir / damage.segment,
                    ),
                )
        return counts.total()

    def report_start(self) -> None:
        """Report the damage that opening the store has found."""
        self._has_started = True
        if flaw := self._core.store.recovery.ends_flaw:
            logger.warning(
                "broker %s: in %s, %s, and was made again: if messages were lost at the start or the end of the log "
                "as well, that cannot be detected",
                *(self._core.name, self._data_dir, flaw),
            )
        self.report()

    def of_topic(self, config: TopicConfig) -> dict[int, int]:
        """Queue id -> messages that are damaged or missing, for the queues of a topic that have some."""
        entry = self._topics.existing(config.topic)
        store = self._core.store
        counts = {queue_id: store.damage.total((entry.topic_id, queue_id)) for queue_id in range(queue_count(config))}
        return {queue_id: n for queue_id, n in counts.items() if n}
