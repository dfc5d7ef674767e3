"""One group with members of both kinds on a broker with copies, whose master is killed under load.

The listeners log each call, and the producer each acknowledged message: none may be lost, our members go on when
another replica is the master, and RocketMQ's at their next poll of routes, 30 s later at most.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from tests.interop.clients import OURS
from tests.interop.mixed import Logged
from tests.interop.servers import RLAB, Daemons, pause, say

QUEUES, PER_S = 8, 200
STEADY_S, AFTER_S, LEFT_S = 10, 45, 90
"""How long the group consumes before the kill and after it, and how long it is waited for the rest at the end."""
OVER_S, STOCK_OVER_S = 8.0, 45.0
"""When our members and stock ones have to go on: some seconds after the election, and after a poll of routes."""


def failover(java: list[str], directory: Path) -> list[str]:
    """Kill the master of a group of both kinds; returns what was wrong."""
    with ExitStack() as stack:
        servers = Daemons(directory, 0, namesrv=("--elections", str(directory / "elections")))
        stack.callback(servers.stop)
        names = servers.name_server
        first, copies = directory / "one", ("--name", "broker-a", "--copies", "2")
        master = servers.start("broker", *copies, "--data", str(first), "--namesrv", names)
        servers.start("broker", "--replica-of", "broker-a", "--data", str(directory / "two"), "--namesrv", names)
        create = [*RLAB, "topic", "create", "failover", "--queues", str(QUEUES), "--namesrv", names]
        subprocess.run(create, check=True)
        commands = {
            "stock": [*java, "Member", names, "both", "failover", "concurrent", "1"],
            "ours": [*OURS, names, "both", "failover", "none"],
        }
        members = {
            f"{kind}-{n}": Logged(commands[kind], directory / f"{kind}-{n}.log") for kind in commands for n in (1, 2)
        }
        for member in members.values():
            stack.callback(member.process.kill)
        producer = Logged([*OURS, names, "steady", "failover", str(QUEUES), str(PER_S)], directory / "producer.log")
        stack.callback(producer.process.kill)
        pause(STEADY_S)
        wrong = [
            f"{name} got no message before the kill" for name, member in members.items() if not any(member.calls())
        ]
        killed = time.time_ns()
        master.kill()
        pause(AFTER_S)
        producer.end(kill=False)
        return wrong + judged(members, producer, killed)


def judged(members: dict[str, Logged], producer: Logged, killed: int) -> list[str]:
    """Wait until every acknowledged message has come, and return what was wrong."""
    acknowledged = {line for line in producer.log.read_text().splitlines() if line.isdigit()}
    lost = acknowledged
    for _ in range(LEFT_S):
        lost = acknowledged - {body for member in members.values() for *_, body in member.calls()}
        if not lost:
            break
        pause(1)
    wrong = [f"{len(lost)} of {len(acknowledged)} acknowledged messages are lost"] if lost else []
    say(f"failover: {len(acknowledged)} messages acknowledged, {len(lost)} lost")
    for name, member in members.items():
        begun = sorted(begin for begin, *_ in member.calls() if begin > killed)
        longest = max((late - early for early, late in zip([killed, *begun], begun, strict=False)), default=None)
        said = f"{name} was without messages for {'ever' if longest is None else f'{longest / 1e9:.1f} s'}"
        say(said)
        if longest is None or longest / 1e9 > (STOCK_OVER_S if name.startswith("stock") else OVER_S):
            wrong.append(said)
    return wrong


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as logs:
        sys.exit("\n".join(failover(sys.argv[1:], Path(logs))))
