"""The room that subscriptions take: a member may have a thousand topics, but ten thousand members may not. Pure.

Two sums, of what peers choose:

- of all members, the bytes of their subscriptions in memory, about. They are rows of the metadata, too.
- of one group, the bytes of names of topics, where members with the same topics count once. That is its member list,
  which has to fit a frame: else no member would get it, and a notification could not even be sent.

    a: orders, bills     b: orders, bills     c: orders       one group: 6 + 5 + 6, and 2 for each of three names
"""

from __future__ import annotations

from broker.groups.group import ConsumerGroupInfo
from model.errors import SystemBusy
from model.heartbeat import ConsumerData
from model.limits import MAX_LISTED_TOPIC_BYTES, MAX_SUBSCRIPTION_BYTES

_PER_NAME_BYTES = 2
"""What a name takes in a list beyond its characters."""
_PER_SUBSCRIPTION_BYTES = 200
"""What a subscription takes in memory beyond its texts."""


class SubscriptionRoom:
    """The room of one broker; counts what members say when it begins and ends to be so."""

    def __init__(self) -> None:
        self._bytes = 0

    def check(self, info: ConsumerGroupInfo, old: ConsumerData | None, new: ConsumerData) -> None:
        """Check that there is room for what a member says now, instead of what it said before.

        Raises:
            SystemBusy: there is none; nothing has changed.
        """
        if old is not None and old.subscriptions == new.subscriptions:
            return
        if self._bytes + _bytes_of(new) - (0 if old is None else _bytes_of(old)) > MAX_SUBSCRIPTION_BYTES:
            raise SystemBusy(
                f"the subscriptions of all members take {self._bytes} bytes of this broker, at most "
                f"{MAX_SUBSCRIPTION_BYTES}: subscribe to less"
            )
        topics = _topics(new)
        if topics not in info.topic_sets and info.listed_bytes + _listed(topics) > MAX_LISTED_TOPIC_BYTES:
            raise SystemBusy(
                f"the members of group {info.group!r} subscribe to {len(info.topic_sets)} different sets of topics, "
                f"whose names have {info.listed_bytes} bytes, at most {MAX_LISTED_TOPIC_BYTES}: a member list could "
                "not be sent any more. Subscribe to the same topics, or in another group"
            )

    def add(self, info: ConsumerGroupInfo, data: ConsumerData) -> None:
        """Count what a new member says, or an old one from now on."""
        self._bytes += _bytes_of(data)
        topics = _topics(data)
        if topics not in info.topic_sets:
            info.listed_bytes += _listed(topics)
        info.topic_sets[topics] = info.topic_sets.get(topics, 0) + 1
        info.leaseless += data.leaseless
        info.settings.add(data)

    def remove(self, info: ConsumerGroupInfo, data: ConsumerData) -> None:
        """Undo `add`, with the same data."""
        self._bytes -= _bytes_of(data)
        topics = _topics(data)
        info.topic_sets[topics] -= 1
        if not info.topic_sets[topics]:
            del info.topic_sets[topics]
            info.listed_bytes -= _listed(topics)
        info.leaseless -= data.leaseless
        info.settings.remove(data)


def _topics(data: ConsumerData) -> tuple[str, ...]:
    return tuple(subscription.topic for subscription in data.subscriptions)


def _listed(topics: tuple[str, ...]) -> int:
    return sum(map(len, topics)) + _PER_NAME_BYTES * len(topics)


def _bytes_of(data: ConsumerData) -> int:
    texts = sum(len(subscription.topic) + len(subscription.expression) for subscription in data.subscriptions)
    return texts + _PER_SUBSCRIPTION_BYTES * len(data.subscriptions)
