"""`rlab broker verify`: reads every record of a data directory without a broker, and says what is damaged or missing.

The files are opened by the code of a broker, on a file layer that changes nothing, so it says what a broker would.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import Config, Json
from model.errors import ConfigError
from process.output import print_json, print_line, print_note, print_table
from process.runtime import FAILED, exit_with_error

if TYPE_CHECKING:
    from broker.store.damage import Damage
    from broker.store.message_store import MessageStore

NOTE_MESSAGES = 2_000_000
"""Messages between two lines of progress: some seconds."""
MAX_ROWS = 200
"""Rows of the table for people; `--json` has all of them."""
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
    """What was found: the document of `rlab broker verify --json`."""

    ok: bool
    segments: int
    messages: int  # that are whole
    damaged: int  # messages that are damaged or missing
    missing: tuple[MissingRange, ...]
    flaws: tuple[str, ...]  # of other files, which keep something from being known


def verify(
    data: Annotated[Path, typer.Argument(show_default=False, help="Data directory of a broker that does not run.")],
    json: Json = False,
    config: Config = None,
) -> None:
    """Read every stored message, and say what is damaged or missing.

    Nothing in the directory is changed. Exit code 1 means that messages are damaged or missing, or that a loss could
    not be told.

    Example: rlab broker verify rlab-data/broker-a
    """
    with exit_with_error():
        found = verify_directory(data, _progress())
    if json:
        print_json(found)
    else:
        _print(found, data)
    if not found.ok:
        raise typer.Exit(FAILED)


def verify_directory(data: Path, progress: Callable[[int], None]) -> Verification:
    """Read all of a data directory; `progress` is called with the number of messages read so far.

    Raises:
        ConfigError: it is no data directory of a broker, or its broker runs.
        RlabError: a file of it cannot be read.
    """
    from broker.store.disk.directory import MARKER_NAME
    from broker.store.disk.options import StoreOptions
    from broker.store.disk.read_only import ReadOnlyFiles
    from broker.store.message_store import MessageStore

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
        lost = [each for each in store.damage.report() if not topics or each.topic_id in topics]
        missing = tuple(_range(each, topics) for each in lost)
        return Verification(
            ok=not missing and not flaws,
            segments=store.recovery.segments,
            messages=messages,
            damaged=sum(each.messages for each in missing),
            missing=missing,
            flaws=tuple(flaws),
        )


def _metadata(data: Path, store: MessageStore) -> tuple[dict[int, str], list[str]]:
    """Topic id -> topic; and why that is not known. A queue goes on where a group has committed, as in a broker."""
    import sqlite3

    from broker.durability.metadata import FILE_NAME

    path = data / FILE_NAME
    if not path.exists():
        return {}, [f"{FILE_NAME} is missing, so topics have numbers here"]
    try:
        # In a copy: even a reader of a database writes files beside it.
        with tempfile.TemporaryDirectory(prefix="rlab-verify-") as scratch:
            for each in data.glob(f"{FILE_NAME}*"):
                Path(scratch, each.name).write_bytes(each.read_bytes())
            db = sqlite3.connect(Path(scratch, FILE_NAME))
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
        return {}, [f"{FILE_NAME} cannot be read ({error}), so topics have numbers here"]
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


def _range(damage: Damage, topics: dict[int, str]) -> MissingRange:
    return MissingRange(
        file=damage.segment,
        topic=topics.get(damage.topic_id, str(damage.topic_id)),
        queue_id=damage.queue_id,
        first_offset=damage.first_offset,
        last_offset=damage.end_offset - 1,
        messages=damage.n,
    )


def _progress() -> Callable[[int], None]:
    noted = 0

    def note(messages: int) -> None:
        nonlocal noted
        if messages - noted >= NOTE_MESSAGES:
            noted = messages
            print_note(f"{messages:,} messages are whole so far")

    return note


def _print(found: Verification, data: Path) -> None:
    for flaw in found.flaws:
        print_line(f"{data}: {flaw}")
    if found.missing:
        print_table(
            ["file", "topic", ">queue", ">from offset", ">to offset", ">messages"],
            [
                (each.file, each.topic, each.queue_id, each.first_offset, each.last_offset, each.messages)
                for each in found.missing[:MAX_ROWS]
            ],
        )
    if len(found.missing) > MAX_ROWS:
        print_line(f"and {len(found.missing) - MAX_ROWS} ranges more: --json lists all")
    lost = f"{found.damaged:,} messages are damaged or missing" if found.damaged else "none is damaged or missing"
    print_line(f"{found.messages:,} messages in {found.segments:,} segments are whole; {lost}")
    if found.missing:
        print_line("a file that you have elsewhere may be put back while the broker is stopped")
