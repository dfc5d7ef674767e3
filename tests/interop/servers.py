"""The servers of `make interop`: processes of `rlab`, and name server and broker of RocketMQ from Maven."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from model.names import TEMPLATE_TOPIC
from remoting.request_code import RequestCode
from rocketmq.frame import Frame, encode_frame
from tests.interop.tap import Recorder, Tap

HERE = Path(__file__).parent
RLAB = [sys.executable, "-m", "cli.main"]
ROCKETMQ_VERSIONS = ("4.9.7", "5.3.3")
"""The newest of each line whose broker is in Maven's registry."""
START_S = 60

Servers = Callable[[], AbstractContextManager[str]]
"""Runs servers while its block runs, and gives the address of their name server."""

_OPEN = ("java.base/java.nio", "java.base/sun.nio.ch", "java.base/java.lang", "java.base/jdk.internal.ref")
_LOGS = ("logback_namesrv.xml", "logback_broker.xml", "rmq.namesrv.logback.xml", "rmq.broker.logback.xml")
_NAME_SERVER = "org.apache.rocketmq.namesrv.NamesrvStartup"
_BROKER = "org.apache.rocketmq.broker.BrokerStartup"

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
        process = subprocess.Popen([*RLAB, *command, "--json"], stdout=subprocess.PIPE)
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


def jars_of(project: str, version: str, directory: Path) -> str | None:
    """Get what a file of Maven names; returns the class path, or None with a line that says why there is none."""
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
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        (home / "conf").mkdir()
        for name in _LOGS:
            (home / "conf" / name).write_text("<configuration/>")  # 4.9 does not start without them
        name_server, port = free_port(), free_port()
        host = "127.0.0.1" if recorder is None else "127.0.0.2"
        (home / "namesrv.conf").write_text(f"listenPort={name_server}\nbindAddress=127.0.0.1\n")
        settings = {
            **{"brokerClusterName": "DefaultCluster", "brokerName": "broker-a", "brokerId": 0, "brokerIP1": host},
            **{
                "bindAddress": "127.0.0.1",
                "listenPort": port,
                "haListenPort": free_port(),
                "storePathRootDir": home / "store",
            },
            **{"storePathCommitLog": home / "store" / "commitlog", "mappedFileSizeCommitLog": 64 * 1024 * 1024},
        }
        (home / "broker.conf").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        java = ["java", "-Xmx384m", "-XX:MaxDirectMemorySize=256m", f"-Duser.home={home}"]
        java += [f"--add-opens={package}=ALL-UNNAMED" for package in _OPEN]
        java += ["-cp", jars]
        processes: list[subprocess.Popen[bytes]] = []

        def start(log: str, *arguments: str) -> None:
            with (home / log).open("wb") as file:
                environment = {**os.environ, "ROCKETMQ_HOME": str(home)}
                processes.append(
                    subprocess.Popen([*java, *arguments], env=environment, stdout=file, stderr=subprocess.STDOUT)
                )

        address = f"127.0.0.1:{name_server}"
        try:
            start("namesrv.log", _NAME_SERVER, "-c", str(home / "namesrv.conf"))
            _wait_for(home / "namesrv.log", "boot success")
            start("broker.log", _BROKER, "-n", address, "-c", str(home / "broker.conf"))
            _wait_for(home / "broker.log", "boot success")
            _wait_registered(("127.0.0.1", name_server))
            taps = [
                Tap((host, number), ("127.0.0.1", number), recorder)
                for number in (name_server, port)
                if recorder is not None
            ]
            yield f"{host}:{name_server}"
            for tap in taps:
                tap.close()
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
    """A port that nobody listens on now."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


def _wait_for(log: Path, text: str) -> None:
    for _ in range(START_S * 2):
        if text in log.read_text(errors="replace"):
            return
        pause(0.5)
    raise TimeoutError(f"{log.name} of RocketMQ never said {text!r}: {log.read_text(errors='replace')[-500:]}")
