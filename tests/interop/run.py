"""Real clients of RocketMQ against real servers, of this project and of RocketMQ: `make interop`.

It gets clients and servers from their registries, compiles the programs beside it, starts processes, and runs every
client on every kind of servers, feature by feature; what a client cannot have is left out with a line. Then it sends
at full speed to our brokers and to RocketMQ's in turns. One group has members of both kinds, some of which are killed
(`mixed.py`), and another one a broker with copies whose master is killed (`failover.py`). The other way round, our
client does its features on RocketMQ's servers (`ours.py`), and groups of Java's members, of ours and of both live the
same life there and here (`life.py`).

Arguments choose: parts (`features`, `grpc`, `grpc-speed`, `admin`, `speed`, `mixed`, `failover`, `junit`, `outward`,
`life`, `rates`, `rights`), clients (`java-4.9.8`, `java-5.3.3`, `go`, `cpp`, `node`, over gRPC `py5`, `node5`,
`java5`, `java5-tls`, `go5`, `go5-tls`), servers (`ours`, `4.9.7`, `5.3.3`) and lives (`stock`, `both`, `alone`,
`order`); without one of a sort, all of it. `docs` writes the tables into the page. RECORD=1 writes frames for `make
test` instead (`tap.py`).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median

from tests.interop import tables
from tests.interop.clients import JAVA_VERSIONS, MQADMIN, cpp_client, go_client, java_of, node_client
from tests.interop.failover import failover
from tests.interop.features import admin_of, features_of, reset_of, transactions_of
from tests.interop.grpc import run as grpc
from tests.interop.grpc import speed as grpc_speed
from tests.interop.grpc.access import IN_LOG, users_over_grpc
from tests.interop.grpc.record import record
from tests.interop.life import Shares, commands_of, life
from tests.interop.mixed import mixed
from tests.interop.rates import rates
from tests.interop.rights import rights_of
from tests.interop.servers import (
    ROCKETMQ_VERSIONS,
    Brokers,
    Servers,
    broker_of_ours,
    broker_of_rocketmq,
    cluster,
    jars_of,
    rocketmq,
    say,
)
from tests.interop.tap import Recorder

PARTS = (
    *("features", "grpc", "grpc-speed", "admin", "speed", "mixed", "failover", "junit", "outward", "life", "rates"),
    "rights",
)
EXAMPLE = Path(__file__).parents[2] / "examples" / "java" / "pom.xml"
OURS = "rebalance-lab"
NEWEST, NEWEST_CLIENT = ROCKETMQ_VERSIONS[-1], f"java-{JAVA_VERSIONS[-1]}"
SPEED_S, TURNS, GOAL = 8, 3, 0.8
LIVES = {"stock": ("stock",), "both": ("stock", "ours"), "alone": ("ours",), "order": ("stock", "ours")}
"""Argument -> the kinds of members that join in turns: RocketMQ's client for Java, and ours."""
EQUAL = "steps with the queues of Java's members alone"
AT_ONCE, LIVES_AT_ONCE = 4, 2
Command = list[str]
"""A program that runs the features of a client on the name server in its last argument."""


