"""Strategies with a configured list: CONFIG lists the queues of a member, the other one lists machines. Pure.

    AllocateMessageQueueByConfig([orders@broker-a:0])     this member has that queue, whatever the others do
    AllocateMessageQueueByClientIp(["10.0.0.7"])          members on 10.0.0.7 have all queues, the others have no queue

The list of machines is for trying a new version of a consumer on one machine. RocketMQ: AllocateMessageQueueByConfig.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from client.allocate.averagely import AllocateMessageQueueAveragely
from client.allocate.strategy import AllocateMessageQueueStrategy, check_strategy, position_of
from model.message_queue import MessageQueue


class AllocateMessageQueueByConfig:
    """The configured queues of this member, whatever members and queues there are.

    Nothing checks that each queue is in exactly one member's list. The queues of the retry topic need an owner too.
    RocketMQ: AllocateMessageQueueByConfig.

    Args:
        message_queue_list: the queues of this member; None, RocketMQ's default, means no queues.

    Raises:
        ValueError: it is not iterable, or contains something other than a queue.
    """

    name = "CONFIG"

    def __init__(self, message_queue_list: Iterable[MessageQueue] | None = None) -> None:
        if message_queue_list is not None and not isinstance(message_queue_list, Iterable):
            raise ValueError(f"message_queue_list must be a list of MessageQueue, and is {message_queue_list!r}")
        self._queues = list(message_queue_list or ())
        for queue in self._queues:
            if not isinstance(queue, MessageQueue):
                raise ValueError(f"message_queue_list must hold MessageQueue only, and holds {queue!r}")

    def allocate(
        self, consumer_group: str, current_cid: str, mq_all: Sequence[MessageQueue], cid_all: Sequence[str]
    ) -> list[MessageQueue]:
        """The configured list, whatever the arguments are; nothing is checked or raised."""
        return list(self._queues)

    def allocate_group(
        self,
        consumer_group: str,
        current_cid: str,
        queues_of: Mapping[str, Sequence[MessageQueue]],
        topics_of: Mapping[str, Collection[str]],
    ) -> list[MessageQueue]:
        """The configured queues that exist now and whose topic the member subscribes to.

        `allocate` would return the queues of all topics for each topic. RocketMQ also pulls queues that do not exist;
        here such a queue waits for its route, while the others are consumed.
        """
        existing = {queue for topic in topics_of.get(current_cid, ()) for queue in queues_of.get(topic, ())}
        return [queue for queue in dict.fromkeys(self._queues) if queue in existing]


def check_inner(inner: object) -> None:
    """Refuse an inner strategy that cannot divide given queues among given members.

    CONFIG always returns its whole list. The list could be cut to the given queues, but queues in the lists of members
    that are left out would then have no owner.
    """
    check_strategy("inner", inner)
    if isinstance(inner, AllocateMessageQueueByConfig):
        raise ValueError(
            "inner must assign queues to members, and CONFIG has one member's list: use CONFIG alone, and configure "
            "no queues for a member that shall have none"
        )


class AllocateMessageQueueByClientIp:
    """Only members on some machines consume, with the queues that an inner strategy gives them.

    The IP is the part of a client id before the `@`. If no member is on one of the machines, no member consumes. All
    members need the same list, also those that are left out.

    Args:
        allowed_ips: the IPs of the machines whose members consume.
        inner: the strategy that divides the queues among these members, topic by topic; by default averagely.

    Raises:
        ValueError: the list of IPs is empty, or contains something other than a string; `inner` is not a strategy, or
            is CONFIG.
    """

    def __init__(self, allowed_ips: Collection[str], inner: AllocateMessageQueueStrategy | None = None) -> None:
        # A string is a collection of strings as well: without this test, "10.0.0.7" would allow machines 1, 0, 7 and
        # ".".
        if isinstance(allowed_ips, str) or not isinstance(allowed_ips, Iterable):
            raise ValueError(f"allowed_ips must be a collection of IPs, and is {allowed_ips!r}")
        ips = list(allowed_ips)
        if not ips or not all(isinstance(ip, str) and ip for ip in ips):
            raise ValueError(f"allowed_ips must name at least one IP, each as a text, and is {ips!r}")
        self._allowed = frozenset(ips)
        self._inner = AllocateMessageQueueAveragely() if inner is None else inner
        check_inner(self._inner)

    @property
    def name(self) -> str:
        """The name contains that of the inner strategy, because all members need the same inner strategy."""
        return f"CLIENT_IP-{self._inner.name}"

    def allocate(
        self, consumer_group: str, current_cid: str, mq_all: Sequence[MessageQueue], cid_all: Sequence[str]
    ) -> list[MessageQueue]:
        """See `AllocateMessageQueueStrategy.allocate`."""
        if position_of(consumer_group, current_cid, mq_all, cid_all) is None or not self._is_allowed(current_cid):
            return []
        allowed = [client_id for client_id in cid_all if self._is_allowed(client_id)]
        return self._inner.allocate(consumer_group, current_cid, mq_all, allowed)

    def _is_allowed(self, client_id: str) -> bool:
        return client_id.partition("@")[0] in self._allowed
