"""Compares allocation strategies over the same histories of a group: evenness, and number of moved queues.

    python examples/pages/strategies_table.py

A history begins with a number of members and queues; then members join and leave at random, and now and then the topic
gets more queues. After each step the assignments of all members are computed as the members compute them.
`docs/strategies.md` explains the strategies.

    python examples/pages/strategies_table.py docs      updates the tables of that page
"""

from __future__ import annotations

import functools
import random
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from rlab.client.allocate import (
    AllocateMachineRoomNearby,
    AllocateMessageQueueAveragely,
    AllocateMessageQueueBalancedSticky,
    AllocateMessageQueueByMachineRoom,
    AllocateMessageQueueConsistentHash,
    AllocateMessageQueueStrategy,
    md5_hash,
)
from rlab.client.allocate.registry import BUILT_IN_STRATEGIES
from rlab.client.rebalance.plan import allocate_target
from rlab.model.heartbeat import GroupView, MessageModel
from rlab.model.message_queue import MessageQueue

PAGE = Path(__file__).resolve().parents[2] / "docs" / "strategies.md"
BROKERS = ("room1@a", "room2@b", "room1@c", "room2@d")
NEW_QUEUES_EVERY = 7
"""Every 7th step adds a queue on each broker; all others are joins and leaves."""
Owners = dict[MessageQueue, str]


class Size(NamedTuple):
    """Start and length of a history."""

    queues: int
    members: int
    steps: int


SIZES = (Size(16, 4, 50), Size(64, 8, 40), Size(300, 30, 20), Size(1000, 100, 10))


class Rooms:
    """A broker's name has its machine room, and the second number of a member's IP is the number of its room."""

    def broker_room(self, queue: MessageQueue) -> str:
        """See `MachineRoomResolver`."""
        return queue.broker_name.partition("@")[0]

    def consumer_room(self, client_id: str) -> str:
        """See `MachineRoomResolver`."""
        return f"room{client_id.split('.')[1]}"


def strategies() -> list[AllocateMessageQueueStrategy]:
    """Strategies that can be compared; CONFIG and the allow-list by IP depend on what a person configures."""
    quick = AllocateMessageQueueConsistentHash(10, functools.cache(md5_hash))
    return [
        *(quick if name == quick.name else each.make() for name, each in BUILT_IN_STRATEGIES.items()),
        AllocateMessageQueueByMachineRoom({"room1", "room2"}),
        AllocateMachineRoomNearby(AllocateMessageQueueAveragely(), Rooms()),
    ]


def history(size: Size, seed: int = 1) -> Iterator[tuple[list[MessageQueue], list[str]]]:
    """Queues and members after each step; the number of members stays within a quarter of its start."""
    rng = random.Random(seed)
    per_broker = size.queues // len(BROKERS)
    members = [_new_member(rng) for _ in range(size.members)]
    for step in range(size.steps + 1):
        if step and step % NEW_QUEUES_EVERY == 0:
            per_broker += 1
        elif step:
            fewest, max_members = size.members * 3 // 4, size.members * 5 // 4
            if len(members) >= max_members or (len(members) > fewest and rng.random() < 0.5):
                members.remove(rng.choice(members))
            else:
                members.append(_new_member(rng))
        yield (
            [MessageQueue("orders", broker, number) for broker in sorted(BROKERS) for number in range(per_broker)],
            (sorted(members)),
        )


def _new_member(rng: random.Random) -> str:
    return f"10.{rng.randint(1, 2)}.{rng.randrange(256)}.{rng.randrange(256)}@{rng.randrange(10**6)}"


def owners_of(strategy: AllocateMessageQueueStrategy, queues: Sequence[MessageQueue], members: Sequence[str]) -> Owners:
    """The owner of each queue if every member computes its own assignment."""
    return {queue: cid for cid in members for queue in strategy.allocate("g", cid, queues, members)}


