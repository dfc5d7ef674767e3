"""Runs the features of one client, transactions that it and a producer of ours end for each other, and `mqadmin`."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import IO

from tests.interop.clients import OURS
from tests.interop.servers import RLAB, Servers, cluster, pause, say

TIMEOUT_S = 600
_CLUSTER, _TOPIC, _GROUP = ("-c", "DefaultCluster"), ("-t", "tools"), ("-g", "reader")
ADMIN: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("clusterList", (), r"DefaultCluster +broker-a +0 +127\.0\.0\.1"),
    ("updateTopic", (*_CLUSTER, *_TOPIC, "-r", "2", "-w", "2"), "create topic to .* success"),
    ("topicList", (), r"(?m)^tools\s*$"),
    ("topicRoute", _TOPIC, '"writeQueueNums": ?2'),
    ("sendMessage", (*_TOPIC, "-p", "hello", "-k", "k1", "-c", "red", "-b", "broker-a", "-i", "1"), "SEND_OK"),
    ("topicStatus", _TOPIC, r"broker-a +1 +0 +1 +20\d\d-"),
    ("updateSubGroup", (*_CLUSTER, *_GROUP, "-r", "5"), "create subscription group to .* success"),
    ("consumerConnection", _GROUP, "(?s)PYTHON.*tools +\\*"),
    ("consumerProgress", _GROUP, r"tools +broker-a +1 +1 +1 +0 .*20\d\d-"),
    ("brokerConsumeStats", ("-b", "{broker}"), r"tools +reader +broker-a +1 +1 +1 +0 +20\d\d-"),
    ("brokerStatus", ("-b", "{broker}"), r"(?m)^brokerActive +: true"),
    ("statsAll", (), r"tools +(reader|stock) +0 +0\.00"),
    ("consumerStatus", ("-g", "stock"), r"(?m)^0*1 +\S+@\S+ +V\w+ +\d+/\S+"),
    ("producerConnection", ("-g", "CLIENT_INNER_PRODUCER", *_TOPIC), r"(?s)@.*127\.0\.0\.1:\d+"),
    ("queryMsgByKey", (*_TOPIC, "-k", "k1"), r"(?m)^\w{32,} +1 +0\s*$"),
    ("queryMsgByUniqueKey", (*_TOPIC, "-i", "{id}"), r"(?s)Tags: +\[red\].*CONSUMED"),
    ("queryMsgByOffset", (*_TOPIC, "-b", "broker-a", "-i", "1", "-o", "0"), r"(?s)Tags: +\[red\].*CONSUMED"),
    ("queryMsgById", ("-i", "{offset_id}"), r"(?s)Tags: +\[red\].*CONSUMED"),
    ("queryMsgByUniqueKey to a member", (*_TOPIC, "-i", "{id}", "-g", "stock", "-d", "{client}"), "CR_SUCCESS"),
    ("resetOffsetByTime", (*_GROUP, *_TOPIC, "-s", "2020-01-01#00:00:00:000"), r"broker-a +1 +0"),
    ("deleteSubGroup", (*_CLUSTER, *_GROUP), "delete subscription group .* success"),
    ("deleteTopic", (*_CLUSTER, *_TOPIC), "(?s)from cluster .* success.*from NameServer success"),
    ("wipeWritePerm", ("-b", "broker-a"), r"wipe write perm of broker\[broker-a\].* OK"),
)
"""Commands of RocketMQ's tool, and what each has to print; a consumer of ours is in the group up to the reset."""
_DISCOVERY = {
    "id": r"SEND_OK +(\w+)",
    "broker": r"broker-a +0 +([\d.]+:\d+)",
    "client": r"(?m)^0*1 +(\S+@\S+) +V",
    "offset_id": r"OffsetID: +(\w+)",
}
"""What later commands are given -> where an earlier one has said it."""
_SINCE_5 = {"queryMsgById": _TOPIC}
"""Options that the tool of 5 demands, and that of 4.9 does not know."""
RESET_MESSAGES = 40
DIED = 9
"""What a member exits with that dies in a transaction."""


