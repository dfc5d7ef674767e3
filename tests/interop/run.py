"""Real clients of RocketMQ against real brokers of this project: `make interop`.

It gets the clients from their registries, compiles the programs beside it, starts `rlab` processes, and prints a table
of client x feature, of which every cell was run. A language whose tools are not on this machine is left out, with a
line that says so. With the argument `features` or `mixed` it runs one part, with the name of a client (`java-4.9.8`,
`java-5.3.3`, `go`) only that one; with `docs` it writes the columns that were run into docs/rocketmq.md.

Then one group has members of both kinds, of which some are killed: no message may be lost, and no queue may have two
owners, by the begin and end of each call that the listeners log themselves.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "rocketmq.md"
BEGIN, END = "<!-- interop: client x feature -->", "<!-- end -->"
RLAB = str(Path(sys.executable).with_name("rlab"))
JAVA_VERSIONS = ("4.9.8", "5.3.3")
JAVA_FLAGS = ("-Drocketmq.client.logLevel=ERROR", "-Xmx256m", "-XX:TieredStopAtLevel=1")
MESSAGES, MEMBERS = 20_000, 2
TIMEOUT_S = 280
OURS = [sys.executable, str(HERE / "member.py")]
MQADMIN = "org.apache.rocketmq.tools.command.MQAdminStartup"
_CLUSTER, _TOPIC, _GROUP = ("-c", "DefaultCluster"), ("-t", "tools"), ("-g", "reader")
ADMIN: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("clusterList", (), r"DefaultCluster +broker-a +0 +127\.0\.0\.1"),
    ("updateTopic", (*_CLUSTER, *_TOPIC, "-r", "2", "-w", "2"), "create topic to .* success"),
    ("topicList", (), r"(?m)^tools\s*$"),
    ("topicRoute", _TOPIC, '"writeQueueNums": ?2'),
    ("sendMessage", (*_TOPIC, "-p", "hello", "-k", "k1", "-c", "red", "-b", "broker-a", "-i", "1"), "SEND_OK"),
    ("topicStatus", _TOPIC, r"broker-a +1 +0 +1\b"),
    ("updateSubGroup", (*_CLUSTER, *_GROUP, "-r", "5"), "create subscription group to .* success"),
    ("consumerConnection", _GROUP, "(?s)PYTHON.*tools +\\*"),
    ("consumerProgress", _GROUP, r"tools +broker-a +1 +1 +1 +0"),
    ("queryMsgByKey", (*_TOPIC, "-k", "k1"), r"(?m)^\w{32,} +1 +0\s*$"),
    ("queryMsgByUniqueKey", (*_TOPIC, "-i", "{id}"), r"(?s)Tags: +\[red\].*CONSUMED"),
    ("resetOffsetByTime", (*_GROUP, *_TOPIC, "-s", "2020-01-01#00:00:00:000"), r"broker-a +1 +0"),
    ("deleteSubGroup", (*_CLUSTER, *_GROUP), "delete subscription group .* success"),
    ("deleteTopic", (*_CLUSTER, *_TOPIC), "(?s)from cluster .* success.*from NameServer success"),
    ("wipeWritePerm", ("-b", "broker-a"), r"wipe write perm of broker\[broker-a\].* OK"),
)
"""Commands of RocketMQ's tool, and what each has to print; a consumer of ours is in the group up to the reset."""
DIED = 9
"""What a member exits with that dies in a transaction."""


pause = threading.Event().wait


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


class Daemons:
    """`rlab` processes of one cluster."""

    def __init__(self, directory: Path, brokers: int) -> None:
        self.processes: list[subprocess.Popen[bytes]] = []
        self.name_server = self._start("namesrv", "--listen", "127.0.0.1:0")
        for n in range(brokers):
            name = f"broker-{'ab'[n]}"
            flags = ("--name", name, "--listen", "127.0.0.1:0", "--data", str(directory / name))
            self._start("broker", *flags, "--namesrv", self.name_server)

    def _start(self, *command: str) -> str:
        process = subprocess.Popen([RLAB, *command, "--json"], stdout=subprocess.PIPE)
        self.processes.append(process)
        assert process.stdout is not None
        return str(json.loads(process.stdout.readline())["address"])

    def stop(self) -> None:
        """Stop all of them."""
        for process in reversed(self.processes):
            process.terminate()
            process.wait()