def loads_of(owners: Owners, members: Sequence[str]) -> dict[str, int]:
    """The number of queues of each member."""
    loads = dict.fromkeys(members, 0)
    for owner in owners.values():
        if owner in loads:
            loads[owner] += 1
    return loads


def fewest_moves(old_owners: Owners, queues: Sequence[MessageQueue], members: Sequence[str]) -> int:
    """The fewest queues that must move so that loads differ by at most one."""
    floor, extra = divmod(len(queues), len(members))
    loads = loads_of(old_owners, members).values()
    kept = sum(min(load, floor) for load in loads) + min(extra, sum(load > floor for load in loads))
    return len(old_owners) - kept


class Figures(NamedTuple):
    """Figures of one strategy over one history: largest spread of loads, queues moved, and the fewest possible."""

    spread: int
    moved: int
    least: int


def measure(strategy: AllocateMessageQueueStrategy, size: Size) -> Figures:
    """Run a strategy through a history."""
    spread = moved = least = 0
    old_owners: Owners = {}
    for queues, members in history(size):
        owners = owners_of(strategy, queues, members)
        loads = loads_of(owners, members).values()
        spread = max(spread, max(loads) - min(loads))
        moved += sum(owners[queue] != owner for queue, owner in old_owners.items())
        least += fewest_moves(old_owners, queues, members) if old_owners else 0
        old_owners = owners
    return Figures(spread, moved, least)


def names_table() -> str:
    """The strategies that can be made by name."""
    rows = [["name", "class in `client.allocate`", "shares"]]
    for name, each in BUILT_IN_STRATEGIES.items():
        kind = type(each.make())
        rows.append([f"`{name}`", f"`{kind.__module__.rpartition('.')[2]}.{kind.__name__}`", each.shares])
    return _as_markdown(rows)


def moves_table() -> str:
    """Spread, and moves in relation to the least, by strategy and size."""
    figures_of = {strategy.name: [measure(strategy, size) for size in SIZES] for strategy in strategies()}
    least = [figures.least for figures in figures_of[AllocateMessageQueueBalancedSticky.name]]
    rows = [["strategy", *(f"{size.queues} queues, {size.members} members" for size in SIZES)]]
    for name, of_sizes in figures_of.items():
        cells = [f"{each.spread}, {each.moved / few:.1f} ×" for each, few in zip(of_sizes, least, strict=True)]
        rows.append([f"`{name}`", *cells])
    rows.append(["the least that an even sharing moves", *(f"{few} queues" for few in least)])
    return _as_markdown(rows)


def topics_table() -> str:
    """Loads over many small topics, by strategy."""
    members = sorted(_new_member(random.Random(seed)) for seed in range(8))
    queues_of = {f"t{n}": [MessageQueue(f"t{n}", broker, 0) for broker in BROKERS[: 2 + n % 3]] for n in range(12)}
    view = GroupView(group="g", version=1, members=dict.fromkeys(members, tuple(queues_of)))
    rows = [["strategy", "queues of each of eight members"]]
    for strategy in strategies():
        shares = [
            allocate_target(strategy, "g", cid, MessageModel.CLUSTERING, tuple(queues_of), queues_of, view)
            for cid in members
        ]
        rows.append([f"`{strategy.name}`", " ".join(str(count) for count in sorted(map(len, shares), reverse=True))])
    return _as_markdown(rows)


def _as_markdown(rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


TABLES = {"names": names_table, "moves": moves_table, "topics": topics_table}


def filled(page: str) -> str:
    """The page with each table in its place, which `<!-- table: NAME -->` marks."""
    return re.sub(r"(<!-- table: (\w+) -->\n)(?:\|.*\n)*", lambda match: f"{match[1]}{TABLES[match[2]]()}\n", page)


if __name__ == "__main__":
    if sys.argv[1:] == ["docs"]:
        PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        for table in TABLES.values():
            print(f"{table()}\n")
    print(f"{len(strategies())} strategies over {len(SIZES)} histories")
