"""The protocol of a broker's features, the list that calls their hooks, and what every feature is made from.

A broker is a list of features: topics, groups, leases, messages, POP and so on. Each is an object that overrides the
hooks it needs, and is made from `Core` and the features below it. A feature never calls one above it: it announces what
happened, and the list calls every feature that has a hook for that, in the order in which they were added.

    features = Features()
    leases = features.add(Leases(core, topics, groups))
    features.add(Messages(core, topics, groups, leases))
    features.queue_changed("orders", 0)      # calls Messages.queue_changed, and not Leases: it has no such hook

Hooks are collected when a feature is added, so a send pays for those that exist and not for a walk over all features.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from broker.durability.barrier import WriteBarrier
from broker.durability.metadata import MetadataStore
from broker.store.message_store import MessageStore
from broker.store.segments.index import LogKey
from model.event_log import EventLog
from model.events import EventKind
from model.quirks import Quirk
from remoting.connection import Connection
from remoting.deadline_driver import DeadlineDriver
from remoting.request_code import RequestCode
from remoting.server import Handler


class Feature:
    """One feature of a broker; a subclass overrides the hooks that concern it. No hook may raise unless it says so."""

    def handlers(self) -> Mapping[RequestCode, Handler]:
        """Return the handlers of the requests that it serves."""
        return {}

    def next_deadline(self) -> float | None:
        """When to call `expire` next, loop time in seconds; None while nothing is pending."""
        return None

    def expire(self, now: float) -> None:
        """Act on the deadlines that have passed."""

    def connection_closed(self, connection: Connection) -> None:
        """A client's connection is gone, however it went."""

    def queue_changed(self, topic: str, queue_id: int) -> None:
        """A queue has new messages, was reset, or is gone with its topic: look at the requests parked on it."""

    def queue_granted(self, topic: str, queue_id: int) -> None:
        """A member of some group was granted the lease of a queue: parked requests of earlier owners are refused."""

    def member_left(self, group: str, client_id: str, cause: str, reason: str) -> None:
        """A member was taken out of its group; the reason is the value of a `LeaveReason`."""

    def client_unregistered(self, connection: Connection, group: str, client_id: str) -> None:
        """A client said that it leaves a group, whether it was a member or not."""

    def knows_group(self, group: str) -> bool:
        """Whether something is stored for a group, so that it can be deleted."""
        return False

    def group_deleted(self, group: str, cause: str) -> None:
        """A group without members is deleted: forget everything of it."""

    def topic_deleted(self, topic: str, cause: str) -> None:
        """A topic is deleted; its messages are still there during this call, its entry is not."""

    def is_popped(self, group: str, topic: str) -> bool:
        """Whether an operator has set this group to pop this topic."""
        return False

    def kept_from(self) -> Mapping[LogKey, int]:
        """First offset that the broker itself still needs, for each queue of its own; retention keeps what follows."""
        return {}

    def stats(self) -> Mapping[str, int]:
        """Counters for GET_BROKER_RUNTIME_INFO."""
        return {}

    def close(self) -> None:
        """The broker stops: store what is left; the last commit follows."""


FeatureT = TypeVar("FeatureT", bound=Feature)


