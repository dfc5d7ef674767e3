"""The protocol of an allocation strategy, and the checks that RocketMQ's strategies have in common. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Protocol, TypeGuard, runtime_checkable

from model.assignment import BROKER_STRATEGY
from model.errors import ConfigError
from model.extras import install_command
from model.message_queue import MessageQueue


class AllocateMessageQueueStrategy(Protocol):
    """An allocation strategy. All members of a group have to use the same one."""

    @property
    def name(self) -> str:
        """Sent with every heartbeat, so that brokers can report members with different strategies."""
        ...

    def allocate(
        self, consumer_group: str, current_cid: str, mq_all: Sequence[MessageQueue], cid_all: Sequence[str]
    ) -> list[MessageQueue]:
        """Choose the queues of one member.

        Args:
            consumer_group: name of the group, for messages and for strategies that depend on it.
            current_cid: client id of the member that asks.
            mq_all: every queue of one topic, sorted.
            cid_all: client id of every member that subscribes to the topic, sorted.

        Returns:
            The queues of the member; empty if `current_cid` is not among `cid_all`.

        Raises:
            ValueError: an argument is empty.
        """
        ...


@runtime_checkable
class GroupWideStrategy(Protocol):
    """A strategy that sees all topics of a group together; `allocate_group` is called instead of `allocate`.

    Topic by topic, the remainder always goes to the same members: with AVG and ten topics of three queues, the
    first two of four members have ten queues more than the last. RocketMQ has no such strategy (#1945, #2443).
    """

    def allocate_group(
        self,
        consumer_group: str,
        current_cid: str,
        queues_of: Mapping[str, Sequence[MessageQueue]],
        topics_of: Mapping[str, Collection[str]],
    ) -> list[MessageQueue]:
        """Choose the queues of one member, from all of its topics.

        Args:
            consumer_group: name of the group.
            current_cid: client id of the member that asks.
            queues_of: topic -> its queues; topics without queues may be missing.
            topics_of: client id -> the topics that this member subscribes to.

        Returns:
            The queues of the member, only of topics that it subscribes to.
        """
        ...


def is_group_wide(strategy: object) -> TypeGuard[GroupWideStrategy]:
    """Whether a strategy wants to see all topics together."""
    # Every pass asks, and isinstance with a protocol takes 40 us in Python 3.11.
    return hasattr(strategy, "allocate_group")


class AssignedByBroker:
    """BROKER, the strategy that a member names in its heartbeats when a broker assigns its queues; computes nothing."""

    name = BROKER_STRATEGY

    def allocate(self, consumer_group: str, *args: Any, **kwargs: Any) -> list[MessageQueue]:
        """Never called: see the class."""
        raise AssertionError(f"the queues of group {consumer_group!r} are assigned by a broker")

    def allocate_group(self, *args: Any, **kwargs: Any) -> list[MessageQueue]:
        """Never called. It makes this a `GroupWideStrategy`, for which a member reports the routes of all topics."""
        return self.allocate(*args, **kwargs)


def position_of(
    consumer_group: str, current_cid: str, mq_all: Sequence[MessageQueue], cid_all: Sequence[str]
) -> int | None:
    """Check the arguments of every strategy: ValueError for an empty one; returns the position of the member.

    It is the first in `cid_all`, or None if it is not there: a member list may be older than this member, which then
    owns nothing for a moment. The search is linear on purpose: a bisection would be wrong for unsorted input.
    RocketMQ: AbstractAllocateMessageQueueStrategy.check.
    """
    for argument, value in (("current_cid", current_cid), ("mq_all", mq_all), ("cid_all", cid_all)):
        if not value:
            raise ValueError(f"{argument} is empty: group {consumer_group!r} cannot be allocated for {current_cid!r}")
    try:
        return cid_all.index(current_cid)
    except ValueError:
        return None


def check_strategy(subject: str, strategy: object) -> None:
    """Raise ValueError for an argument, called `subject`, that is not a strategy, or one whose package is missing."""
    if isinstance(strategy, type) and callable(getattr(strategy, "allocate", None)):
        raise ValueError(f"{subject} must be a strategy and is a class: make one, as {strategy.__name__}()")
    needs = getattr(strategy, "needs", None)
    if needs is not None and find_spec(needs) is None:
        raise ValueError(f"{subject} {type(strategy).__name__} cannot be used: {install_command(needs)}")
    if not isinstance(getattr(strategy, "name", None), str) or not callable(getattr(strategy, "allocate", None)):
        raise ValueError(f"{subject} must be an allocation strategy, with a name and allocate(), and is {strategy!r}")


def usable(subject: str, strategy: AllocateMessageQueueStrategy) -> AllocateMessageQueueStrategy:
    """Return a chosen strategy; ConfigError if `check_strategy` refuses it."""
    try:
        check_strategy(subject, strategy)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    return strategy


def utf16_units(text: str) -> bytes:
    """Sort key for names that users choose: the order of Java's String.compareTo, by UTF-16 code unit.

    Python sorts by code point, which differs where a character beyond U+FFFF meets one from U+E000 to U+FFFF. Client
    ids, topics and broker names are ASCII (`model/names.py`) and sort alike either way.
    """
    return text.encode("utf-16-be", "surrogatepass")