@contextmanager
def cluster(brokers: int) -> Iterator[str]:
    """Run a name server and brokers; yields the address of the name server."""
    with tempfile.TemporaryDirectory() as directory:
        daemons = Daemons(Path(directory), brokers)
        try:
            yield daemons.name_server
        finally:
            daemons.stop()


def java_of(version: str, directory: Path) -> list[str] | None:
    """The command that runs a program with this version of the client; None if it cannot be had."""
    missing = [tool for tool in ("mvn", "javac", "java") if shutil.which(tool) is None]
    if missing:
        say(f"Java {version} is left out: {', '.join(missing)} is not on this machine")
        return None
    jars, classes = directory / "jars", directory / "classes"
    get = ["mvn", "-q", "-B", "-f", str(HERE / "java" / "pom.xml"), f"-Drocketmq.version={version}"]
    done = subprocess.run(
        [*get, "dependency:copy-dependencies", f"-DoutputDirectory={jars}"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        say(f"Java {version} is left out: its jars could not be had: {(done.stdout + done.stderr).strip()[-200:]}")
        return None
    sources = [str(source) for source in sorted((HERE / "java").glob("*.java"))]
    subprocess.run(["javac", "-nowarn", "-cp", f"{jars}/*", "-d", str(classes), *sources], check=True)
    return ["java", *JAVA_FLAGS, "-cp", f"{classes}:{jars}/*"]


def go_client(directory: Path) -> list[str] | None:
    """The program of the Go client; None if it cannot be had."""
    go = shutil.which("go") or shutil.which("/usr/local/go/bin/go")
    if go is None:
        say("Go is left out: go is not on this machine")
        return None
    shutil.copytree(HERE / "go", directory)
    environment = {**os.environ, "GOFLAGS": "-mod=mod"}
    done = subprocess.run([go, "build", "-o", "features", "."], cwd=directory, env=environment, check=False)
    if done.returncode:
        say("Go is left out: its client could not be had")
        return None
    return [str(directory / "features")]


def features_of(program: list[str], transactions: list[str]) -> dict[str, str]:
    """Run every feature; name -> `ok` or what was wrong. `transactions` begins some and dies, or answers checks."""
    with cluster(1) as name_server:
        output = subprocess.run([*program, name_server], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        stood_in = {
            "transaction: answers for one of ours": stands_in(name_server, begins=OURS, answers=transactions),
            "transaction: one of ours answers for it": stands_in(name_server, begins=transactions, answers=OURS),
        }
    rows = (line.split("\t") for line in output.stdout.splitlines() if line.startswith("feature\t"))
    found = {name: outcome for _, name, outcome in rows}
    if output.returncode or not found:
        say(output.stdout[-500:] + output.stderr[-500:])
    return found | stood_in


def admin_of(tool: list[str]) -> dict[str, str]:
    """Run every command of the tool; name -> `ok` or what it said."""
    found: dict[str, str] = {}
    sent = ""
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
                pause(8)
            if name == "deleteSubGroup" and reader is not None:
                reader.communicate(timeout=30)
            command = [
                tool[0],
                f"-Drocketmq.home.dir={home}",
                *tool[1:],
                name,
                *(each.format(id=sent) for each in options),
                "-n",
                name_server,
            ]
            said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
            found[f"mqadmin {name}"] = (
                "ok" if re.search(expected, said.stdout) else " ".join(said.stdout.split())[-200:]
            )
            sent = match[1] if (match := re.search(r"SEND_OK +(\w+)", said.stdout)) else sent
    return found


def stands_in(name_server: str, *, begins: list[str], answers: list[str]) -> str:
    """One member of a producer group dies in a transaction, another one is asked; returns `ok` or what was wrong."""
    group = "-then-".join(Path(each[0]).stem for each in (begins, answers))
    arguments = (group, f"topic-{group}")
    with subprocess.Popen([*answers, name_server, "answer", *arguments], stdin=subprocess.PIPE) as process:
        died = subprocess.run([*begins, name_server, "begin", *arguments], timeout=60, check=False)
        take = [RLAB, "consume", arguments[1], "--group", group, "--from", "earliest", "--count", "1", "--wait"]
        got = subprocess.run(
            [*take, "--timeout", "60", "--namesrv", name_server], capture_output=True, text=True, check=False
        )
        process.kill()
    if died.returncode != DIED:
        return f"it did not die in its transaction: {died.returncode}"
    return "ok" if "half" in got.stdout else "the message did not come"


def table_in(page: str) -> dict[str, dict[str, str]]:
    """The table of the page: client -> feature -> outcome."""
    lines = page.partition(BEGIN)[2].partition(END)[0].strip().splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    if not rows:
        return {}
    clients, features = rows[0][1:], rows[2:]
    return {client: {row[0]: row[n] for row in features} for n, client in enumerate(clients, 1)}


def table_of(found: dict[str, dict[str, str]]) -> str:
    """A table of Markdown: a row for each feature, a column for each client."""
    names = dict.fromkeys(name for outcomes in found.values() for name in outcomes)
    lines = ["| feature | " + " | ".join(found) + " |", "|---" * (len(found) + 1) + "|"]
    for name in names:
        lines.append(f"| {name} | " + " | ".join(outcomes.get(name, "not run") for outcomes in found.values()) + " |")
    return "\n".join(lines)


# --- one group of both kinds ------------------------------------------------------------------------------------------


class Logged:
    """A member in a process, whose standard output goes to a file."""

    def __init__(self, command: list[str], log: Path) -> None:
        self.log = log
        with log.open("wb") as file:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=file, stderr=subprocess.STDOUT)

    def calls(self) -> Iterator[tuple[int, int, str, int, str]]:
        """Begin and end in nanoseconds, queue, offset and body of each message that its listener got."""
        for line in self.log.read_text(errors="replace").splitlines():
            if match := re.fullmatch(r"m (\d+) (\d+) (\S+ \S+ \d+) (\d+) (\S+)", line):
                yield int(match[1]), int(match[2]), match[3], int(match[4]), match[5]

    def end(self, *, kill: bool) -> None:
        """Stop it by closing its standard input, or kill it."""
        if kill:
            self.process.kill()
        elif self.process.stdin is not None:
            self.process.stdin.close()
        self.process.wait(30)


def mixed(java: list[str], directory: Path) -> list[str]:
    """A group of both kinds under churn; returns what was wrong."""
    with cluster(2) as name_server, ExitStack() as stack:
        subprocess.run([RLAB, "topic", "create", "mixed", "--queues", "8", "--namesrv", name_server], check=True)
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

        running = [start(kind) for _ in range(MEMBERS) for kind in commands]
        pause(8)
        producer = subprocess.Popen(
            [sys.executable, str(HERE / "member.py"), name_server, "produce", "mixed", str(MESSAGES)]
        )
        stack.callback(producer.kill)
        for n in range(4):
            pause(5)
            kind = ("stock", "ours")[n % 2]
            running.pop(n % 2).end(kill=n < 2)
            running.append(start(kind))
        producer.wait(TIMEOUT_S)
        return judged(members, running)


def judged(members: list[Logged], running: list[Logged]) -> list[str]:
    """Wait until everything has come, and say what was wrong."""
    bodies: set[str] = set()
    for _ in range(45):
        if len(bodies) == MESSAGES:
            break
        pause(2)
        bodies = {body for member in members for *_, body in member.calls()}
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


def main(arguments: list[str]) -> int:
    """Run everything; 1 if a cell failed."""
    os.environ.pop("RLAB_NAMESRV", None)
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        directory, found = Path(name), dict[str, dict[str, str]]()
        clients = {*(f"java-{version}" for version in JAVA_VERSIONS), "go"}
        wanted = clients & {*arguments} or clients
        for version in JAVA_VERSIONS:
            if f"java-{version}" not in wanted:
                continue
            java = java_of(version, directory / version)
            if java is None:
                continue
            if "mixed" not in arguments:
                outcomes = features_of([*java, "Features"], [*java, "Transactions"]) | admin_of([*java, MQADMIN])
                found[f"Java {version}"] = outcomes
                wrong += [f"Java {version}: {name}: {each}" for name, each in outcomes.items() if each != "ok"]
            if "features" not in arguments:
                logs = directory / f"mixed-{version}"
                logs.mkdir()
                wrong += [f"Java {version} with members of ours: {each}" for each in mixed(java, logs)]
        go = None if "mixed" in arguments or "go" not in wanted else go_client(directory / "go")
        if go is not None:
            found["Go 2.1.2"] = outcomes = features_of(go, go)
            wrong += [f"Go: {name}: {each}" for name, each in outcomes.items() if each != "ok"]
    table = table_of(found)
    say("\n".join((table, *wrong)))
    if "docs" in arguments and found:
        page = PAGE.read_text()
        before, _, rest = page.partition(BEGIN)
        table = table_of(table_in(page) | found)
        PAGE.write_text(before + BEGIN + "\n" + table + "\n" + END + rest.partition(END)[2])
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
