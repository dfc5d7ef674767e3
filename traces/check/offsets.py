"""Rules about offsets, from the events of each queue: commits, and the offsets that owners read. Pure.

committed   the group's committed offset at the broker; it goes back only by a reset or a seek
    reach       the highest offset that an owner reported as dispatched: no commit and no start of an owner is beyond it

c1 dispatches to 60, commits 55, drops; c2 starts at 55       correct
                                ... c2 starts at 70           poll-skip: no member was given 60 to 69
                                    ... c2 starts at 40           duplicate: 40 to 54 are committed, and redelivered
c1 has reported 60, and 80 is committed                       lost-write: no member was given 60 to 79

Of a broker with copies, a commit is an event once all replicas in sync have it, and the master may end before. The next
master begins with that commit, so the first owner that it lets in may start beyond all that the events show.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from model.events import Event, EventKind
from model.message_queue import MessageQueue
from traces.check.evidence import Evidence
from traces.check.verdict import Rule

SEEK = "seek"
"""Detail of a commit, and last word of the detail of a dispatch, if the member has chosen the offset by seek."""


@dataclass(slots=True)
class _Offsets:
    """One queue in one group; -1 means unknown."""

    committed: int = -1
    commit: Event | None = None
    reach: int = -1
    reached: Event | None = None
    owners: dict[str, Event] = field(default_factory=dict)  # client -> its acquisition, or its last dispatch
    beyond: Event | None = None  # a commit beyond the reported dispatches
    has_new_master: bool = False  # since the last acquisition


class OffsetRules:
    """The rules for one group; `filtered` has the topics whose messages its members filter."""

    def __init__(self, evidence: Evidence) -> None:
        self.filtered: dict[str, None] = {}
        self._evidence = evidence
        self._queues: dict[tuple[object, ...], _Offsets] = {}  # by topic, broker and queue id

    def committed(self, queue: MessageQueue) -> int:
        """Return the committed offset of a queue, -1 if it is unknown."""
        offsets = self._queues.get(queue)
        return -1 if offsets is None else offsets.committed

    def last_commit(self, queue: MessageQueue) -> Event | None:
        """Return the last commit of a queue."""
        offsets = self._queues.get(queue)
        return None if offsets is None else offsets.commit

    def master_changed(self, broker: str) -> None:
        """A broker with copies has a new master, which may know of commits whose events its last one has not sent."""
        for (_, name, _), offsets in self._queues.items():
            if name == broker:
                offsets.has_new_master = True

    def process(self, event: Event) -> None:
        """Process an event about an offset of a queue."""
        self.step_of(event.kind)(event)

    def step_of(self, kind: str) -> Callable[[Event], None]:
        """Return the function that processes events of a kind."""
        queues, step = self._queues, _STEPS[kind].__get__(self)

        def take(event: Event) -> None:
            queue_key = event[6:9]
            offsets = queues.get(queue_key)
            if offsets is None:
                if event.queue_id < 0:
                    return
                offsets = queues[queue_key] = _Offsets()
            step(offsets, event)

        return take

    # --- where owners read -------------------------------------------------------------------------------------------

    def _acquired(self, offsets: _Offsets, event: Event) -> None:
        self._evidence.checked[Rule.POLL_SKIP] += 1
        self._evidence.checked[Rule.DUPLICATE] += 1
        start, reached = event.offset, max(offsets.reach, offsets.committed)
        has_new_master, offsets.has_new_master = offsets.has_new_master, False
        if 0 <= reached < start and not has_new_master:
            text = (
                f"{event.client} began {_named(event)} at offset {start:,}, and no member had been given "
                f"{_span(reached, start)}."
            )
            self._evidence.add(Rule.POLL_SKIP, event, text, [offsets.reached, offsets.commit, event])
        elif 0 <= start < offsets.committed:
            text = (
                f"{event.client} began {_named(event)} at offset {start:,}, although the group had committed "
                f"{offsets.committed:,}: redelivery of {_span(start, offsets.committed)}."
            )
            self._evidence.add(Rule.DUPLICATE, event, text, [offsets.commit, event])
        offsets.owners[event.client] = event
        offsets.reach = max(offsets.reach, start)

    def _dispatched(self, offsets: _Offsets, event: Event) -> None:
        self._evidence.checked[Rule.NONMONOTONIC_POLL] += 1
        last_dispatch = offsets.owners.get(event.client)
        if last_dispatch is not None:
            is_back = event.offset < offsets.committed and event.version == last_dispatch.version
            if is_back and not event.detail.endswith(SEEK):
                text = (
                    f"{event.client} owned {_named(event)} without a break and went back to offset {event.offset:,}, "
                    f"although the group had committed {offsets.committed:,}."
                )
                self._evidence.add(Rule.NONMONOTONIC_POLL, event, text, [last_dispatch, offsets.commit, event])
            offsets.owners[event.client] = event
        if event.offset > offsets.reach:
            offsets.reach, offsets.reached = event.offset, event
        if offsets.beyond is not None and offsets.reach >= offsets.beyond.offset:
            offsets.beyond = None

    def _dropped(self, offsets: _Offsets, event: Event) -> None:
        last_dispatch = offsets.owners.pop(event.client, None)
        if last_dispatch is not None and offsets.beyond is not None:
            self._lost(offsets, offsets.beyond, event)

    # --- commits -----------------------------------------------------------------------------------------------------

    def _committed(self, offsets: _Offsets, event: Event) -> None:
        self._evidence.checked[Rule.NONMONOTONIC_COMMIT] += 1
        if event.detail == SEEK:
            offsets.reach, offsets.beyond = event.offset, None
            self._evidence.was_reset(event)
        elif event.offset < offsets.committed:
            text = (
                f"The committed offset of {_named(event)} went back from {offsets.committed:,} to "
                f"{event.offset:,}, without a reset: the messages in between will be redelivered."
            )
            self._evidence.add(Rule.NONMONOTONIC_COMMIT, event, text, [offsets.commit, event])
        elif event.client in offsets.owners and event.topic not in self.filtered:
            self._evidence.checked[Rule.LOST_WRITE] += 1
            if event.offset > offsets.reach:
                offsets.beyond = event
        offsets.committed, offsets.commit = event.offset, event

    def _lost(self, offsets: _Offsets, commit: Event, event: Event) -> None:
        offsets.beyond = None
        text = (
            f"{commit.client} committed {_named(commit)} up to offset {commit.offset:,}, and no member was given "
            f"{_span(offsets.reach, commit.offset)}: the group has passed them and will not receive them."
        )
        self._evidence.add(Rule.LOST_WRITE, event, text, [offsets.reached, commit, event])

    # --- events that change the rules of a queue ---------------------------------------------------------------------

    def deleted(self, event: Event) -> None:
        """Remove the queues of a topic that its broker has deleted: if the topic is created again, it begins at 0."""
        for queue_key in [queue_key for queue_key in self._queues if queue_key[:2] == (event.topic, event.broker)]:
            del self._queues[queue_key]

    def _reset(self, offsets: _Offsets, event: Event) -> None:
        self._evidence.was_reset(event)
        offsets.committed = offsets.reach = event.offset
        offsets.commit = offsets.reached = event
        offsets.beyond = None

    def _skipped(self, offsets: _Offsets, event: Event) -> None:
        """Process a skip over deleted or damaged messages, or over an offset beyond the end."""
        if event.kind == EventKind.OFFSET_MOVED:
            if event.offset < offsets.committed:
                offsets.committed, offsets.commit = event.offset, event
                self._evidence.was_reset(event)
            offsets.reach, offsets.reached = event.offset, event
        else:
            offsets.reach = max(offsets.reach, event.offset + max(0, event.n))
        offsets.beyond = None

    def _expired(self, offsets: _Offsets, event: Event) -> None:
        """Process LOCK_EXPIRED, or QUEUE_RELEASED without a drop before it: the member was killed.

        The member can no longer report its dispatches before its last commit, so that commit cannot be judged.
        """
        if offsets.owners.pop(event.client, None) is not None:
            offsets.beyond = None

    def damaged(self, event: Event) -> None:
        """Process MESSAGES_DAMAGED, which concerns the queue in every group."""
        offsets = self._queues.get((event.topic, event.broker, event.queue_id))
        if offsets is not None:
            self._skipped(offsets, event)


_STEPS: dict[str, Callable[[OffsetRules, _Offsets, Event], None]] = {
    EventKind.QUEUE_ACQUIRED: OffsetRules._acquired,
    EventKind.MESSAGES_HANDED_OUT: OffsetRules._dispatched,
    EventKind.QUEUE_DROPPED: OffsetRules._dropped,
    EventKind.OFFSET_COMMITTED: OffsetRules._committed,
    EventKind.OFFSET_RESET: OffsetRules._reset,
    EventKind.OFFSET_MOVED: OffsetRules._skipped,
    EventKind.MESSAGES_UNDECODABLE: OffsetRules._skipped,
    EventKind.LOCK_EXPIRED: OffsetRules._expired,
    EventKind.QUEUE_RELEASED: OffsetRules._expired,
}
OFFSET_KINDS = frozenset(_STEPS)


def _named(event: Event) -> str:
    return str(MessageQueue(event.topic, event.broker, event.queue_id))


def _span(first: int, end: int) -> str:
    n = end - first
    return f"message {first:,}" if n == 1 else f"the {n:,} messages {first:,} to {end - 1:,}"
