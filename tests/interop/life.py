"""The life of a group, the same for members of RocketMQ's client, of ours, and of both, on any servers.

Members join, leave, are killed, fall silent (SIGSTOP) and wake, the topic grows, the broker freezes, restarts, and
moves to another port. After each step the members' own logs have to show the queues that RocketMQ's AVG gives them:
sorted client ids, each with a block of the sorted queues. Members have the same names in every life, so lives can be
compared queue by queue. No acknowledged message may be lost.
"""

from __future__ import annotations

import signal
import subprocess
import time
from bisect import bisect_left
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from tests.interop.clients import OURS
from tests.interop.mixed import Logged
from tests.interop.servers import RLAB, Broker, Brokers, pause

TOPIC, GROUP = "life", "life"
QUEUES, GROWN = 8, 12
PER_S = 500
WINDOW_NS = 700_000_000
"""Every queue has messages in this time; who gets them is who has the queue."""
BALANCED_S, LAST_S = 170.0, 90.0
REST_S, FREEZE_S = 2.0, 8.0
STEPS = (
    *("join", "join", "join", "join", "leave", "join", "kill", "join", "kill", "join"),
    *("silence", "waking", "growth", "frozen broker", "restart of the broker", "move of the broker"),
)
Outcome = dict[str, str]
"""What was looked at -> what was seen."""
Shares = dict[str, list[int]]
"""Name of a member -> its queues."""


def _now_s() -> float:
    return time.time_ns() / 1e9


class Delivery(NamedTuple):
    """A message that a listener got: begin and end in nanoseconds, queue, offset, member, body."""

    begin: int
    end: int
    queue: int
    offset: int
    name: str
    body: str


class Member:
    """A process of a group, and what its log says."""

    def __init__(self, name: str, kind: str, command: list[str], log: Path) -> None:
        self.name = name
        self.kind = kind
        self.logged = Logged(command, log)
        self.got: list[Delivery] = []
        self._at = 0

    def read(self) -> None:
        """Read on in its log."""
        with self.logged.log.open("rb") as file:
            file.seek(self._at)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._at += len(whole)
        for line in whole.decode(errors="replace").splitlines():
            words = line.split(" ")
            if words[0] == "m" and len(words) == 8:
                begin, end, queue, offset = (int(words[n]) for n in (1, 2, 5, 6))
                self.got.append(Delivery(begin, end, queue, offset, self.name, words[7]))

    def queues(self, now_ns: int) -> list[int]:
        """The queues of which it got messages just now."""
        self.read()
        return sorted({each.queue for each in self.got[-2 * PER_S :] if each.begin > now_ns - WINDOW_NS})


@dataclass(slots=True)
class Step:
    """A change: what, when it began and was done in nanoseconds, messages sent before, and who has what after it."""

    what: str
    began_ns: int
    sent: int
    done_ns: int = 0
    shares: Shares = field(default_factory=dict)


def blocks(names: Sequence[str], queues: int) -> Shares:
    """The queues of each member by RocketMQ's AVG."""
    size, more = divmod(queues, len(names))
    shares: Shares = {}
    first = 0
    for place, name in enumerate(sorted(names)):
        n = size + (place < more)
        shares[name] = list(range(first, first + n))
        first += n
    return shares