class Run:
    """One run: what was asked for, and what it has found."""

    def __init__(self, arguments: list[str], directory: Path) -> None:
        self.wrong: list[str] = []
        self.features: tables.Table = {}
        self.grpc: dict[str, tables.Table] = {}
        self.grpc_sends: tables.Table = {}
        self.pairs: tables.Table = {}
        self.outward: tables.Table = {}
        self.lives: dict[str, tables.Table] = {}
        self.rates: tables.Table = {}
        self._arguments = arguments
        self._directory = directory
        self._jars: dict[str, str | None] = {}
        self._programs: dict[str, Command | None] = {}

    def chosen(self, *names: str) -> list[str]:
        """Those of the names that were asked for; all of them if none was."""
        return [name for name in names if name in self._arguments] or list(names)

    def client(self, name: str) -> Command | None:
        """The program of a client, which is got once."""
        if name not in self._programs:
            self._programs[name] = _CLIENTS[name][1](self._directory / name)
        return self._programs[name]

    def servers(self, name: str) -> Servers | None:
        """Servers by name, which are got once; None if they cannot be had."""
        if name == "ours":
            return cluster
        jars = self._jars_of_servers(name)
        return None if jars is None else partial(rocketmq, jars)

    def brokers(self, name: str) -> Brokers | None:
        """The same with a broker that can be killed and moved."""
        if name == "ours":
            return broker_of_ours
        jars = self._jars_of_servers(name)
        return None if jars is None else partial(broker_of_rocketmq, jars)

    def _jars_of_servers(self, version: str) -> str | None:
        if version not in self._jars:
            self._jars[version] = jars_of("servers.xml", version, self._directory / f"servers-{version}")
        return self._jars[version]

    def run_features(self) -> None:
        """Every client on every kind of servers, a few at a time: they wait more than they compute."""
        pairs: list[tuple[str, Command, str, Servers]] = []
        for client in self.chosen(*_CLIENTS):
            program = self.client(client)
            for name in self.chosen("ours", *ROCKETMQ_VERSIONS) if program is not None else ():
                if program is not None and (servers := self.servers(name)) is not None:
                    pairs.append((client, program, name, servers))
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for _ in pool.map(lambda pair: self._run_pair(*pair), pairs):
                pass

    def _run_pair(self, client: str, program: Command, name: str, servers: Servers) -> None:
        title = _CLIENTS[client][0]
        found = features_of(_main(program, "Features"), servers)
        if name == "ours":
            if client not in ("cpp", "node"):
                found |= transactions_of(_main(program, "Transactions"))
            found |= reset_of(partial(_consuming, program))
            self._note(client, found)
        column = OURS if name == "ours" else f"RocketMQ {name}"
        self.pairs.setdefault(column, {})[title] = tables.summary(found)
        say(f"{title} on {column}: {self.pairs[column][title]}")

    def _note(self, client: str, found: dict[str, str]) -> None:
        """Take up what a client has said on our brokers."""
        title = _CLIENTS[client][0]
        self.features.setdefault(title, {}).update(found)
        self.wrong += [f"{title}: {feature}: {each}" for feature, each in found.items() if each != "ok"]

    def run_grpc(self) -> None:
        """The clients of RocketMQ 5 on our servers, all at once, and one by one on RocketMQ's with its proxy.

        At once there, no transaction that a client had committed was delivered to it.
        """
        got = {name: grpc.CLIENTS[name][1](self._directory / name) for name in self.chosen(*grpc.CLIENTS)}
        programs = {name: program for name, program in got.items() if program is not None}
        differing = grpc.differing_fields(programs["py5"]) if "py5" in programs else ()
        self.wrong += [f"{grpc.PYTHON} has another field: {each}" for each in differing]
        for servers in self.chosen("ours", grpc.PROXY_VERSION):
            endpoints = self._endpoints(servers)
            if endpoints is None:
                continue
            where = OURS if servers == "ours" else f"RocketMQ {servers} with its proxy"
            with endpoints() as endpoint, ThreadPoolExecutor(AT_ONCE if servers == "ours" else 1) as pool:
                runs = {name: pool.submit(grpc.features_over_grpc, programs[name], endpoint, name) for name in programs}
            for name, run in runs.items():
                title, found = grpc.CLIENTS[name][0], run.result()
                self.grpc.setdefault(where, {})[title] = found
                if servers == "ours":
                    found |= users_over_grpc(programs[name])
                    others = {feature: each for feature, each in found.items() if each not in ("ok", IN_LOG)}
                    self.wrong += [f"{title}: {feature}: {each}" for feature, each in others.items()]
                say(f"{title} over gRPC on {where}: {tables.summary(found)}")

    def run_grpc_speed(self) -> None:
        """Sends of the gRPC client for Java, to ours and to RocketMQ's with its proxy."""
        program, theirs = grpc.CLIENTS["java5"][1](self._directory / "java5-speed"), self._endpoints(grpc.PROXY_VERSION)
        if program is None or theirs is None:
            return
        column = f"RocketMQ {grpc.PROXY_VERSION} with its proxy"
        found = grpc_speed.sends_in_turns(program, {"here": grpc.ours, column: theirs})
        ratio = found["here"].rate / found[column].rate
        for name, sends in found.items():
            cell = f"{sends.rate:,.0f}/s, {sends.of_servers_us:,.0f} µs of the servers' processor time for each"
            self.grpc_sends[name] = {grpc.JAVA: cell}
        if ratio < grpc_speed.GOAL:
            self.wrong.append(f"sends of {grpc.JAVA}: {ratio:.2f} of the rate of {column}, less than {grpc_speed.GOAL}")

    def _endpoints(self, servers: str) -> grpc.Endpoints | None:
        if servers == "ours":
            return grpc.ours
        jars = jars_of("proxy.xml", servers, self._directory / "proxy")
        return None if jars is None else partial(grpc.proxied, jars)

    def run_admin(self) -> None:
        """The tool of both versions on our brokers."""
        for client in self.chosen(*_CLIENTS):
            if client.startswith("java") and (program := self.client(client)) is not None:
                found = admin_of([*program, MQADMIN], is_5=client == "java-5.3.3")
                self._note(client, found)
                say(f"mqadmin of {_CLIENTS[client][0]}: {tables.summary(found)}")

    def run_speed(self) -> None:
        """Sends of one producer to ours and to RocketMQ's newest, in turns."""
        program, theirs = self.client(NEWEST_CLIENT), self.servers(NEWEST)
        if program is None or theirs is None:
            return
        rates: dict[str, list[int]] = {OURS: [], NEWEST: []}
        for _ in range(TURNS):
            for name, servers in ((OURS, cluster), (NEWEST, theirs)):
                with servers() as name_server:
                    command = [each for each in _main(program, "Sends") if "Tiered" not in each]
                    sent = subprocess.run(
                        [*command, name_server, str(SPEED_S)], capture_output=True, text=True, check=True
                    )
                rates[name].append(int(sent.stdout.split("rate\t")[1]))
        ratio = median(rates[OURS]) / median(rates[NEWEST])
        said = (
            f"64 threads, 256 B, sync: {rates[OURS]} a second here, {rates[NEWEST]} on RocketMQ {NEWEST}: {ratio:.2f}"
        )
        say(said)
        if ratio < GOAL:
            self.wrong.append(f"{said}, less than {GOAL}")

    def run_mixed(self) -> None:
        """A group of stock members and of ours, for each version of Java."""
        for client in self.chosen(*_CLIENTS):
            if client.startswith("java") and (program := self.client(client)) is not None:
                logs = self._directory / f"mixed-{client}"
                logs.mkdir()
                self.wrong += [f"{_CLIENTS[client][0]} with members of ours: {each}" for each in mixed(program, logs)]

    def run_failover(self) -> None:
        """The same kinds of members on a broker with copies, whose master is killed."""
        if (program := self.client(NEWEST_CLIENT)) is not None:
            logs = self._directory / "failover"
            logs.mkdir()
            title = _CLIENTS[NEWEST_CLIENT][0]
            self.wrong += [f"{title} with members of ours, failover: {each}" for each in failover(program, logs)]

    def run_junit(self) -> None:
        """The tests of `examples/java` with Maven, whose extension of JUnit breaks a cluster of ours."""
        if shutil.which("mvn") is None:
            say("the tests of examples/java are left out: there is no mvn (Maven)")
            return
        path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
        command = ["mvn", "-q", "-B", "-f", str(EXAMPLE), "test"]
        done = subprocess.run(command, env=os.environ | {"PATH": path}, capture_output=True, text=True, check=False)
        say(f"JUnit, examples/java: {'ok' if done.returncode == 0 else 'failed'}")
        if done.returncode:
            self.wrong.append(f"JUnit, examples/java: {done.stdout[-2000:]}")

    def run_outward(self) -> None:
        """Our client on RocketMQ's servers."""
        for name in self.chosen(*ROCKETMQ_VERSIONS):
            servers = self.servers(name)
            if servers is None:
                continue
            found = features_of([sys.executable, "-m", "tests.interop.ours"], servers)
            self.outward[f"RocketMQ {name}"] = found
            self.wrong += [f"ours on {name}: {feature}: {each}" for feature, each in found.items() if each != "ok"]
            say(f"our client on RocketMQ {name}: {tables.summary(found)}")

    def run_life(self) -> None:
        """The life of a group of Java's members, of ours, and of both, on each kind of servers, and one in order."""
        java = self.client(NEWEST_CLIENT)
        if java is None:
            return
        played: dict[tuple[str, str], list[Shares]] = {}

        def play(pair: tuple[str, str]) -> None:
            (name, kind), brokers = pair, self.brokers(pair[0])
            if brokers is None:
                return
            kinds, ordered = LIVES[kind], kind == "order"
            logs = self._directory / f"life-{name}-{kind}"
            logs.mkdir()
            servers, members = (
                OURS if name == "ours" else f"RocketMQ {name}",
                " and ".join(kinds) + " in order" * ordered,
            )
            try:
                found, shares, wrong = life(commands_of(java, *kinds, ordered=ordered), brokers, logs, ordered=ordered)
            except (OSError, subprocess.SubprocessError) as error:  # TimeoutError is one
                self.wrong.append(f"{members} on {servers}: {error}")
                return
            say(f"{members} on {servers}: {found}")
            self.lives.setdefault(servers, {})[members], played[servers, members] = found, shares
            self.wrong += [f"{members} on {servers}: {each}" for each in wrong]

        pairs = [(name, kind) for name in self.chosen(*ROCKETMQ_VERSIONS, "ours") for kind in self.chosen(*LIVES)]
        for name, _ in pairs:
            self.brokers(name)
        with ThreadPoolExecutor(LIVES_AT_ONCE) as pool:
            for _ in pool.map(play, pairs):
                pass
        self._compare(played)

    def _compare(self, played: dict[tuple[str, str], list[Shares]]) -> None:
        """Say of each life in how many steps the members had the queues of the first one with Java's members alone."""
        alone = next((life for life in played if life[1] == "stock"), None)
        if alone is None:
            return
        for (servers, members), shares in played.items():
            equal = sum(one == other for one, other in zip(played[alone], shares, strict=True))
            self.lives[servers][members][EQUAL] = f"{equal} of {len(shares)}"
            if equal < len(shares):
                self.wrong.append(f"{members} on {servers}: the queues differ from those with stock on {alone[0]}")

    def run_rates(self) -> None:
        """Sends and a push consumer at full speed on RocketMQ's brokers, of Java's client and of ours in turns."""
        java = self.client(NEWEST_CLIENT)
        for name in self.chosen(*ROCKETMQ_VERSIONS) if java is not None else ():
            if java is not None and (servers := self.servers(name)) is not None:
                self.rates[f"RocketMQ {name}"] = rates(java, servers, TURNS)

    def run_rights(self) -> None:
        """Users of servers with access control against each other, as clients of Java."""
        for client in self.chosen(*(f"java-{version}" for version in JAVA_VERSIONS)):
            program = self.client(client)
            found = {} if program is None else rights_of(program)
            say(f"{_CLIENTS[client][0]}, rights between users: {found or 'left out'}")
            self.wrong += [f"{client}: {scene}: {outcome}" for scene, outcome in found.items() if outcome != "ok"]

    def record(self) -> None:
        """Write a few frames of each client and of RocketMQ's servers, and the bytes of gRPC clients."""
        for name in self.chosen(*grpc.CLIENTS) if "grpc" in self._arguments else ():
            if (command := grpc.CLIENTS[name][1](self._directory / name)) is not None:
                record(name, command)
        if "grpc" in self._arguments:
            return
        jars, recorder = self._jars_of_servers(NEWEST), Recorder()
        for client in self.chosen(*_CLIENTS):
            program = self.client(client)
            if jars is None or program is None:
                continue
            for form in ("JSON", "ROCKETMQ") if client == "java-5.3.3" else ("JSON",):
                recorder.client = client if form == "JSON" else f"{client}-binary"
                command = [program[0], *([f"-Drocketmq.serialize.type={form}"] if form != "JSON" else []), *program[1:]]
                features_of(_main(command, "Features"), partial(rocketmq, jars, recorder))
        recorder.write()