class Features:
    """The features of one broker, in the order in which their hooks are called: lower floors first."""

    def __init__(self) -> None:
        self._handlers: list[Callable[[], Mapping[RequestCode, Handler]]] = []
        self._next_deadline: list[Callable[[], float | None]] = []
        self._expire: list[Callable[[float], None]] = []
        self._connection_closed: list[Callable[[Connection], None]] = []
        self._queue_changed: list[Callable[[str, int], None]] = []
        self._queue_granted: list[Callable[[str, int], None]] = []
        self._member_left: list[Callable[[str, str, str, str], None]] = []
        self._client_unregistered: list[Callable[[Connection, str, str], None]] = []
        self._knows_group: list[Callable[[str], bool]] = []
        self._group_deleted: list[Callable[[str, str], None]] = []
        self._topic_deleted: list[Callable[[str, str], None]] = []
        self._is_popped: list[Callable[[str, str], bool]] = []
        self._kept_from: list[Callable[[], Mapping[LogKey, int]]] = []
        self._stats: list[Callable[[], Mapping[str, int]]] = []
        self._close: list[Callable[[], None]] = []

    def add(self, feature: FeatureT) -> FeatureT:
        """Add a feature behind the others; returns it."""
        for name, default in vars(Feature).items():
            if callable(default) and getattr(type(feature), name) is not default:
                hooks: list[Callable[..., Any]] = getattr(self, f"_{name}")
                hooks.append(getattr(feature, name))
        return feature

    def handlers(self) -> dict[RequestCode, Handler]:
        """The handlers of all features; a request has one at most."""
        handlers: dict[RequestCode, Handler] = {}
        for hook in self._handlers:
            more = hook()
            assert not handlers.keys() & more.keys(), f"two features serve {handlers.keys() & more.keys()}"
            handlers.update(more)
        return handlers

    def next_deadline(self) -> float | None:
        """The earliest deadline of all features."""
        deadlines = [deadline for hook in self._next_deadline if (deadline := hook()) is not None]
        return min(deadlines, default=None)

    def expire(self, now: float) -> None:
        """Let every feature act on its deadlines."""
        for hook in self._expire:
            hook(now)

    def connection_closed(self, connection: Connection) -> None:
        """See `Feature`; as all that follow."""
        for hook in self._connection_closed:
            hook(connection)

    def queue_changed(self, topic: str, queue_id: int) -> None:
        """On the path of every message that is stored: no work of its own here."""
        for hook in self._queue_changed:
            hook(topic, queue_id)

    def queue_granted(self, topic: str, queue_id: int) -> None:
        """See `Feature`."""
        for hook in self._queue_granted:
            hook(topic, queue_id)

    def member_left(self, group: str, client_id: str, cause: str, reason: str) -> None:
        """See `Feature`."""
        for hook in self._member_left:
            hook(group, client_id, cause, reason)

    def client_unregistered(self, connection: Connection, group: str, client_id: str) -> None:
        """See `Feature`."""
        for hook in self._client_unregistered:
            hook(connection, group, client_id)

    def knows_group(self, group: str) -> bool:
        """Whether any feature has something stored for a group."""
        return any(hook(group) for hook in self._knows_group)

    def group_deleted(self, group: str, cause: str) -> None:
        """See `Feature`."""
        for hook in self._group_deleted:
            hook(group, cause)

    def topic_deleted(self, topic: str, cause: str) -> None:
        """See `Feature`."""
        for hook in self._topic_deleted:
            hook(topic, cause)

    def is_popped(self, group: str, topic: str) -> bool:
        """See `Feature`."""
        return any(hook(group, topic) for hook in self._is_popped)

    def kept_from(self) -> dict[LogKey, int]:
        """What the features together still need."""
        return {key: offset for hook in self._kept_from for key, offset in hook().items()}

    def stats(self) -> dict[str, int]:
        """The counters of all features."""
        return {name: n for hook in self._stats for name, n in hook().items()}

    def close(self) -> None:
        """See `Feature`."""
        for hook in self._close:
            hook()


@dataclass(frozen=True, slots=True)
class Core:
    """What every feature of one broker is made from.

    Attributes:
        name: the broker's name.
        clock_ms: wall clock in milliseconds; deadlines are in the loop's time.
        driver: calls `expire` of the features at their next deadline; `wake_by` announces an earlier one.
        features: announces what happened to the features above.
    """

    loop: asyncio.AbstractEventLoop
    name: str
    quirks: frozenset[Quirk]
    clock_ms: Callable[[], float]
    store: MessageStore
    metadata: MetadataStore
    barrier: WriteBarrier
    events: EventLog
    driver: DeadlineDriver
    features: Features

    def emit(self, kind: EventKind, **columns: Any) -> str:
        """Record an event of this broker; see `EventLog.emit`."""
        return self.events.emit(kind, broker=self.name, **columns)

    def emit_queue(self, kind: EventKind, group: str, queue: tuple[str, int], **columns: Any) -> str:
        """Record an event about a queue (topic, queue id) that a group consumes; see `EventLog.emit`."""
        topic, queue_id = queue
        return self.events.emit(kind, broker=self.name, group=group, topic=topic, queue_id=queue_id, **columns)