class Life:
    """One play of the script."""

    def __init__(self, broker: Broker, commands: dict[str, list[str]], logs: Path, stack: ExitStack) -> None:
        self.members: list[Member] = []
        self.steps: list[Step] = []
        self.wrong: list[str] = []
        self._broker = broker
        self._commands = commands
        self._logs = logs
        self._stack = stack
        self._running: list[Member] = []
        self._queues = QUEUES
        self._producer = Logged([*OURS, broker.name_server, "steady", TOPIC, str(QUEUES), str(PER_S)], logs / "sent")
        stack.callback(self._producer.process.kill)
        self._silent: list[Member] = []

    def play(self) -> None:
        """Make all changes, and after each wait until every queue has its member."""
        for what in STEPS:
            step = Step(what, time.time_ns(), len(self._sent()))
            self.steps.append(step)
            self._change(step)
            step.done_ns = step.done_ns or time.time_ns()
            if not self._settle(step):
                self.wrong.append(f"after the {what} ({len(self.steps)}) the queues are {step.shares}")
            pause(REST_S)

    def _sent(self) -> list[str]:
        """The acknowledged messages; other lines of the producer are warnings."""
        return [line for line in self._producer.log.read_text().splitlines() if line.isdigit()]

    def _change(self, step: Step) -> None:
        if step.what == "join":
            step.done_ns = self._join()
        elif step.what in ("leave", "kill"):
            self._running.pop(0).logged.end(kill=step.what == "kill")
        elif step.what == "silence":
            self._silent.append(self._running.pop(0))
            self._silent[0].logged.process.send_signal(signal.SIGSTOP)
        elif step.what == "waking":
            self._running.append(self._silent.pop())
            self._running[-1].logged.process.send_signal(signal.SIGCONT)
        elif step.what == "growth":
            scale = [*RLAB, "topic", "scale", TOPIC, "--queues", str(GROWN), "--namesrv", self._broker.name_server]
            subprocess.run(scale, check=True, stdout=subprocess.DEVNULL)
            self._queues = GROWN
            assert self._producer.process.stdin is not None
            self._producer.process.stdin.write(b"%d\n" % GROWN)
            self._producer.process.stdin.flush()
        elif step.what == "frozen broker":
            self._broker.freeze(FREEZE_S)
        else:
            self._broker.restart(moves=step.what.startswith("move"))

    def _join(self) -> int:
        """Start a member; returns when it was ready."""
        number = len(self.members)
        kind = list(self._commands)[number % len(self._commands)]
        name = f"member-{number:02}"
        here = [each.format(server=self._broker.name_server, name=name) for each in self._commands[kind]]
        member = Member(name, kind, here, self._logs / name)
        self._stack.callback(member.logged.process.kill)
        self.members.append(member)
        self._running.append(member)
        ready_by = _now_s() + BALANCED_S
        while not member.logged.ready_ns() and _now_s() < ready_by:
            pause(0.05)
        return member.logged.ready_ns()

    def _settle(self, step: Step) -> bool:
        """Wait until the members have got messages of their own queues only, for a moment."""
        expected = blocks([each.name for each in self._running], self._queues)
        until = _now_s() + BALANCED_S
        while _now_s() < until:
            now_ns = time.time_ns()
            step.shares = {each.name: each.queues(now_ns) for each in self._running}
            if step.shares == expected and now_ns > step.done_ns + WINDOW_NS:
                return True
            pause(0.1)
        return False

    def finish(self) -> tuple[int, int]:
        """Send no more, and wait for the last messages; returns how many were acknowledged, and how many are lost.

        The lost ones are named, with how many were sent when each step began.
        """
        self._producer.end(kill=False)
        sent = set(self._sent())
        until = _now_s() + LAST_S
        missing = sent
        while missing and _now_s() < until:
            pause(1)
            for member in self.members:
                member.read()
            missing = sent.difference(each.body for member in self.members for each in member.got)
        if missing:
            steps = ", ".join(f"{step.what} {step.sent}" for step in self.steps)
            self.wrong.append(f"lost of {len(sent)}: {sorted(map(int, missing))[:40]}; steps: {steps}")
        return len(sent), len(missing)

    # --- figures -----------------------------------------------------------------------------------------------------

    def figures(self) -> Outcome:
        """Of each kind of step the slowest balance, the longest pause of a queue, and the messages that came twice.

        A pause of more than a second is told with the kind of the member that ended it, and what of it the broker was
        down or frozen.
        """
        got = sorted(each for member in self.members for each in member.got)
        kinds = {member.name: member.kind for member in self.members}
        gaps, again = _gaps(got), _again(got)
        found: dict[str, list[tuple[float, tuple[int, str], int]]] = {}
        down_s: dict[str, float] = {}
        ends = [*(step.began_ns for step in self.steps[1:]), time.time_ns()]
        for number, (step, end_ns) in enumerate(zip(self.steps, ends, strict=True)):
            balanced_s = self._balanced_s(step, _between(got, step.done_ns, end_ns))
            longest = max(
                ((gap, kinds[name]) for at, gap, name in gaps if step.began_ns < at <= end_ns), default=(0, "")
            )
            twice = sum(step.began_ns < at <= end_ns for at in again)
            if number:  # at the first join there is nobody to take over from
                found.setdefault(step.what, []).append((balanced_s, longest, twice))
            if "broker" in step.what:
                down_s[step.what] = (step.done_ns - step.began_ns) / 1e9
        outcome = {}
        for what, each in found.items():
            slowest, (pause_ns, kind), twice = (
                max(b for b, *_ in each),
                max(p for _, p, _ in each),
                sum(t for *_, t in each),
            )
            notes = [kind] if pause_ns > 1e9 and len(self._commands) > 1 else []
            notes += [f"{down_s[what]:.1f} s of it down"] if what in down_s else []
            note = f" ({', '.join(notes)})" if notes else ""
            outcome[f"{what}: balanced, pause, twice"] = f"{slowest:.1f} s, {pause_ns / 1e9:.1f} s{note}, {twice}"
        return outcome

    @staticmethod
    def _balanced_s(step: Step, got: list[Delivery]) -> float:
        """Until every queue's messages came to its member alone, from when the change was done."""
        owners = {queue: name for name, queues in step.shares.items() for queue in queues}
        first: dict[int, int] = {}
        last = step.done_ns
        for each in got:
            if owners.get(each.queue) == each.name:
                first.setdefault(each.queue, each.begin)
            else:
                last = max(last, each.begin)
        return (max([last, *first.values()]) - step.done_ns) / 1e9

    def order(self) -> Outcome:
        """How many messages came before an earlier one of their queue, and how long a queue was with two members.

        A call that takes a second is that of a stopped process: it does not run in that time.
        """
        got = sorted(each for member in self.members for each in member.got)
        highest: dict[int, int] = {}
        busy: dict[int, Delivery] = {}
        late, both_ns = 0, 0
        for each in got:
            late += highest.get(each.queue, -1) + 1 < each.offset
            highest[each.queue] = max(each.offset, highest.get(each.queue, -1))
            before = busy.get(each.queue)
            if before is not None and before.name != each.name and before.end - before.begin < 1e9:
                both_ns += max(0, min(before.end, each.end) - each.begin)
            if before is None or each.end > before.end:
                busy[each.queue] = each
        return {"messages before an earlier one": str(late), "a queue with two members": f"{both_ns / 1e6:.0f} ms"}


