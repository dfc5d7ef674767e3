"""The servers of `make interop`: processes of `rlab`, and name server and broker of RocketMQ from Maven."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path

from model.names import TEMPLATE_TOPIC
from remoting.request_code import RequestCode
from rocketmq.frame import Frame, encode_frame
from tests.interop.tap import Recorder, Tap

HERE = Path(__file__).parent
RLAB = [sys.executable, "-m", "cli.main"]
HOME = os.environ.get("ROCKETMQ_HOME", "")
"""Directory of a distribution of RocketMQ, whose jars are used then, and nothing is got from Maven's registry."""
HOME_VERSIONS = tuple(
    jar.stem.removeprefix("rocketmq-broker-") for jar in Path(HOME, "lib").glob("rocketmq-broker-*.jar") if HOME
)
ROCKETMQ_VERSIONS = HOME_VERSIONS or ("4.9.7", "5.3.3")
"""The newest of each line whose broker is in Maven's registry."""
START_S = 60

Servers = Callable[[], AbstractContextManager[str]]
"""Runs servers while its block runs, and gives the address of their name server."""
Process = subprocess.Popen[bytes]

_OPEN = ("java.base/java.nio", "java.base/sun.nio.ch", "java.base/java.lang", "java.base/jdk.internal.ref")
_LOGS = ("logback_namesrv.xml", "logback_broker.xml", "rmq.namesrv.logback.xml", "rmq.broker.logback.xml")
_NAME_SERVER = "org.apache.rocketmq.namesrv.NamesrvStartup"
_BROKER = "org.apache.rocketmq.broker.BrokerStartup"

_PORTS = iter(range(12_000 + os.getpid() * 40 % 18_000, 32_000, 4))
"""A broker of RocketMQ listens two below its port as well."""

pause = threading.Event().wait


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


class Broker:
    """The broker of a cluster of one, which can be killed, moved and frozen; `start` runs it at a port."""

    def __init__(self, name_server: str, start: Callable[[int], Process]) -> None:
        self.name_server = name_server
        self._start = start
        self.port = free_port()
        self.process = start(self.port)

    def restart(self, *, moves: bool = False, down_s: float = 2) -> None:
        """Kill it, and start it again a moment later, at the same port or at another one."""
        self.process.kill()
        self.process.wait()
        pause(down_s)
        self.port = free_port() if moves else self.port
        self.process = self._start(self.port)

    def freeze(self, seconds: float) -> None:
        """Let it answer nothing for a while, although its connections stand."""
        self.process.send_signal(signal.SIGSTOP)
        pause(seconds)
        self.process.send_signal(signal.SIGCONT)


Brokers = Callable[[], AbstractContextManager[Broker]]


class Daemons:
    """`rlab` processes of one cluster; `more` are options of each of them, `namesrv` those of the name server.

    Attributes:
        name_server: its address.
        brokers: the address of each broker.
    """

    def __init__(self, directory: Path, brokers: int, *more: str, namesrv: tuple[str, ...] = ()) -> None:
        self.processes: list[Process] = []
        self.brokers: list[str] = []
        self._more = more
        self.name_server = self._start("namesrv", "--listen", "127.0.0.1:0", *namesrv)
        for n in range(brokers):
            self.start_broker(directory / f"broker-{'ab'[n]}")

    def start_broker(self, directory: Path, port: int = 0) -> Process:
        """Start a broker with the name and the data of a directory."""
        flags = ("--name", directory.name, "--listen", f"127.0.0.1:{port}", "--data", str(directory))
        self.brokers.append(self._start("broker", *flags, "--namesrv", self.name_server))
        return self.processes[-1]

    def start(self, *command: str) -> Process:
        """Start a daemon on a port that is free."""
        self._start(*command, "--listen", "127.0.0.1:0")
        return self.processes[-1]

    def _start(self, *command: str) -> str:
        process = subprocess.Popen([*RLAB, *command, *self._more, "--json"], stdout=subprocess.PIPE)
        self.processes.append(process)
        assert process.stdout is not None
        return str(json.loads(process.stdout.readline())["address"])

    def stop(self) -> None:
        """Stop all of them."""
        for process in reversed(self.processes):
            process.terminate()
            process.communicate()


@contextmanager
def cluster(brokers: int = 1) -> Iterator[str]:
    """Run a name server and brokers of this project; yields the address of the name server."""
    with tempfile.TemporaryDirectory() as directory:
        daemons = Daemons(Path(directory), brokers)
        try:
            yield daemons.name_server
        finally:
            daemons.stop()


@contextmanager
def broker_of_ours() -> Iterator[Broker]:
    """Run a name server and a broker of this project."""
    with tempfile.TemporaryDirectory() as directory:
        daemons = Daemons(Path(directory), 0)
        try:
            yield Broker(daemons.name_server, partial(daemons.start_broker, Path(directory) / "broker-a"))
        finally:
            daemons.stop()


