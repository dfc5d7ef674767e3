"""Limits of groups and subscriptions: a member may have a thousand topics, ten thousand members may not. Pure.

Two sums of sizes that peers choose:

- over all members, the approximate bytes of their subscriptions in memory. They are rows of the metadata, too.
- over one group, the bytes of names of topics, where members with the same topics count once. They are its member list,
  which has to fit a frame: otherwise no member would receive it, and a notification could not even be sent.

    a: orders, bills     b: orders, bills     c: orders       one group: 6 + 5 + 6, and 2 for each of three names
"""

from __future__ import annotations

from broker.groups.group import ConsumerGroupInfo
from model.errors import SystemBusy
from model.heartbeat import ConsumerData
from model.limits import MAX_GROUPS, MAX_LISTED_TOPIC_BYTES, MAX_SUBSCRIPTION_BYTES
from remoting.overload.shares import NO_SHARER, ShareBook, Sharer

_PER_NAME_BYTES = 2
"""Bytes of a name in a list beyond its characters."""
_PER_SUBSCRIPTION_BYTES = 200
"""Bytes of a subscription in memory beyond its texts."""


class GroupCapacity:
    """The capacity of one broker: counts its groups, and the subscriptions of their members."""

    def __init__(self, shares: ShareBook | None = None) -> None:
        book = shares or ShareBook()
        self._groups = book.of("groups", MAX_GROUPS, "delete some, or use those that there are")
        self._of_one = book.of("bytes of subscriptions", MAX_SUBSCRIPTION_BYTES, "subscribe to less")
        self._bytes = 0

    # --- groups ------------------------------------------------------------------------------------------------------

    def check_group(self, n_groups: int, sharer: Sharer = NO_SHARER) -> None:
        """Check that one more group is within the limits.

        Raises:
            SystemBusy: it is not, for the broker or for this sharer.
        """
        if n_groups >= MAX_GROUPS:
            raise SystemBusy(f"this broker has {MAX_GROUPS} groups already")
        self._groups.check(sharer)

    def add_group(self, info: ConsumerGroupInfo, sharer: int) -> None:
        """Count a new group for its sharer."""
        info.sharer = sharer
        self._groups.add(sharer)

    def remove_group(self, info: ConsumerGroupInfo) -> None:
        """Undo `add_group`."""
        self._groups.remove(info.sharer)

    # --- subscriptions -----------------------------------------------------------------------------------------------

    def check(
        self,
        info: ConsumerGroupInfo,
        old: ConsumerData | None,
        new: ConsumerData,
        sharer: Sharer = NO_SHARER,
        old_sharer: int = 0,
    ) -> None:
        """Check that the subscriptions of a member, in place of its old ones, are within the limits.

        Raises:
            SystemBusy: they are not; nothing has changed.
        """
        if old is not None and old.subscriptions == new.subscriptions:
            return
        old_bytes, new_bytes = 0 if old is None else _bytes_of(old), _bytes_of(new)
        if self._bytes + new_bytes - old_bytes > MAX_SUBSCRIPTION_BYTES:
            raise SystemBusy(
                f"the subscriptions of all members take {self._bytes} bytes of this broker, at most "
                f"{MAX_SUBSCRIPTION_BYTES}: subscribe to less"
            )
        if new_bytes > old_bytes or sharer.number != old_sharer:
            self._of_one.check(sharer, new_bytes - old_bytes if sharer.number == old_sharer else new_bytes)
        topics = _topics(new)
        if topics not in info.topic_sets and info.listed_bytes + _listed(topics) > MAX_LISTED_TOPIC_BYTES:
            raise SystemBusy(
                f"the members of group {info.group!r} subscribe to {len(info.topic_sets)} different sets of topics, "
                f"whose names have {info.listed_bytes} bytes, at most {MAX_LISTED_TOPIC_BYTES}: a member list could "
                "no longer be sent. Subscribe to the same topics, or in another group"
            )

    def add(self, info: ConsumerGroupInfo, data: ConsumerData, sharer: int = 0) -> None:
        """Count the subscriptions of a member for its sharer; those that it had before are removed first."""
        self._bytes += _bytes_of(data)
        self._of_one.add(sharer, _bytes_of(data))
        topics = _topics(data)
        if topics not in info.topic_sets:
            info.listed_bytes += _listed(topics)
        info.topic_sets[topics] = info.topic_sets.get(topics, 0) + 1
        info.leaseless += data.leaseless
        info.settings.add(data)

    def remove(self, info: ConsumerGroupInfo, data: ConsumerData, sharer: int = 0) -> None:
        """Undo `add`, with the same data and sharer."""
        self._bytes -= _bytes_of(data)
        self._of_one.remove(sharer, _bytes_of(data))
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
