"""The figures of one group: reads events in order, and returns finished rows. Pure.

    figures = GroupFigures("billing")
    for event in sorted(events, key=order_of):
        for row in figures.feed(event):      # finished ownerships and rebalances
            ...
    rows = figures.finish(end_ms)            # all others, with the events up to now
    figures.totals()                         # at any time, including open rows

Pass the events of this group, and events without a group (routes, brokers), which may be causes; do not pass events of
other groups. A late event counts at the newest time seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace

from model.events import Event, EventKind
from model.limits import MAX_KNOWN_CHANGES
from model.message_queue import MessageQueue
from model.names import is_retry_topic
from traces.figures.causes import SILENT_MS, Running
from traces.figures.changes import Changes
from traces.figures.loads import Loads
from traces.figures.members import GroupMembers
from traces.figures.queue import QueueOwners, Tenure
from traces.figures.records import GroupTotals, Ownership, Rebalance
from traces.figures.uses import USES, Step

Row = Ownership | Rebalance


@dataclass(slots=True)
class _Topic:
    """The queues of one topic that the group has owned."""

    queues: dict[tuple[str, int], QueueOwners] = field(default_factory=dict)
    loads: Loads = field(default_factory=Loads)
    wanted: bool = False
    since_ms: float = 0.0  # the time of the first owner of one of them
    readable: dict[str, int] = field(default_factory=dict)  # broker -> the number of readable queues that it reported


@dataclass(slots=True)
class _Sums:
    """Figures of finished rows."""

    rebalances: int = 0
    needed: int = 0
    moves: int = 0
    acquisitions: int = 0
    handed_out: int = 0
    redelivered: int = 0
    duplicates: int = 0
    possible_duplicates: int = 0
    pause_ms: float = 0.0
    pause_max_ms: float = 0.0
    orphan_ms: float = 0.0
    double_ms: float = 0.0
    backlog_max: int = 0

    def add(self, tenure: Tenure | Ownership) -> None:
        self.redelivered += tenure.redelivered
        self.duplicates += tenure.duplicates
        self.possible_duplicates += tenure.possible_duplicates
        self.pause_ms += tenure.pause_ms
        self.pause_max_ms = max(self.pause_max_ms, tenure.pause_ms)
        self.orphan_ms += tenure.orphan_ms
        self.double_ms += tenure.double_ms
        self.backlog_max = max(self.backlog_max, tenure.backlog or 0)


class GroupFigures:
    """One group; see the module header. The groups of one trace may share their known `changes`."""

    def __init__(self, group: str, changes: Changes | None = None) -> None:
        self.group = group
        self.now_ms = 0.0  # the newest time seen
        self.members = GroupMembers()
        self._topics: dict[str, _Topic] = {}
        self._changes = Changes() if changes is None else changes
        # By the first cause of their change, in the order of their last events; `_held` has the rebalances that are
        # silent but still have an open ownership or a queue without an owner.
        self._running: dict[str, Running] = {}
        self._held: dict[str, Running] = {}
        self._ended: dict[str, None] = {}  # causes of returned rows; later events with them begin another row
        self._sums = _Sums()

    # --- events ------------------------------------------------------------------------------------------------------

    def feed(self, event: Event) -> list[Row]:
        """Process an event, and return the finished rows; see the module header."""
        t_ms, group = event.t_ms, event.group
        use = USES.get(event.kind)
        if t_ms >= self.now_ms:
            self.now_ms = t_ms
        elif use is not None:
            event = event._replace(t_ms=self.now_ms)
        if use is None or (group and group != self.group):
            return []
        if use.progress is not None:
            self._progress(event, use.progress)
            return []
        rows: list[Row] = []
        running = None
        if not group:
            self._changes.of(event)  # it may be a cause
        else:
            if use.is_of_cause:
                running = self._running_of(event)
            # Most acquisitions are by known members.
            if use.is_of_members and (use.step is None or event.client not in self.members):
                self._process_member(event)
        if use.is_route and event.broker and event.broker == event.node:
            rows += self._process_route(event)
        if use.step is not None and event.queue_id >= 0 and not is_retry_topic(event.topic):
            self._process_queue(event, use.step, running, rows)
        if running is not None:
            self._process_cause(event, running)
        self._process_silent(rows)
        return rows

    def finish(self, end_ms: float | None = None) -> list[Row]:
        """End at `end_ms`, by default now: return all rows that were not returned yet. `totals` can still be called."""
        self.advance(self.now_ms if end_ms is None else end_ms)
        rows: list[Row] = []
        for queue in self._queues():
            rows += self._over(queue, queue.close())
        for running in [*self._running.values(), *self._held.values()]:
            rows += self._end(running)
        self._running.clear()
        self._held.clear()
        return rows

    def advance(self, now_ms: float) -> None:
        """Advance the time without an event."""
        self.now_ms = max(self.now_ms, now_ms)
        for queue in self._queues():
            queue.advance(self.now_ms)

    def _process_member(self, event: Event) -> None:
        version, client = self.members.version, event.client
        self.members.process(event)
        if self.members.version == version:
            return
        for name, topic in self._topics.items():
            topic.loads.set_present(client, client in self.members)
            self._check_wanted(name, topic)

    def _check_wanted(self, name: str, topic: _Topic) -> None:
        is_wanted = self.members.wants(name)
        if is_wanted != topic.wanted:
            topic.wanted = is_wanted
            for queue in topic.queues.values():
                queue.set_wanted(is_wanted, self.now_ms)

    def _process_route(self, event: Event) -> Iterator[Row]:
        """Process a route: if a broker has fewer queues of a topic, remove those without an owner."""
        topic = self._topics.get(event.topic)
        if topic is None or event.n < 0:
            return
        topic.readable[event.broker] = event.n
        for queue in list(topic.queues.values()):
            if queue.broker == event.broker:
                yield from self._remove_if_gone(topic, queue)

    def _remove_if_gone(self, topic: _Topic, queue: QueueOwners) -> Iterator[Row]:
        """Remove a queue that its broker no longer has, once its owner has dropped it."""
        if not queue.owners and queue.queue_id >= topic.readable.get(queue.broker, queue.queue_id + 1):
            yield from self._remove(topic, queue)

    def _remove(self, topic: _Topic, queue: QueueOwners) -> Iterator[Row]:
        yield from self._over(queue, queue.close())
        self._sums.orphan_ms += queue.orphaned_ms(self.now_ms)
        if queue.last_owner is not None:
            topic.loads.change(queue.last_owner, -1)
        del topic.queues[queue.broker, queue.queue_id]
        self._wait_no_more(queue)

    # --- queues ------------------------------------------------------------------------------------------------------

    def _process_queue(self, event: Event, step: Step, running: Running | None, rows: list[Row]) -> None:
        topic = self._topics.get(event.topic)
        if topic is None:
            topic = self._topics[event.topic] = _Topic(since_ms=event.t_ms)
            topic.wanted = self.members.wants(event.topic)
        queue = topic.queues.get((event.broker, event.queue_id))
        if queue is None:
            if event.kind not in (EventKind.QUEUE_ACQUIRED, EventKind.LOCK_GRANTED, EventKind.OFFSET_RESET):
                return
            queue = QueueOwners(self.group, event.topic, event.broker, event.queue_id)
            topic.queues[event.broker, event.queue_id] = queue
        queue.advance(self.now_ms)
        owners = queue.owners.copy()
        over = step(queue, event)
        if over:
            rows += self._over(queue, over)
        if queue.owners != owners:
            self._owners_changed(topic, queue, owners, running or self._running_of(event))
            rows += self._remove_if_gone(topic, queue)

    def _progress(self, event: Event, take: Callable[[QueueOwners, Event], None]) -> None:
        """Process a progress report of an owner. Most events are such, and change no owner or rebalance."""
        if event.queue_id < 0:
            return
        topic = self._topics.get(event.topic)
        if topic is None and is_retry_topic(event.topic):
            return
        if event.kind == EventKind.MESSAGES_HANDED_OUT:
            self._sums.handed_out += event.n
        queue = None if topic is None else topic.queues.get((event.broker, event.queue_id))
        if queue is not None:
            take(queue, event)

    def _owners_changed(self, topic: _Topic, queue: QueueOwners, old_tenures: list[Tenure], running: Running) -> None:
        for tenure in queue.owners:
            if tenure not in old_tenures:
                self._began(topic, queue, tenure, running)
        if not old_tenures:
            self._wait_no_more(queue)
        elif not queue.owners:
            queue.ended_by = running.change.cause
            running.waiting += 1
            queue.set_wanted(topic.wanted, self.now_ms)

    def _began(self, topic: _Topic, queue: QueueOwners, tenure: Tenure, running: Running) -> None:
        tenure.cause = running.change.cause
        running.tenures[tenure] = None
        self._sums.acquisitions += tenure.began == "acquired"
        if tenure.moved:
            self._sums.moves += 1
            topic.loads.move(tenure.from_client, tenure.owner)
            for client in (tenure.from_client, tenure.owner):
                if client is not None:
                    topic.loads.set_present(client, client in self.members)
            if tenure.from_client is not None and tenure.from_client not in self.members:
                running.left[tenure.from_client] = None
            running.moved(tenure, queue.topic, topic.loads, len(self.members))

    def _wait_no_more(self, queue: QueueOwners) -> None:
        """Record that a queue has an owner again, or is gone: the rebalance that took it stops waiting."""
        ender = self._named(queue.ended_by)
        if ender is not None:
            ender.waiting -= 1
            self._resume(ender)
        queue.ended_by = ""

    def _over(self, queue: QueueOwners, tenures: Iterable[Tenure]) -> Iterator[Row]:
        for tenure in tenures:
            row = queue.row(tenure, self.now_ms)
            self._sums.add(row)
            running = self._named(tenure.cause)
            if running is not None:
                running.close(tenure, row)
                self._resume(running)
            yield row

    # --- rebalances --------------------------------------------------------------------------------------------------

    def _named(self, cause: str) -> Running | None:
        return self._running.get(cause) or self._held.get(cause)

    def _running_of(self, event: Event) -> Running:
        """Return the rebalance that an event of the group belongs to; the event may begin it."""
        change = self._changes.of(event)
        running = self._named(change.cause)
        if running is None:
            began_ms = event.t_ms if change.cause in self._ended else change.t_ms
            running = self._running[change.cause] = Running(change, began_ms, event.t_ms)
        return running

    def _process_cause(self, event: Event, running: Running) -> None:
        running.process(event)
        running.members = len(self.members)
        cause = running.change.cause
        if self._running.pop(cause, None) is not None:
            done = event.kind == EventKind.REBALANCE_END and event.n == 0 and running.begun <= running.passes
            if not (done and running.is_idle):  # most passes by timer change nothing and are dropped
                self._running[cause] = running

    def _process_silent(self, rows: list[Row]) -> None:
        while self._running:
            running = next(iter(self._running.values()))
            if self.now_ms - running.last_ms < SILENT_MS:
                return
            if running.tenures or running.waiting:
                self._held[running.change.cause] = self._running.pop(running.change.cause)
            else:
                del self._running[running.change.cause]
                rows += self._end(running)

    def _resume(self, running: Running) -> None:
        """Return a held rebalance to the running ones once it has no open ownership and no waiting queue."""
        cause = running.change.cause
        if cause in self._held and not running.tenures and not running.waiting:
            del self._held[cause]
            running.last_ms = self.now_ms
            self._running[cause] = running

    def _end(self, running: Running) -> Iterator[Row]:
        if not running.is_idle:
            self._ended[running.change.cause] = None
            if len(self._ended) > MAX_KNOWN_CHANGES:
                del self._ended[next(iter(self._ended))]
            if running.moves:
                self._sums.rebalances += 1
                self._sums.needed += running.needed
            yield running.record(self.group)

    # --- results -----------------------------------------------------------------------------------------------------

    def _queues(self) -> Iterator[QueueOwners]:
        for topic in self._topics.values():
            yield from topic.queues.values()

    def owners(self) -> dict[MessageQueue, tuple[str, ...]]:
        """Return the owners of each queue, in the order in which they acquired it; maybe an empty tuple."""
        return {
            MessageQueue(queue.topic, queue.broker, queue.queue_id): tuple(tenure.owner for tenure in queue.owners)
            for queue in self._queues()
        }

    def queue(self, queue: MessageQueue) -> QueueOwners | None:
        """Return the owners of one queue; None if no member has owned it."""
        topic = self._topics.get(queue.topic)
        return None if topic is None else topic.queues.get((queue.broker_name, queue.queue_id))

    def wanted_topics(self) -> dict[str, float]:
        """Return the topics that the group wants and has owned queues of, each with the time of its first owner."""
        return {name: topic.since_ms for name, topic in self._topics.items() if topic.wanted}

    def owners_of(self, queue: MessageQueue) -> tuple[str, ...]:
        """Return the owners of one queue, in the order in which they acquired it."""
        figures = self.queue(queue)
        return () if figures is None else tuple(tenure.owner for tenure in figures.owners)

    def rebalances(self) -> list[Rebalance]:
        """Return the rebalances that are not finished, with the events up to now, in the order of their beginning."""
        running = [*self._running.values(), *self._held.values()]
        records = [each.record(self.group) for each in running if not each.is_idle]
        return sorted(records, key=lambda rebalance: rebalance.began_ms)

    def totals(self) -> GroupTotals:
        """Return all figures up to now."""
        sums = replace(self._sums)
        orphans = 0
        for queue in self._queues():
            for tenure in queue.tenures:
                sums.add(tenure)
            sums.orphan_ms += queue.orphaned_ms(self.now_ms)
            orphans += queue.orphan_since is not None
        for running in (*self._running.values(), *self._held.values()):
            if running.moves:
                sums.rebalances += 1
                sums.needed += running.needed
        return GroupTotals(
            group=self.group,
            members_joined=self.members.joined,
            members_left=self.members.left,
            members=len(self.members),
            orphans=orphans,
            **asdict(sums),
        )
