"""One group with members of both kinds, of which some join, leave and are killed under load.

Its condition is judged by what the listeners log themselves, the begin and end of each call, and by what brokers say of
the owners of queues: no message may be lost or out of order, no queue may have two owners, and each change has to be
over, with equal shares, after `BALANCED_S`, or `STOCK_JOIN_S`. A change begins when the one before is over, or failed.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from tests.interop.clients import OURS
from tests.interop.servers import RLAB, cluster, pause, say

MEMBERS, QUEUES = 4, 16
MESSAGES = 100_000
PER_S = 1_000
BALANCED_S = 1.0
STOCK_JOIN_S = 3.0
"""A stock member rebalances at most once a second, and has to do so twice when a queue was still in use at first."""
SETTLING_S, FAILED_S = 5.0, 60
"""How long a balanced group consumes until the next change, and how long nobody waits for balance."""


class Logged:
    """A process whose standard output goes to a file."""

    def __init__(self, command: list[str], log: Path) -> None:
        self.log = log
        with log.open("wb") as file:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=file, stderr=subprocess.STDOUT)

    def calls(self) -> Iterator[tuple[int, int, str, int, str]]:
        """Begin and end in nanoseconds, queue, offset and body of each message that its listener got."""
        for line in self.log.read_text(errors="replace").splitlines():
            if match := re.fullmatch(r"m (\d+) (\d+) (\S+ \S+ \d+) (\d+) (\S+)", line):
                yield int(match[1]), int(match[2]), match[3], int(match[4]), match[5]

    def shares(self) -> list[tuple[int, list[int]]]:
        """Time in nanoseconds and sorted numbers of queues by member, of a process that watches the group."""
        lines = (line.split() for line in self.log.read_text().splitlines() if line.startswith("o "))
        return [(int(moment), sorted(map(int, counts))) for _, moment, *counts in lines]

    def balanced_ns(self, since: int, n_members: int) -> int | None:
        """The first moment after this one at which each member had its share, of a process that watches the group."""
        size, more = divmod(QUEUES, n_members)
        fair = [size] * (n_members - more) + [size + 1] * more
        return next((at for at, counts in self.shares() if at > since and counts == fair), None)

    def ready_ns(self) -> int:
        """The moment at which it had joined."""
        return int(match[1]) if (match := re.search(r"(?m)^ready (\d+)$", self.log.read_text())) else 0

    def end(self, *, kill: bool) -> None:
        """Stop it by closing its standard input, or kill it."""
        if kill:
            self.process.kill()
        elif self.process.stdin is not None:
            self.process.stdin.close()
        self.process.wait(60)


class Change(NamedTuple):
    """A change of the group: what, when in nanoseconds, how many members there are then, and who has joined."""

    what: str
    moment: int
    n_members: int
    joined: tuple[Logged, ...] = ()


def mixed(java: list[str], directory: Path) -> list[str]:
    """A group of both kinds under churn; returns what was wrong."""
    with cluster(2) as name_server, ExitStack() as stack:
        create = [*RLAB, "topic", "create", "mixed", "--queues", str(QUEUES // 2), "--namesrv", name_server]
        subprocess.run(create, check=True)
        commands = {
            "stock": [*java, "Member", name_server, "mixed-group", "mixed", "orderly", "1"],
            "ours": [*OURS, name_server, "mixed-group", "mixed"],
        }
        members: list[Logged] = []

        def start(kind: str) -> Logged:
            member = Logged(commands[kind], directory / f"{len(members)}-{kind}.log")
            members.append(member)
            stack.callback(member.process.kill)
            return member

        watcher = Logged([*OURS, name_server, "watch", "mixed-group"], directory / "watcher.log")
        stack.callback(watcher.process.kill)
        began = time.time_ns()
        running = [start(kind) for _ in range(MEMBERS) for kind in commands]
        changes = [Change(f"{len(running)} started", began, len(running), tuple(running))]
        settle(watcher, began, len(running))
        producing = [*OURS, name_server, "produce", "mixed", str(MESSAGES), str(PER_S)]
        producer = subprocess.Popen(producing)
        stack.callback(producer.kill)
        for n in range(6):
            kind = ("stock", "ours")[n % 2]
            kills = n < 4
            changes.append(Change(f"{kind} {'killed' if kills else 'left'}", time.time_ns(), 2 * MEMBERS - 1))
            running.pop(n % 2).end(kill=kills)
            settle(watcher, changes[-1].moment, 2 * MEMBERS - 1)
            changes.append(Change(f"{kind} joined", time.time_ns(), 2 * MEMBERS, (start(kind),)))
            settle(watcher, changes[-1].moment, 2 * MEMBERS)
            running.append(members[-1])
        producer.wait(600)
        wrong = judged(members, running)
        watcher.end(kill=True)
        return wrong + unbalanced(watcher, changes)


def settle(watcher: Logged, since: int, n_members: int) -> None:
    """Wait until each member has its share, if it comes to that, and let the group consume for a while."""
    for _ in range(5 * FAILED_S):
        if watcher.balanced_ns(since, n_members) is not None:
            break
        pause(0.2)
    pause(SETTLING_S)


def unbalanced(watcher: Logged, changes: list[Change]) -> list[str]:
    """Say how long each change took until every member had its share, and which took too long."""
    wrong: list[str] = []
    for what, moment, n_members, joined in changes:
        began = max([moment, *(member.ready_ns() for member in joined)])
        balanced = watcher.balanced_ns(moment, n_members)
        elapsed = None if balanced is None else max(0, balanced - began) / 1e9
        said = f"{what}: {'never balanced' if elapsed is None else f'balanced after {elapsed:.2f} s'}"
        say(said)
        if elapsed is None or elapsed > (BALANCED_S):
            wrong.append(said)
    return wrong


def judged(members: list[Logged], running: list[Logged]) -> list[str]:
    """Wait until everything has come, and say what was wrong."""
    bodies: set[str] = set()
    for _ in range(45):
        bodies = {body for member in members for *_, body in member.calls()}
        if len(bodies) == MESSAGES:
            break
        pause(2)
    for member in running:
        member.end(kill=False)
    calls: dict[str, list[tuple[int, int, int, int]]] = defaultdict(list)
    for number, member in enumerate(members):
        say(f"{member.log.stem}: {sum(1 for _ in member.calls())} messages")
        for begin, end, queue, offset, _ in member.calls():
            calls[queue].append((begin, end, number, offset))
    wrong = [f"{MESSAGES - len(bodies)} messages are lost"] if len(bodies) != MESSAGES else []
    overlap_ns = 0
    for queue, each in calls.items():
        firsts = list(dict.fromkeys(offset for *_, offset in sorted(each)))
        if firsts != sorted(firsts):
            wrong.append(f"{queue}: messages came out of their order")
        for (_, end, one, _), (begin, _, other, _) in pairwise(sorted(each)):
            if one != other and begin < end:
                overlap_ns += end - begin
    if overlap_ns:
        wrong.append(f"queues had two owners for {overlap_ns / 1e6:.1f} ms")
    repeated = sum(map(len, calls.values())) - len(bodies)
    say(f"mixed group: {len(bodies)} messages, {repeated} came twice, {overlap_ns / 1e6:.1f} ms with two owners")
    return wrong


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as logs:
        sys.exit("\n".join(mixed(sys.argv[1:], Path(logs))))
