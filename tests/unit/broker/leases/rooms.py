"""The lower rooms of a broker over real files, without a network: what they store and load.

with open_rooms(tmp_path) as rooms:
    rooms.topics.put(...)
    rooms.core.metadata.commit()
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from broker.durability.barrier import WriteBarrier
from broker.durability.metadata import MetadataStore
from broker.feature import Core, Features
from broker.groups.members import Groups
from broker.leases.service import Leases
from broker.store.disk.options import StoreOptions
from broker.store.message_store import MessageStore
from broker.topics.registration import Announcement
from broker.topics.service import Topics
from broker.topics.table import TopicEntry
from model.event_log import EventLog
from model.heartbeat import ConsumerData
from model.topic_route import TopicConfig
from remoting.deadline_driver import DeadlineDriver
from tests.unit.broker.harness import FailingDisk

ANNOUNCEMENT = Announcement("broker-a", "c", 0, (), None, 30.0, 120.0, 1)
GRACE_S = 10.0


@dataclass
class Rooms:
    """Topics, groups and leases of one run."""

    core: Core
    topics: Topics
    groups: Groups
    leases: Leases

    def put_topic(self, topic: str, queues: int = 4, messages: int = 0) -> TopicEntry:
        """Make a topic with messages in its first queue."""
        entry = self.topics.put(TopicConfig(topic=topic, read_queue_nums=queues, write_queue_nums=queues))
        for _ in range(messages):
            self.core.store.append(entry.topic_id, 0, b"m", 0)
        self.core.store.flush()
        return entry

    def put_member(self, client_id: str, data: ConsumerData, run_id: str = "", now_ms: int = 7) -> None:
        """Take and store a heartbeat of a member."""
        outcome = self.groups.table.heartbeat(
            client_id, data, connection=1, cause="", now=0.0, now_ms=now_ms, run_id=run_id
        )
        self.groups.save_member(client_id, data, run_id)
        self.groups.save_group(outcome.group)


@contextmanager
def open_rooms(
    directory: Path,
    *,
    now_ms: int = 0,
    tokens_ahead: int = 0,
    files: FailingDisk | None = None,
    errno: int | None = None,
) -> Iterator[Rooms]:
    """Open the files of a broker and make its lower rooms, which load what is stored there; writes may fail then."""
    with (
        closing(asyncio.new_event_loop()) as loop,
        MessageStore.open(directory, StoreOptions(), lambda: now_ms, files) as store,
        MetadataStore(directory) as metadata,
    ):
        if files is not None:
            files.errno = errno
        features = Features()
        core = Core(
            *(loop, "broker-a", frozenset(), lambda: now_ms, store, metadata),
            *(WriteBarrier(loop, store, metadata, features.queue_changed), EventLog("broker-a", lambda: now_ms)),
            *(DeadlineDriver(features.next_deadline, features.expire), features),
        )
        topics = features.add(Topics(core, ANNOUNCEMENT, auto_create=False))
        groups = features.add(Groups(core, GRACE_S))
        yield Rooms(core, topics, groups, features.add(Leases(core, topics, groups, tokens_ahead=tokens_ahead)))