def features_of(program: list[str], servers: Servers, *only: str) -> dict[str, str]:
    """Run every feature, or those whose names have a text in them; name -> `ok` or what was wrong."""
    with servers() as name_server:
        output = subprocess.run(
            [*program, name_server, *only], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    rows = (line.split("\t") for line in output.stdout.splitlines() if line.startswith("feature\t"))
    found = {name: outcome for _, name, outcome in rows}
    if output.returncode or not found:
        say(output.stdout[-500:] + output.stderr[-500:])
    return found


def transactions_of(program: list[str]) -> dict[str, str]:
    """Let the client and a producer of ours end a transaction that the other one has begun."""
    with cluster() as name_server:
        return {
            "transaction: answers for one of ours": stands_in(name_server, begins=OURS, answers=program),
            "transaction: one of ours answers for it": stands_in(name_server, begins=program, answers=OURS),
        }


def reset_of(command: Callable[[str, str, str], list[str]]) -> dict[str, str]:
    """Reset the offsets of a group while the client consumes; `command` gets name server, group and topic."""
    with cluster() as name_server, tempfile.TemporaryFile() as log, ExitStack() as stack:
        to = ("--namesrv", name_server)
        subprocess.run([*RLAB, "topic", "create", "again", "--queues", "4", *to], check=True, capture_output=True)
        process = subprocess.Popen(command(name_server, "g-again", "again"), stdin=subprocess.PIPE, stdout=log)
        stack.callback(process.kill)
        pause(15)  # some clients rebalance every 10 s, and begin at the end of a queue
        subprocess.run([*OURS, name_server, "produce", "again", str(RESET_MESSAGES), "1000"], check=True)
        if not _came(log, RESET_MESSAGES):
            return {"reset while it consumes": "not every message came"}
        pause(6)  # until it has committed them
        subprocess.run(
            [*RLAB, "group", "reset", "g-again", "again", "--to", "earliest", *to], check=True, capture_output=True
        )
        wrong = "" if _came(log, 2 * RESET_MESSAGES) else "not every message came again"
        pause(12)  # commits of before would come now
        show = subprocess.run([*RLAB, "group", "show", "g-again", "--json", *to], capture_output=True, check=True)
        lag = sum(row["lag"] for row in json.loads(show.stdout)["queues"])
        wrong = wrong or (f"{lag} messages are not committed" if lag else "")
        wrong = wrong or ("" if _came(log, 2 * RESET_MESSAGES, exactly=True) else "messages came a third time")
    return {"reset while it consumes": wrong or "ok"}


def _came(log: IO[bytes], n: int, *, exactly: bool = False) -> bool:
    """Wait until a consumer has logged so many messages."""
    for _ in range(1 if exactly else 120):
        log.seek(0)
        lines = sum(line.startswith(b"m ") for line in log.read().splitlines())
        if lines == n or (lines > n and not exactly):
            return True
        pause(0.5)
    return False


def admin_of(tool: list[str], *, is_5: bool) -> dict[str, str]:
    """Run every command of the tool; name -> `ok` or what it said."""
    found: dict[str, str] = {}
    learned: dict[str, str] = defaultdict(str)
    with cluster(1) as name_server, ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (home / "conf").mkdir()
        (home / "conf" / "logback_tools.xml").write_text("<configuration/>")  # that of 4.9 does not start without it
        reader: subprocess.Popen[bytes] | None = None
        for name, options, expected in ADMIN:
            if name == "consumerConnection":
                command = [*OURS, name_server, "reader", "tools"]
                reader = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
                stack.callback(reader.kill)
                command = [*tool[:-1], "Member", name_server, "stock", "tools", "concurrent", "0"]
                stock = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
                stack.callback(stock.kill)
                pause(12)
            if name == "deleteSubGroup" and reader is not None:
                reader.communicate(timeout=30)
            more = _SINCE_5.get(name, ()) if is_5 else ()
            command = [
                tool[0],
                f"-Drocketmq.home.dir={home}",
                *tool[1:],
                name.split()[0],
                *(each.format_map(learned) for each in (*options, *more)),
                "-n",
                name_server,
            ]
            said = subprocess.run(command, cwd=home, capture_output=True, text=True, timeout=60, check=False)
            found[f"mqadmin {name}"] = (
                "ok"
                if re.search(expected, said.stdout)
                else " ".join((said.stdout + said.stderr).split())[-200:] or "it said nothing"
            )
            matches = ((word, re.search(pattern, said.stdout)) for word, pattern in _DISCOVERY.items())
            learned |= {word: match[1] for word, match in matches if match is not None}
    return found


def stands_in(name_server: str, *, begins: list[str], answers: list[str]) -> str:
    """One member of a producer group dies in a transaction, another one is asked; returns `ok` or what was wrong."""
    group = "-then-".join(Path(each[0]).stem for each in (begins, answers))
    arguments = (group, f"topic-{group}")
    with subprocess.Popen([*answers, name_server, "answer", *arguments], stdin=subprocess.PIPE) as process:
        died = subprocess.run([*begins, name_server, "begin", *arguments], timeout=60, check=False)
        take = [*RLAB, "consume", arguments[1], "--group", group, "--from", "earliest", "--count", "1", "--wait"]
        got = subprocess.run(
            [*take, "--timeout", "60", "--namesrv", name_server], capture_output=True, text=True, check=False
        )
        process.kill()
    if died.returncode != DIED:
        return f"it did not die in its transaction: {died.returncode}"
    return "ok" if "half" in got.stdout else "the message did not come"
