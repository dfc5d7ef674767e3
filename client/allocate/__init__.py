"""Allocation strategies: which of a topic's queues one member of a group consumes.

A strategy is a pure function of (all queues, all members, my id). Every member runs it on its own, nobody assigns
anything to anybody: members agree because they sort the same inputs and use the same strategy.

Invariant: for one view of the group, no two shares of its members have a queue in common; with CONFIG, whoever wrote
the lists has to see to that. AVG, AVG_BY_CIRCLE, CONSISTENT_HASH, MACHINE_ROOM_NEARBY and BALANCED_STICKY also leave no
queue out; the others do so on purpose.

    strategy.py           what a strategy must offer, and the checks that all of them make
    averagely.py          AVG, AVG_BY_CIRCLE
    consistent_hash.py    CONSISTENT_HASH
    fixed_share.py        CONFIG, and the allow-list by client IP
    machine_room.py       MACHINE_ROOM, MACHINE_ROOM_NEARBY
    balanced_sticky.py    BALANCED_STICKY, over all topics of a group together
    balanced_sharing.py   what it computes, and remembers
    hash_ring.py          how it shares queues among equals; `model/even_loads.py` has the rest

`docs/strategies.md` compares what they do when members come and go.

RocketMQ: AllocateMessageQueueStrategy and its implementations; names and signature are its own.
"""

from __future__ import annotations

from client.allocate.averagely import AllocateMessageQueueAveragely, AllocateMessageQueueAveragelyByCircle
from client.allocate.balanced_sticky import AllocateMessageQueueBalancedSticky
from client.allocate.consistent_hash import AllocateMessageQueueConsistentHash, md5_hash
from client.allocate.fixed_share import AllocateMessageQueueByClientIp, AllocateMessageQueueByConfig
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
