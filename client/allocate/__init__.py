"""Allocation strategies: each computes which of a topic's queues one member of a group consumes. Pure.

A strategy is a pure function of all queues, all members and the member's own id. Every member runs it for itself;
members agree because they sort the same inputs and use the same strategy.

Invariant: for one member list, no queue is assigned to two members, and every queue is assigned. CONFIG, MACHINE_ROOM
and the allow-list by client IP may leave queues out on purpose; with CONFIG, the authors of the lists are responsible
for both.

    strategy.py           the protocol of a strategy, and the checks that all of them make
    registry.py           strategies by name: the built-in ones, and the ones of installed packages
    averagely.py          AVG, AVG_BY_CIRCLE
    consistent_hash.py    CONSISTENT_HASH
    by_config.py          CONFIG, and the allow-list by client IP
    machine_room.py       MACHINE_ROOM, MACHINE_ROOM_NEARBY
    balanced_sticky.py    BALANCED_STICKY, over all topics of a group together
    balanced_queues.py    its computation, and its memory of the last result
    hash_ring.py          its assignment among equal members; `model/even_loads.py` has the rest

Read `strategy.py` and `averagely.py`; the others stand alone. Other rooms import the exported names, and `registry.py`.
`docs/strategies.md` compares how strategies react when members join and leave.

RocketMQ: AllocateMessageQueueStrategy and its implementations; names and signature are its own.
"""

from __future__ import annotations

from client.allocate.averagely import AllocateMessageQueueAveragely, AllocateMessageQueueAveragelyByCircle
from client.allocate.balanced_sticky import AllocateMessageQueueBalancedSticky
from client.allocate.by_config import AllocateMessageQueueByClientIp, AllocateMessageQueueByConfig
from client.allocate.consistent_hash import AllocateMessageQueueConsistentHash, md5_hash
from client.allocate.machine_room import (
    AllocateMachineRoomNearby,
    AllocateMessageQueueByMachineRoom,
    MachineRoomResolver,
)
from client.allocate.strategy import AllocateMessageQueueStrategy, GroupWideStrategy, position_of

__all__ = [
    "AllocateMachineRoomNearby",
    "AllocateMessageQueueAveragely",
    "AllocateMessageQueueAveragelyByCircle",
    "AllocateMessageQueueBalancedSticky",
    "AllocateMessageQueueByClientIp",
    "AllocateMessageQueueByConfig",
    "AllocateMessageQueueByMachineRoom",
    "AllocateMessageQueueConsistentHash",
    "AllocateMessageQueueStrategy",
    "GroupWideStrategy",
    "MachineRoomResolver",
    "md5_hash",
    "position_of",
]
