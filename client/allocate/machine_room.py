"""Strategies by machine room: MACHINE_ROOM by broker name, MACHINE_ROOM_NEARBY by a resolver. Pure.

    queues of room1: r1a0 r1a1, of room2: r2a0; member X in room1, Y in room1, none in room2
    MACHINE_ROOM_NEARBY-AVG     X: r1a0 r2a0    Y: r1a1        room2 has no consumer: its queues go to all
    MACHINE_ROOM(room1)         X: r1a0         Y: r1a1        queues of other rooms have no owner

RocketMQ: AllocateMessageQueueByMachineRoom, AllocateMachineRoomNearby.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

from client.allocate.by_config import check_inner
from client.allocate.strategy import AllocateMessageQueueStrategy, position_of, utf16_units
from model.message_queue import MessageQueue


class AllocateMessageQueueByMachineRoom:
    """Equal numbers of the queues whose broker is named `room@anything` after one of some rooms.

    Each member has a block, and the remainder comes from the end of the list: member i of the first
    `queues % members` has queue `i + members * (queues // members)` as well. RocketMQ: the class of this name.

    Args:
        consumer_idcs: names of the rooms.

    Raises:
        ValueError: not a collection of strings.
    """

    name = "MACHINE_ROOM"

    def __init__(self, consumer_idcs: Collection[str]) -> None:
        if isinstance(consumer_idcs, str) or not isinstance(consumer_idcs, Iterable):
            raise ValueError(f"consumer_idcs must be a collection of room names, and is {consumer_idcs!r}")
        rooms = list(consumer_idcs)
        if not all(isinstance(room, str) for room in rooms):
            raise ValueError(f"consumer_idcs must hold texts only, and is {rooms!r}")
        self._rooms = frozenset(rooms)

    def allocate(
        self, consumer_group: str, current_cid: str, mq_all: Sequence[MessageQueue], cid_all: Sequence[str]
    ) -> list[MessageQueue]:
        """See `AllocateMessageQueueStrategy.allocate`."""
        index = position_of(consumer_group, current_cid, mq_all, cid_all)
        if index is None:
            return []
        queues = [queue for queue in mq_all if parse_machine_room(queue.broker_name) in self._rooms]
        share, remainder = divmod(len(queues), len(cid_all))
        block = queues[index * share : (index + 1) * share]
        if index < remainder:
            block.append(queues[index + share * len(cid_all)])
        return block


def parse_machine_room(broker_name: str) -> str | None:
    """The room of a broker that is named `room@anything`, or None if the name has another form.

    As Java's split("@") sees it: parts without text at the end do not count, so `room@x@` has two parts and `room@` has
    one; a part without text at the beginning does count.
    """
    parts = broker_name.rstrip("@").split("@")
    return parts[0] if len(parts) == 2 else None


class MachineRoomResolver(Protocol):
    """Knows the machine rooms of brokers and consumers. RocketMQ: AllocateMachineRoomNearby.MachineRoomResolver."""

    def broker_room(self, queue: MessageQueue, /) -> str:
        """The machine room of the broker that has this queue. RocketMQ: brokerDeployIn."""
        ...

    def consumer_room(self, client_id: str, /) -> str:
        """The machine room of this member. RocketMQ: consumerDeployIn."""
        ...


class AllocateMachineRoomNearby:
    """Queues go to members in the same room; the queues of a room without members are assigned among all members.

    RocketMQ: AllocateMachineRoomNearby; as there, the remainder of each room without members goes to the same members.

    Args:
        inner: assigns the queues of one room, topic by topic.
        resolver: knows the room of each broker and member.

    Raises:
        ValueError: `inner` is not a strategy, or is CONFIG; or `resolver` is not a resolver.
    """

    def __init__(self, inner: AllocateMessageQueueStrategy, resolver: MachineRoomResolver) -> None:
        check_inner(inner)
        if not all(callable(getattr(resolver, method, None)) for method in ("broker_room", "consumer_room")):
            raise ValueError(f"resolver must have broker_room(mq) and consumer_room(client_id), and is {resolver!r}")
        self._inner = inner
        self._resolver = resolver

    @property
    def name(self) -> str:
        """The name contains that of the inner strategy, because all members need the same inner strategy."""
        return f"MACHINE_ROOM_NEARBY-{self._inner.name}"

    def allocate(
        self, consumer_group: str, current_cid: str, mq_all: Sequence[MessageQueue], cid_all: Sequence[str]
    ) -> list[MessageQueue]:
        """See `AllocateMessageQueueStrategy.allocate`; ValueError also for an unknown room."""
        if position_of(consumer_group, current_cid, mq_all, cid_all) is None:
            return []
        queues_in: dict[str, list[MessageQueue]] = {}
        for queue in mq_all:
            queues_in.setdefault(_known(self._resolver.broker_room(queue), f"queue {queue}"), []).append(queue)
        members_in: dict[str, list[str]] = {}
        for client_id in cid_all:
            room = _known(self._resolver.consumer_room(client_id), f"consumer {client_id}")
            members_in.setdefault(room, []).append(client_id)

        own_room = self._resolver.consumer_room(current_cid)
        assigned: list[MessageQueue] = []
        if near := queues_in.pop(own_room, None):
            assigned += self._inner.allocate(consumer_group, current_cid, near, members_in[own_room])
        for room in sorted(queues_in.keys() - members_in.keys(), key=utf16_units):
            assigned += self._inner.allocate(consumer_group, current_cid, queues_in[room], cid_all)
        return assigned


def _known(room: str | None, subject: str) -> str:
    if not room:
        raise ValueError(f"the resolver knows no machine room for {subject}")
    return room