def jars_of(project: str, version: str, directory: Path) -> str | None:
    """Get what a file of Maven names; returns the class path, or None with a line that says why there is none."""
    if version in HOME_VERSIONS:
        return f"{HOME}/lib/*"
    if shutil.which("mvn") is None or shutil.which("java") is None:
        say(f"RocketMQ {version} ({project}) is left out: mvn or java is not on this machine")
        return None
    get = ["mvn", "-q", "-B", "-f", str(HERE / "java" / project), f"-Drocketmq.version={version}"]
    done = subprocess.run(
        [*get, "dependency:copy-dependencies", f"-DoutputDirectory={directory}"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        say(f"RocketMQ {version} ({project}) is left out: {(done.stdout + done.stderr).strip()[-200:]}")
        return None
    return f"{directory}/*"


@contextmanager
def rocketmq(jars: str, recorder: Recorder | None = None) -> Iterator[str]:
    """Run a name server and a broker of RocketMQ; yields the address of the name server.

    With a recorder, clients reach both through taps at another address of this machine. Only 5 can do without that one.
    """
    host = "127.0.0.1" if recorder is None else "127.0.0.2"
    with broker_of_rocketmq(jars, host) as broker:
        ports = (int(broker.name_server.partition(":")[2]), broker.port)
        taps = [Tap((host, port), ("127.0.0.1", port), recorder) for port in ports if recorder is not None]
        yield f"{host}:{ports[0]}"
        for tap in taps:
            tap.close()


@contextmanager
def broker_of_rocketmq(jars: str, host: str = "127.0.0.1") -> Iterator[Broker]:
    """Run a name server and a broker of RocketMQ, which says that it is at this host."""
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        (home / "conf").mkdir()
        for name in _LOGS:
            (home / "conf" / name).write_text("<configuration/>")  # 4.9 does not start without them
        name_server = free_port()
        (home / "namesrv.conf").write_text(f"listenPort={name_server}\nbindAddress=127.0.0.1\n")
        settings = {
            **{"brokerClusterName": "DefaultCluster", "brokerName": "broker-a", "brokerId": 0, "brokerIP1": host},
            **{"bindAddress": "127.0.0.1", "haListenPort": free_port(), "storePathRootDir": home / "store"},
            **{"storePathCommitLog": home / "store" / "commitlog", "mappedFileSizeCommitLog": 64 * 1024 * 1024},
            **{"transactionCheckInterval": 3_000, "enablePropertyFilter": "true", "recallMessageEnable": "true"},
        }
        java = ["java", "-Xmx384m", "-XX:MaxDirectMemorySize=256m", f"-Duser.home={home}"]
        java += [f"--add-opens={package}=ALL-UNNAMED" for package in _OPEN]
        java += ["-cp", jars]
        processes: list[Process] = []

        def start(log: str, *arguments: str) -> Process:
            with (home / log).open("wb") as file:
                environment = {**os.environ, "ROCKETMQ_HOME": str(home)}
                processes.append(
                    subprocess.Popen([*java, *arguments], env=environment, stdout=file, stderr=subprocess.STDOUT)
                )
            wait_for(home / log, "boot success")
            return processes[-1]

        def start_broker(port: int) -> Process:
            lines = (f"{name}={value}\n" for name, value in {**settings, "listenPort": port}.items())
            (home / "broker.conf").write_text("".join(lines))
            process = start("broker.log", _BROKER, "-n", address, "-c", str(home / "broker.conf"))
            _wait_registered(("127.0.0.1", name_server))
            return process

        address = f"127.0.0.1:{name_server}"
        try:
            start("namesrv.log", _NAME_SERVER, "-c", str(home / "namesrv.conf"))
            yield Broker(address, start_broker)
        finally:
            for process in reversed(processes):
                process.kill()
                process.wait()


def _wait_registered(name_server: tuple[str, int]) -> None:
    """Ask a name server for the template of topics until it has one, which a broker brings."""
    question = encode_frame(Frame(RequestCode.GET_ROUTEINFO_BY_TOPIC, 0, 1, {"topic": TEMPLATE_TOPIC}))
    for _ in range(START_S * 2):
        with socket.create_connection(name_server) as connection:
            connection.sendall(question)
            if b'"code":0' in connection.recv(1 << 16):
                return
        pause(0.5)
    raise TimeoutError("the broker of RocketMQ has not registered with its name server")


def free_port() -> int:
    """A port that nobody listens on now, and that no connection gets by itself.

    Those begin at 32768 on Linux; a client that tries again and again to reach such a port of its own machine, whose
    server is down, is connected with itself one day, and the server no longer starts.
    """
    for number in _PORTS:
        with socket.socket() as bound, suppress(OSError):
            bound.bind(("127.0.0.1", number))
            return number
    raise RuntimeError("there is no free port from 12,000 on")


def wait_for(log: Path, text: str) -> None:
    """Wait until a text is in a log."""
    for _ in range(START_S * 10):
        if text in log.read_text(errors="replace"):
            return
        pause(0.1)
    raise TimeoutError(f"{log.name} of RocketMQ never said {text!r}: {log.read_text(errors='replace')[-500:]}")