def _main(program: Command, main: str) -> Command:
    """The program; the one of Java has several."""
    return [*program, main] if program[0] == "java" else program


def _consuming(program: Command, name_server: str, group: str, topic: str) -> Command:
    """A client that consumes a topic, and prints a line that begins with "m" for each message."""
    if program[0] == "java":
        return [*program, "Member", name_server, group, topic, "concurrent", "0"]
    return [*program, name_server, "consume", group, topic]


_CLIENTS: dict[str, tuple[str, Callable[[Path], Command | None]]] = {
    **{f"java-{version}": (f"Java {version}", partial(java_of, version)) for version in JAVA_VERSIONS},
    "go": ("Go 2.1.2", go_client),
    "cpp": ("C++ (PyPI rocketmq 0.4.4)", cpp_client),
    "node": ("Node.js (ali-ons 3.12)", node_client),
}


def main(arguments: list[str]) -> int:
    """Run what is asked for; 1 if a cell of ours failed."""
    os.environ.pop("RLAB_NAMESRV", None)
    with tempfile.TemporaryDirectory() as name:
        run = Run(arguments, Path(name))
        if os.environ.get("RECORD"):
            run.record()
            return 0
        parts = {"features": run.run_features, "admin": run.run_admin, "speed": run.run_speed, "mixed": run.run_mixed}
        parts |= {
            "failover": run.run_failover,
            "junit": run.run_junit,
            "outward": run.run_outward,
            "life": run.run_life,
            "rates": run.run_rates,
        }
        parts |= {"rights": run.run_rights, "grpc": run.run_grpc, "grpc-speed": run.run_grpc_speed}
        for part in run.chosen(*PARTS):
            parts[part]()
            if "docs" in arguments:
                tables.write(run.features, tables.FEATURES, "feature")
                tables.write(run.pairs, tables.PAIRS, "client")
                for column, table in run.grpc.items():
                    tables.write(table, tables.GRPC.format(column), "feature over gRPC")
                tables.write(run.grpc_sends, tables.GRPC_SENDS, "sends of 64 threads")
                tables.write(run.outward, tables.OUTWARD, "feature of our client")
                for column, table in run.lives.items():
                    tables.write(table, tables.LIVES.format(column), "step")
                tables.write(run.rates, tables.RATES, "at full speed")
    found = [(run.features, "feature"), (run.pairs, "client"), (run.grpc_sends, "sends of 64 threads")]
    found += [(table, f"over gRPC on {name}") for name, table in run.grpc.items()]
    found.append((run.outward, "feature of our client"))
    found += [*((table, f"on {name}") for name, table in run.lives.items()), (run.rates, "at full speed")]
    shown = [tables.table_of(*each) for each in found if each[0]]
    say("\n\n".join((*shown, *run.wrong)))
    return 1 if run.wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
