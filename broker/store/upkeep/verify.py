"""Reads every record of a data directory without a broker, and reports what is damaged or missing.

The files are opened by the code of a broker, on a file layer that changes nothing, so it finds what a broker would.
"""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from broker.store.damage import DamagedRange
from broker.store.disk.directory import MARKER_NAME, METADATA_NAME
from broker.store.disk.options import StoreOptions
from broker.store.disk.read_only import ReadOnlyFiles
from broker.store.message_store import MessageStore
from model.errors import ConfigError

_READ_MESSAGES, _READ_BYTES = 4_096, 4 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingRange:
    """Messages of one queue that cannot be served."""

    file: str  # that has them, or should have
    topic: str  # its number, if no topic of this number is known
    queue_id: int
    first_offset: int
    last_offset: int
    messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The findings: the document of `rlab broker verify --json`."""

    ok: bool
    segments: int
    messages: int  # that are whole
    damaged: int  # messages that are damaged or missing
    missing: tuple[MissingRange, ...]
    flaws: tuple[str, ...]  # of other files, which keep something from being known


def verify_directory(data: Path, progress: Callable[[int], None]) -> Verification:
    """Read all of a data directory; `progress` is called with the number of messages read so far.

    Raises:
        ConfigError: it is not the data directory of a broker, or its broker runs.
        RlabError: a file of it cannot be read.
    """
    if not (data / MARKER_NAME).is_file():
        raise ConfigError(f"{data} is not the data directory of a broker: it has no file {MARKER_NAME}")
    with (
        tempfile.TemporaryDirectory(prefix="rlab-verify-") as scratch,
        MessageStore.open(
            data, StoreOptions(tail_bytes=0), lambda: int(time.time() * 1000), ReadOnlyFiles(Path(scratch))
        ) as store,
    ):
        topics, flaws = _metadata(data, store)
        flaws += [flaw] if (flaw := store.recovery.ends_flaw) else []
        messages = _read_all(store, topics, progress)
        # Messages of a topic that is not known were deleted with it, if topics are known at all.
        damages = [each for each in store.damage.report() if not topics or each.topic_id in topics]
        missing = tuple(_range(each, topics) for each in damages)
        return Verification(
            ok=not missing and not flaws,
            segments=store.recovery.segments,
            messages=messages,
            damaged=sum(each.messages for each in missing),
            missing=missing,
            flaws=tuple(flaws),
        )


def _metadata(data: Path, store: MessageStore) -> tuple[dict[int, str], list[str]]:
    """Topic id -> topic, and why it is not known. Committed offsets raise the ends of queues, as in a broker."""
    path = data / METADATA_NAME
    if not path.exists():
        return {}, [f"{METADATA_NAME} is missing, so topics have numbers here"]
    try:
        # In a copy: even a reader of a database writes files beside it.
        with tempfile.TemporaryDirectory(prefix="rlab-verify-") as scratch:
            for each in data.glob(f"{METADATA_NAME}*"):
                Path(scratch, each.name).write_bytes(each.read_bytes())
            db = sqlite3.connect(Path(scratch, METADATA_NAME))
            try:
                topics = {topic_id: str(topic) for topic, topic_id in db.execute("select topic, topic_id from topics")}
                offsets = db.execute("select topic, queue_id, max(queue_offset) from offsets group by topic, queue_id")
                ids = {topic: topic_id for topic_id, topic in topics.items()}
                for topic, queue_id, offset in offsets:
                    if topic in ids:
                        store.go_on_at(ids[topic], queue_id, offset)
            finally:
                db.close()
    except (sqlite3.Error, UnicodeDecodeError) as error:  # the second if SQLite quotes a damaged name
        return {}, [f"{METADATA_NAME} cannot be read ({error}), so topics have numbers here"]
    return topics, []


def _read_all(store: MessageStore, topics: dict[int, str], progress: Callable[[int], None]) -> int:
    messages = 0
    for topic_id, queue_id in store.queues():
        if topics and topic_id not in topics:
            continue
        offset, end_offset = store.min_offset(topic_id, queue_id), store.max_offset(topic_id, queue_id)
        while offset < end_offset:
            result = store.read(topic_id, queue_id, offset, max_n=_READ_MESSAGES, max_bytes=_READ_BYTES)
            messages += result.n
            offset = result.next_offset
            progress(messages)
    return messages


def _range(damage: DamagedRange, topics: dict[int, str]) -> MissingRange:
    return MissingRange(
        file=damage.segment,
        topic=topics.get(damage.topic_id, str(damage.topic_id)),
        queue_id=damage.queue_id,
        first_offset=damage.first_offset,
        last_offset=damage.end_offset - 1,
        messages=damage.n,
    )