def _between(got: list[Delivery], begin_ns: int, end_ns: int) -> list[Delivery]:
    return got[bisect_left(got, (begin_ns,)) : bisect_left(got, (end_ns,))]


def _gaps(got: list[Delivery]) -> list[tuple[int, int, str]]:
    """Each time between two messages of a queue, with the moment at which it ended, and at whom."""
    by_queue: dict[int, list[Delivery]] = {}
    for each in got:
        by_queue.setdefault(each.queue, []).append(each)
    return [(two.begin, two.begin - one.begin, two.name) for calls in by_queue.values() for one, two in pairwise(calls)]


def _again(got: list[Delivery]) -> list[int]:
    """The moments at which messages came that had come before."""
    seen: set[tuple[int, int]] = set()
    moments = []
    for each in got:
        if (each.queue, each.offset) in seen:
            moments.append(each.begin)
        seen.add((each.queue, each.offset))
    return moments


def life(
    commands: dict[str, list[str]], brokers: Brokers, logs: Path, *, ordered: bool = False
) -> tuple[Outcome, list[Shares], list[str]]:
    """Play the script with members of these kinds in turn.

    Returns what was seen, who had which queues after each step, and what was wrong.
    """
    with brokers() as broker, ExitStack() as stack:
        create = [*RLAB, "topic", "create", TOPIC, "--queues", str(QUEUES), "--namesrv", broker.name_server]
        subprocess.run(create, check=True, stdout=subprocess.DEVNULL)
        played = Life(broker, commands, logs, stack)
        played.play()
        sent, lost = played.finish()
        outcome = played.figures()
        outcome |= played.order() if ordered else {}
        outcome["messages lost"] = f"{lost} of {sent:,}"
        return outcome, [step.shares for step in played.steps], played.wrong


def commands_of(java: list[str], *kinds: str, ordered: bool = False) -> dict[str, list[str]]:
    """The commands of members, with places for the address of the name server and for the member's name."""
    order = ("orderly", "queue") if ordered else ("concurrent", "none")
    every = {
        "stock": [*java, "Member", "{server}", GROUP, TOPIC, order[0], "1", "{name}"],
        "ours": [*OURS, "{server}", GROUP, TOPIC, order[1], "{name}"],
    }
    return {kind: every[kind] for kind in kinds}
