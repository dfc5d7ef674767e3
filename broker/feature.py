"""The protocol of a broker's features, the list that calls their hooks, and the parts that every feature is made from.

A broker is a list of features: topics, groups, leases, messages, POP and so on. Each is an object that overrides the
hooks it needs, and is made from `Core` and the features below it. A feature never calls a feature above it: it
announces an event, and the list calls every feature that has a hook for the event, in the order in which they were
added.

    features = Features()
    leases = features.add(Leases(core, topics, groups))
    features.add(Pulls(core, topics, leases.moves, access))
    features.queue_changed("orders", 0)      # calls Pulls.queue_changed, and not Leases: it has no such hook

Hooks are collected when a feature is added, so a send pays for the hooks that exist and not for a walk over all
features.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

from broker.durability.barrier import WriteBarrier
from broker.durability.metadata import MetadataStore
from broker.durability.replicator import Replicator
from broker.store.message_store import MessageStore
from broker.store.segments.index import LogKey
from model.errors import NoPermission
from model.event_log import EventLog
from model.events import EventKind
from model.log_lines import LogLines
from model.quirks import Quirk
from remoting.command import Command
from remoting.connection import Connection
from remoting.deadline_driver import DeadlineDriver
from remoting.overload.shares import ShareBook
from remoting.request_code import RequestCode
from remoting.server import Handler
from remoting.wire.field import Right


class CurrentRights(Protocol):
    """The current rights of users, on a server with access control: its gate."""

    def allows(self, owner: str, right: Right, name: str) -> bool:
        """Whether the owner of a connection has a right."""

    def refusal(self, connection: Connection, request: Command) -> NoPermission | None:
        """The refusal of a request that was allowed before and is no longer; None if it is still allowed."""


class NeededMessage(NamedTuple):
    """A message that the broker itself still needs; it explains to operators why the log is not deleted."""

    topic: str  # the topic to which the message will be delivered
    what: str  # the subject of the sentence for operators
    remedy: str  # the step after which the message is no longer needed


logger = logging.getLogger(__name__)


class Destination(NamedTuple):
    """The destination of a message that a feature has stored in an internal topic; fields are empty if not known."""

    what: str  # names messages of this kind
    topic: str
    group: str = ""


class Feature:
    """One feature of a broker; a subclass overrides the hooks it needs. Only hooks that have "Raises" may raise."""

    def handlers(self) -> Mapping[RequestCode, Handler]:
        """Return the handlers of the requests that this feature serves."""
        return {}

    def next_deadline(self) -> float | None:
        """When to call `expire` next, loop time in seconds; None while nothing is pending."""
        return None

    def expire(self, now: float) -> None:
        """Act on the deadlines that have passed."""

    def connection_closed(self, connection: Connection) -> None:
        """A client's connection was closed, by either side or by an error."""

    def queue_changed(self, topic: str, queue_id: int) -> None:
        """A queue has new messages, was leased, reset or removed: check the requests that are parked on it."""

    def user_of_id(self, name: str) -> str | None:
        """The user that owns the id of a member or of a query; None if this feature has no such id."""
        return None

    def rights_changed(self, rights: CurrentRights) -> None:
        """Users may have lost rights: end the members, requests and queries that need them."""

    def access_refused(self, peer: str, user: str, text: str) -> None:
        """A request was refused because its user lacks a right or an id; called at a limited rate."""

    def member_left(self, group: str, client_id: str, cause: str, reason: str) -> None:
        """A member left its group; the reason is the value of a `LeaveReason`."""

    def process_replaced(self, group: str, client_id: str, cause: str) -> None:
        """A new process has replaced a member and has its assignment, but not the leases of the old process."""

    def producer_joined(self, group: str) -> None:
        """A producer that answers checks has joined its group."""

    def client_unregistered(self, connection: Connection, group: str, client_id: str) -> None:
        """A client unregistered from a group, whether it was a member or not."""

    def has_group_data(self, group: str) -> bool:
        """Whether something is stored for a group, so that it can be deleted."""
        return False

    def group_deleted(self, group: str, cause: str) -> None:
        """A group without members is deleted: forget everything of it."""

    def group_settings_changed(self, group: str) -> None:
        """The settings of a group were changed; see `broker/groups/settings.py`."""

    def topic_deleted(self, topic: str, cause: str) -> None:
        """A topic is deleted; its messages are still there during this call, its entry is not."""

    def is_popped(self, group: str, topic: str) -> bool:
        """Whether an operator has set this group to pop this topic."""
        return False

    def withholds_lease(self, group: str, queue: tuple[str, int], client_id: str) -> bool:
        """Whether a member may not be granted a queue (topic, queue id) yet; it is notified when it may."""
        return False

    def lease_granted(self, group: str, queue: tuple[str, int], client_id: str) -> None:
        """A member was granted a queue."""

    def lease_refused(self, group: str, queue: tuple[str, int]) -> None:
        """A member was refused a queue that another member has."""

    def lease_freed(self, group: str, queue: tuple[str, int], waiters: Sequence[str]) -> None:
        """A queue is free; `waiters` are the members that were refused it, which have been notified."""

    def commit_refusal(self, group: str, queue: tuple[str, int], client_id: str, offset: int) -> str | None:
        """Why a member may not commit an offset of a queue, though no lease forbids it; None if it may."""
        return None

    def commit_accepted(self, group: str, queue: tuple[str, int]) -> None:
        """A commit of a member was accepted; the offset is stored next."""

    def offsets_reset(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """An operator has reset the group's offsets of a topic: queue id -> offset."""

    def needed_from(self) -> Mapping[LogKey, int]:
        """First offset that the broker still needs in each queue of its own; retention keeps it and all later ones."""
        return {}

    def needed_message(self, key: LogKey) -> NeededMessage | None:
        """The message at the offset that `needed_from` has for a queue; None if the queue is not this feature's."""
        return None

    def destination_of(self, key: LogKey, offset: int) -> Destination | None:
        """The destination of a damaged message; None if the queue is not this feature's, or no delivery is pending."""
        return None

    def copy_forward(self, key: LogKey, end_position: int) -> bool:
        """Copy kept messages of a queue to the end of the log, so that segments before a log position can be deleted.

        Returns:
            Whether messages were copied; there may be more. False if a copy costs more than it frees, or for a queue of
            another feature.
        """
        return False

    def stats(self) -> Mapping[str, int]:
        """Counters for GET_BROKER_RUNTIME_INFO."""
        return {}

    def close(self) -> None:
        """The broker stops, or hands over: store all unstored changes, perhaps not for the last time."""


class ReplicatingFeature(Feature, Replicator):
    """The feature that keeps the replicas of a broker equal to it: it serves their requests, too."""


FeatureT = TypeVar("FeatureT", bound=Feature)

_HOOKS = {name: hook for name, hook in vars(Feature).items() if callable(hook)}
_Hooks = list[Callable[..., Any]]


def _each(hooks: _Hooks, *arguments: object) -> None:
    for hook in hooks:
        hook(*arguments)


def _any(hooks: _Hooks, *arguments: object) -> bool:
    return any([hook(*arguments) for hook in hooks])  # a list: each is called, whatever the others answer


def _first(hooks: _Hooks, *arguments: object) -> Any:
    return next((answer for hook in hooks if (answer := hook(*arguments)) is not None), None)


def _earliest(hooks: _Hooks) -> float | None:
    return min((deadline for hook in hooks if (deadline := hook()) is not None), default=None)


def _merged(hooks: _Hooks) -> dict[Any, Any]:
    merged: dict[Any, Any] = {}
    for hook in hooks:
        answer = hook()
        assert not merged.keys() & answer.keys(), f"two features serve {merged.keys() & answer.keys()}"
        merged |= answer
    return merged


_JOINED: dict[str, Callable[..., Any]] = {
    "None": _each,
    "bool": _any,
    "float | None": _earliest,
    "Mapping": _merged,
    **dict.fromkeys(("str | None", "NeededMessage | None", "Destination | None"), _first),
}
"""How the answers of several features to one hook are joined, by the type of the answer."""


class Features(Feature):
    """The features of one broker, in the order in which their hooks are called: lower floors first.

    Each hook is called on the features that override it, and on no others: a send pays for the `queue_changed` that
    exist, and not for a walk over all features. The type of its answer decides how the answers of several features are
    joined, see `_JOINED`. The gate of a server calls these hooks too: when a policy changes, it ends the members,
    parked requests and queries that are no longer allowed.
    """

    def __init__(self) -> None:
        self._hooks: dict[str, list[Callable[..., Any]]] = {name: [] for name in _HOOKS}
        self._queue_changed = self._hooks["queue_changed"]
        for name, default in _HOOKS.items():
            combined = _JOINED[default.__annotations__["return"].partition("[")[0]]
            if name not in vars(Features):
                setattr(self, name, partial(combined, self._hooks[name]))

    def add(self, feature: FeatureT) -> FeatureT:
        """Add a feature behind the others; returns it."""
        for name, default in _HOOKS.items():
            if getattr(type(feature), name) is not default:
                self._hooks[name].append(getattr(feature, name))
        return feature

    def queue_changed(self, topic: str, queue_id: int) -> None:
        """See `Feature.queue_changed`; on the path of every message that is stored, so it packs no arguments."""
        for hook in self._queue_changed:
            hook(topic, queue_id)


def shares_of_broker(name: str, loop: asyncio.AbstractEventLoop) -> ShareBook:
    """The shares of a broker's tables, which log what they refuse."""
    lines = LogLines()
    return ShareBook(lambda text: lines.warning(logger, loop.time(), "broker %s refuses: %s", name, text))


@dataclass(frozen=True, slots=True)
class Core:
    """The parts that every feature of one broker is made from."""

    loop: asyncio.AbstractEventLoop
    name: str  # the broker's name
    quirks: frozenset[Quirk]
    clock_ms: Callable[[], float]  # wall clock in milliseconds; deadlines are in the loop's time
    store: MessageStore
    metadata: MetadataStore
    barrier: WriteBarrier
    events: EventLog
    driver: DeadlineDriver  # calls `expire` of the features at their next deadline; `wake_by` announces an earlier one
    features: Features  # announces events to the features above
    has_access_control: bool = False
    shares: ShareBook = field(default_factory=ShareBook)  # the share of each table that one user may fill

    def emit(self, kind: EventKind, **columns: Any) -> str:
        """Record an event of this broker; see `EventLog.emit`."""
        return self.events.emit(kind, broker=self.name, **columns)

    def emit_queue(self, kind: EventKind, group: str, queue: tuple[str, int], **columns: Any) -> str:
        """Record an event about a queue (topic, queue id) that a group consumes; see `EventLog.emit`."""
        topic, queue_id = queue
        return self.events.emit(kind, broker=self.name, group=group, topic=topic, queue_id=queue_id, **columns)
