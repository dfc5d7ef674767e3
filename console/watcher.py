"""Follows the trace of a cluster, polls its brokers for subjects with open pages, and publishes changes.

The trace has exact events, but a second or two late, because nodes send their events once a second. The watcher polls
the brokers for the present owners, so the page is right within half a second, and its timeline shortly after.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio.abc import TaskGroup

from client.admin.admin import Admin
from client.admin.records import GroupInfo
from client.config import wall_clock_ms
from console.channel import Channel
from console.matrix import Row, changed_rows, members_of, removed_queues, rows_of, with_progress
from console.overview import overview
from model.counted import plural
from model.errors import GroupNotExist, RlabError, ServiceNotAvailable
from model.limits import MAX_CONSOLE_GROUPS
from pictures.group_picture import GroupPicture
from pictures.trace_pictures import TracePictures
from traces.check.words import clock_text
from traces.figures.clocks.live import LiveClocks

logger = logging.getLogger(__name__)

TRACE_INTERVAL_S = 0.5
PROGRESS_INTERVAL_S = 0.4
GROUP_INTERVAL_S = 2.0
COUNTS_INTERVAL_S = 2.0
OVERVIEW_INTERVAL_S = 2.0
SHARE, WHOLE_SHARE = 30, 60
"""Multiple of the processor time of a poll after which it is repeated at the earliest; larger for a poll of the whole
group, which returns targets, while the other polls return owners. It is not a multiple of the duration, because the
page would then be late on a busy machine.
"""
IDLE_S = 120.0
"""How long a subject is followed after its last page was closed: a page that returns within this time resumes."""
HISTORY_MS = 3_600_000.0
"""Age of the oldest events that are read at the start."""


@dataclass(slots=True)
class Subject:
    """A subject that pages follow: a group, or the whole cluster."""

    channel: Channel
    document: dict[str, Any] = field(default_factory=dict)  # of the poll
    info: GroupInfo | None = None
    rows: dict[str, Row] = field(default_factory=dict)
    pages: int = 0
    left_at: float = 0.0  # loop time
    changed: anyio.Event = field(default_factory=anyio.Event)
    loaded: anyio.Event = field(default_factory=anyio.Event)  # after the first poll

    def publish(self, update: dict[str, Any]) -> None:
        """Publish an update to all pages."""
        self.channel.publish(to_json(update))
        self.changed.set()
        self.changed = anyio.Event()


def to_json(document: Any) -> bytes:
    """Encode a document as JSON on one line."""
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")


class Watcher:
    """Watches one cluster for all pages; made by `watching`."""

    def __init__(self, admin: Admin, tasks: TaskGroup, epoch: str, clock_ms: Callable[[], float]) -> None:
        self.admin = admin
        self.clock_ms = clock_ms
        self.pictures = TracePictures(clock_ms() - HISTORY_MS)
        self.problem = ""  # the reason why the trace cannot be read, or the wrong clocks
        self._tasks = tasks
        self._epoch = epoch
        self._made = 0
        self._groups: dict[str, Subject] = {}
        self._cluster = self._subject()
        self._tasks.start_soon(self._follow_trace)

    def _subject(self) -> Subject:
        self._made += 1  # a new channel of a group must not reuse the ids of a removed one
        return Subject(Channel(f"{self._epoch}{self._made:x}"))

    # --- pages -------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def watch(self, group: str | None) -> AsyncIterator[Subject]:
        """Follow a group, or for None the cluster, while the block runs; it begins after the first poll.

        Raises:
            ServiceNotAvailable: too many groups are watched.

        Cancellation: harmless.
        """
        subject = self._subject_of(group)
        subject.pages += 1
        try:
            await subject.loaded.wait()
            yield subject
        finally:
            subject.pages -= 1
            subject.left_at = asyncio.get_running_loop().time()

    def _subject_of(self, group: str | None) -> Subject:
        if group is None:
            if not self._cluster.document and not self._cluster.pages:
                self._tasks.start_soon(self._poll_cluster)
                self._cluster.document = {"brokers": []}
            return self._cluster
        subject = self._groups.get(group)
        if subject is None:
            self._make_room()
            subject = self._groups[group] = self._subject()
            picture = self.pictures.groups.get(group)
            if picture is not None:
                picture.changes()  # dropped, because the page begins with the whole document
            self._tasks.start_soon(self._poll_group, group, subject)
        return subject

    def _make_room(self) -> None:
        if len(self._groups) < MAX_CONSOLE_GROUPS:
            return
        idle = [name for name, subject in self._groups.items() if not subject.pages]
        if not idle:
            raise ServiceNotAvailable(
                f"{plural(len(self._groups), 'group', 'is', 'are')} watched already: close some pages"
            )
        del self._groups[min(idle, key=lambda name: self._groups[name].left_at)]

    def group_document(self, group: str, subject: Subject) -> dict[str, Any]:
        """Return the whole document of a group, its picture and its rows; its updates continue after `id`."""
        picture = self.pictures.groups.get(group)
        if picture is None:
            picture = GroupPicture(group, self.pictures.base_ms)
        else:
            self._publish_changes(picture, subject)
        return {
            **picture.document(),
            **subject.document,
            "rows": list(subject.rows.values()),
            "settled": round(self.pictures.settled_ms - self.pictures.base_ms, 1),
            "clock_ms": self.clock_ms(),
            "id": subject.channel.last_id,
        }

    def cluster_document(self, subject: Subject) -> dict[str, Any]:
        """Return the whole document of the cluster."""
        return {**subject.document, "clock_ms": self.clock_ms(), "id": subject.channel.last_id}

    # --- the trace ---------------------------------------------------------------------------------------------------

    async def _follow_trace(self) -> None:
        loop, clocks, trace = asyncio.get_running_loop(), LiveClocks(), self.admin.trace(self.pictures.base_ms)
        while True:
            try:
                self.pictures.add(clocks.correct(await trace.read(), loop.time()))
                self.problem = " ".join(map(clock_text, clocks.faults))
            except RlabError as error:
                self.problem = f"the trace cannot be read: {error}"
                logger.info("%s", self.problem)
            self.pictures.advance(self.clock_ms())
            for group, subject in self._groups.items():
                picture = self.pictures.groups.get(group)
                if picture is not None:
                    self._publish_changes(picture, subject)
            await anyio.sleep(TRACE_INTERVAL_S)

    def _publish_changes(self, picture: GroupPicture, subject: Subject) -> None:
        news = picture.changes()
        if len(news) > 1:
            subject.publish({**news, "settled": round(self.pictures.settled_ms - self.pictures.base_ms, 1)})

    # --- polls -------------------------------------------------------------------------------------------------------

    async def _poll_group(self, group: str, subject: Subject) -> None:
        """Poll the owners often and the whole group rarely, until the last page is closed."""
        loop = asyncio.get_running_loop()
        group_due = earliest = counts_due = 0.0
        while self._groups.get(group) is subject and (subject.pages or loop.time() < subject.left_at + IDLE_S):
            began, worked = loop.time(), time.process_time()
            is_whole = began >= group_due
            try:
                if is_whole or subject.info is None:
                    subject.info = await self.admin.group(group)
                    earliest = loop.time() + WHOLE_SHARE * (time.process_time() - worked)
                    group_due = max(earliest, loop.time() + GROUP_INTERVAL_S)
                else:
                    progress = await self.admin.progress(group)
                    subject.info = with_progress(subject.info, progress)
                    if {each.queue for each in progress} != {each.queue for each in subject.info.queues}:
                        group_due = earliest  # its queues have changed
                problem = ""
            except GroupNotExist:
                subject.info = None
                problem = f"no broker knows group {group!r}: no consumer has used it yet. "
                problem += f"Start one: rlab consume TOPIC --group {group}"
            except RlabError as error:
                problem = str(error)
            with_counts = began >= counts_due
            if with_counts:
                counts_due = began + COUNTS_INTERVAL_S
            moved = self._publish_rows(subject, problem, counts=with_counts)
            if moved:
                group_due = max(
                    earliest, min(group_due, loop.time() + PROGRESS_INTERVAL_S)
                )  # targets may have changed too
            subject.loaded.set()
            elapsed = 0.0 if is_whole else time.process_time() - worked
            await anyio.sleep(max(PROGRESS_INTERVAL_S, SHARE * elapsed))
        if self._groups.get(group) is subject:
            del self._groups[group]

    def _publish_rows(self, subject: Subject, problem: str, *, counts: bool) -> bool:
        """Publish the changes; returns whether the owner of a queue has changed."""
        info = subject.info
        rows = {} if info is None else rows_of(info)
        update: dict[str, Any] = {}
        sent = changed_rows(subject.rows, rows, counts=counts)
        if sent:
            update["rows"] = sent
        if removed := removed_queues(subject.rows, rows):
            update["gone"] = removed
        moved = any(row[0] not in subject.rows or subject.rows[row[0]][1] != row[1] for row in sent)
        # A row whose counts were not sent keeps the counts that pages have, so that they are sent later.
        names = {row[0] for row in sent}
        subject.rows = {name: row if name in names else subject.rows[name] for name, row in rows.items()}
        document = {
            "problem": problem or self.problem,
            "state": None if info is None else _state(info),
            "member_list": [] if info is None else members_of(info),
        }
        update.update({name: value for name, value in document.items() if subject.document.get(name) != value})
        subject.document = document
        if update:
            subject.publish({**update, "polled": round(self.clock_ms() - self.pictures.base_ms, 1)})
        return moved

    async def _poll_cluster(self) -> None:
        subject = self._cluster
        while True:
            if subject.pages or not subject.loaded.is_set():
                document = await overview(self.admin, self.problem)
                if document != subject.document:
                    subject.document = document
                    subject.publish(document)
                subject.loaded.set()
            await anyio.sleep(OVERVIEW_INTERVAL_S)


def _state(info: GroupInfo) -> dict[str, Any]:
    return {
        "version": info.version,
        "members": len(info.members),
        "balanced": info.balanced,
        "broadcasting": info.broadcasting,
        "coordinator": info.assignment.coordinator,
        "disagreements": [f"{each.what}: {each.consequence}" for each in info.disagreements],
        "unreachable": list(info.unreachable),
        "away": [broker.why for broker in info.away.values()],
        "silent": [f"{each.client_id} does not answer" for each in info.members if each.away_at],
    }


@asynccontextmanager
async def watching(
    name_servers: str, epoch: str, tasks: TaskGroup, clock_ms: Callable[[], float] = wall_clock_ms
) -> AsyncIterator[Watcher]:
    """Watch a cluster while the block runs, with tasks in the caller's group, which the caller ends.

    Raises:
        ConnectFailed: no name server answers.

    Cancellation: harmless.
    """
    async with Admin(name_servers) as admin:
        yield Watcher(admin, tasks, epoch, clock_ms)
