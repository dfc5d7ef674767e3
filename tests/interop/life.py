"""The life of a group, the same for members of RocketMQ's client, of ours, and of both, on any servers.

After each join, leave and kill, the members' own logs have to show the queues that RocketMQ's AVG gives them: sorted
client ids, each with a block of the sorted queues. No message may be lost. Members consume without order, because a
broker of RocketMQ keeps the locks of a killed member for a minute.
"""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import anyio

from client import Admin
from tests.interop.clients import OURS
from tests.interop.mixed import Logged
from tests.interop.servers import RLAB, Servers, pause, say

QUEUES = 8
PER_S = 1_000
WINDOW_NS = 700_000_000
"""Every queue has messages in this time; who gets them is who has the queue."""
BALANCED_S = 45.0
LAST_S = 60.0
STEPS = ("join", "join", "join", "leave", "join", "kill", "join", "kill", "join")
Outcome = dict[str, str]
"""What was looked at -> what was seen."""


def _now_s() -> float:
    return time.time_ns() / 1e9


class Member:
    """A process of a group, and what its log says."""

    def __init__(self, kind: str, command: list[str], log: Path) -> None:
        self.kind = kind
        self.logged = Logged(command, log)
        self.bodies: Counter[str] = Counter()
        self._at = 0
        self._recent: list[tuple[int, int]] = []

    @property
    def pid(self) -> int:
        """The number of its process, which is in its client id."""
        return self.logged.process.pid

    def read(self, now_ns: int) -> set[int]:
        """Read on in its log; returns the queues of which it got messages just now."""
        with self.logged.log.open("rb") as file:
            file.seek(self._at)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._at += len(whole)
        for line in whole.decode(errors="replace").splitlines():
            words = line.split(" ")
            if words[0] == "m" and len(words) == 8:
                self.bodies[words[7]] += 1
                self._recent.append((int(words[1]), int(words[5])))
        self._recent = [each for each in self._recent if each[0] > now_ns - WINDOW_NS]
        return {queue_id for _, queue_id in self._recent}


async def _ids(name_server: str, group: str) -> list[str]:
    async with Admin(name_server) as admin:
        return sorted(member.client_id for member in (await admin.group(group)).members)


def blocks(ids: list[str]) -> dict[str, set[int]]:
    """The queues of each member by RocketMQ's AVG."""
    size, more = divmod(QUEUES, len(ids))
    shares: dict[str, set[int]] = {}
    first = 0
    for place, client_id in enumerate(ids):
        n = size + (place < more)
        shares[client_id] = set(range(first, first + n))
        first += n
    return shares


class Life:
    """One play of the script."""

    def __init__(self, name_server: str, commands: dict[str, list[str]], logs: Path, stack: ExitStack) -> None:
        self.members: list[Member] = []
        self.wrong: list[str] = []
        self._name_server = name_server
        self._commands = commands
        self._logs = logs
        self._stack = stack
        self._running: list[Member] = []

    def step(self, number: int, what: str) -> float:
        """Make a change; returns the seconds until every queue has its member."""
        if what == "join":
            kinds = list(self._commands)
            member = Member(
                kind := kinds[len(self.members) % len(kinds)], self._commands[kind], self._logs / f"{len(self.members)}"
            )
            self._stack.callback(member.logged.process.kill)
            self.members.append(member)
            self._running.append(member)
            ready_by = _now_s() + BALANCED_S
            while not member.logged.ready_ns() and _now_s() < ready_by:
                pause(0.05)
        else:
            member = self._running.pop(number % len(self._running))
            member.logged.end(kill=what == "kill")
        began = _now_s()
        seen: dict[int, set[int]] = {}
        while _now_s() < began + BALANCED_S:
            now_ns = time.time_ns()
            seen = {each.pid: each.read(now_ns) for each in self._running}
            ids = anyio.run(_ids, self._name_server, "life")
            by_pid = {int(client_id.split("@")[1].split("#")[0]): client_id for client_id in ids}
            if by_pid.keys() == seen.keys() and all(blocks(ids)[by_pid[pid]] == got for pid, got in seen.items()):
                return max(0.0, _now_s() - began - WINDOW_NS / 1e9)
            pause(0.05)
        self.wrong.append(f"step {number}, {what} of {member.kind}: after {BALANCED_S:g} s the queues are {seen}")
        return BALANCED_S

    def finish(self, n: int) -> tuple[int, int]:
        """Wait for the last messages; returns how many were lost, and how many came twice."""
        until = _now_s() + LAST_S
        bodies: Counter[str] = Counter()
        while _now_s() < until:
            for member in self.members:
                member.read(time.time_ns())
            bodies = sum((member.bodies for member in self.members), Counter())
            if len(bodies) == n:
                break
            pause(0.5)
        return n - len(bodies), bodies.total() - len(bodies)


def life(commands: dict[str, list[str]], servers: Servers, logs: Path, n: int) -> tuple[Outcome, list[str]]:
    """Play the script with members of these kinds in turn; returns what was seen, and what was wrong."""
    with servers() as name_server, ExitStack() as stack:
        create = [*RLAB, "topic", "create", "life", "--queues", str(QUEUES), "--namesrv", name_server]
        subprocess.run(create, check=True, stdout=subprocess.DEVNULL)
        here = {kind: [each.replace("{server}", name_server) for each in c] for kind, c in commands.items()}
        played = Life(name_server, here, logs, stack)
        producing = [*OURS, name_server, "produce", "life", str(n), str(PER_S)]
        producer = subprocess.Popen(producing)
        stack.callback(producer.kill)
        times: dict[str, list[float]] = {}
        for number, what in enumerate(STEPS):
            took_s = played.step(number, what)
            times.setdefault(what, []).append(took_s)
            pause(2)
        producer.wait(300)
        lost, twice = played.finish(n)
        outcome = {f"balanced after a {what}, slowest": f"{max(each):.1f} s" for what, each in times.items()}
        outcome |= {"messages lost": f"{lost} of {n:,}", "messages twice": str(twice)}
        if lost:
            played.wrong.append(f"{lost} messages are lost")
        say(f"life of a group with {' and '.join(commands)}: {outcome}")
        return outcome, played.wrong


def commands_of(java: list[str], *kinds: str) -> dict[str, list[str]]:
    """The commands of members; `{server}` is where the address of the name server belongs."""
    every = {
        "stock": [*java, "Member", "{server}", "life", "life", "concurrent", "1"],
        "ours": [*OURS, "{server}", "life", "life", "none"],
    }
    return {kind: every[kind] for kind in kinds}
