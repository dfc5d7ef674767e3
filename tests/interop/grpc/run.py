"""The gRPC clients of RocketMQ 5 on servers of this project, and on RocketMQ's with its proxy: `make interop` runs it.

A client gets a folder of its own outside the checkout, and an environment of its own: that for Python has a package
`rocketmq`, as this project has.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import tempfile
import venv
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from model.names import TEMPLATE_TOPIC
from remoting.request_code import RequestCode
from rocketmq.frame import Frame, encode_frame
from rocketmq.grpc.proto import MESSAGES
from tests.interop.clients import go_program
from tests.interop.servers import RLAB, Daemons, broker_of_rocketmq, free_port, jars_of, pause, say, wait_for

HERE = Path(__file__).parent
PYTHON_PACKAGE, NODE_PACKAGE = "rocketmq-python-client==5.1.2", "rocketmq-client-nodejs@1.0.8"
PYTHON, NODE = "Python 5.1.2", "Node.js 1.0.8"
JAVA_VERSION = "5.2.0"
JAVA, JAVA_TLS = f"Java {JAVA_VERSION}", f"Java {JAVA_VERSION}, TLS"
GO, GO_TLS = "Go 5.1.3", "Go 5.1.3, TLS"
PROXY_VERSION = "5.3.3"
TIMEOUT_S = 900
_OF_PROTOBUF = ("Duration", "Timestamp")
_INT32, _ENUM = "5", "14"
_PROXY = "org.apache.rocketmq.proxy.ProxyStartup"
_LOGS = ("rmq.proxy.logback.xml", "rmq.tools.logback.xml")
FIFO = "FIFO"
Command = list[str]
Endpoints = Callable[[], AbstractContextManager["Endpoint"]]
"""Runs servers while its block runs."""


class Endpoint(NamedTuple):
    """Servers for gRPC clients: an address, and how a topic of a type is made, with the group that reads it.

    `poll_s` is how long a receive waits there, and `retry_s` the time within which a failed message comes again.
    `pids` are the processes that handle a send.
    """

    address: str
    create: Callable[[str, str], None]
    poll_s: int = 2
    retry_s: int = 16
    pids: tuple[int, ...] = ()


def python_client(directory: Path) -> Command | None:
    """The program of the client for Python; None if it cannot be had."""
    venv.create(directory, with_pip=True)
    python = str(directory / "bin" / "python")
    get = [python, "-m", "pip", "install", "-q", PYTHON_PACKAGE]
    got = subprocess.run(get, capture_output=True, text=True, check=False)
    if got.returncode:
        say(f"{PYTHON} is left out: {PYTHON_PACKAGE} does not install here: {got.stderr.strip()[-200:]}")
        return None
    return [python, "-I", _copied("py", directory)]


def node_client(directory: Path) -> Command | None:
    """The program of the client for Node.js; None if it cannot be had."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        say(f"{NODE} is left out: npm or node is not on this machine")
        return None
    directory.mkdir()
    program = _copied("js", directory)
    if subprocess.run(["npm", "install", "--silent", NODE_PACKAGE], cwd=directory, check=False).returncode:
        say(f"{NODE} is left out: {NODE_PACKAGE} does not install here")
        return None
    return ["node", program]


def _copied(suffix: str, directory: Path) -> str:
    """Copy the programs of a language; the path of that of the features."""
    shutil.copy(HERE / f"users.{suffix}", directory)
    return str(shutil.copy(HERE / f"features.{suffix}", directory))


def java_client(directory: Path, *, tls: bool) -> Command | None:
    """The program of the client for Java; None if it cannot be had."""
    title = JAVA_TLS if tls else JAVA
    if shutil.which("javac") is None:
        say(f"{title} is left out: javac is not on this machine")
        return None
    jars, classes = jars_of("grpc.xml", JAVA_VERSION, directory / "jars"), directory / "classes"
    if jars is None:
        return None
    sources = map(str, sorted(HERE.glob("*.java")))
    subprocess.run(["javac", "-nowarn", "-cp", jars, "-d", str(classes), *sources], check=True)
    flags = ["-Xmx256m", f"-Duser.home={directory}", f"-Dtls={str(tls).lower()}"]
    return ["java", *flags, "-cp", f"{classes}:{jars}", "Features"]


def go_client(directory: Path, *, tls: bool) -> Command | None:
    """The program of the client for Go, which `go/go.mod` names; None if it cannot be had."""
    program = go_program(GO_TLS if tls else GO, HERE / "go", directory)
    switch = f"rocketmq.client.enableSsl={str(tls).lower()}"
    return None if program is None else ["env", switch, f"user.home={directory}", program]


CLIENTS: dict[str, tuple[str, Callable[[Path], Command | None]]] = {
    "py5": (PYTHON, python_client),
    "node5": (NODE, node_client),
    "java5": (JAVA, partial(java_client, tls=False)),
    "java5-tls": (JAVA_TLS, partial(java_client, tls=True)),
    "go5": (GO, partial(go_client, tls=False)),
    "go5-tls": (GO_TLS, partial(go_client, tls=True)),
}


@contextmanager
def ours() -> Iterator[Endpoint]:
    """A name server and a broker of this project; the broker is the endpoint: it alone recalls messages."""
    with tempfile.TemporaryDirectory() as directory:
        daemons = Daemons(Path(directory), 1)
        try:
            pids = (daemons.processes[-1].pid,)
            yield Endpoint(daemons.brokers[0], create_here(daemons.name_server), pids=pids)
        finally:
            daemons.stop()


def create_here(name_server: str) -> Callable[[str, str], None]:
    """Makes topics of servers of this project; see `Endpoint`."""
    to = ("--namesrv", name_server)

    def create(topic: str, kind: str) -> None:
        _quietly([*RLAB, "topic", "create", topic, "--queues", "2", *to])
        if kind == FIFO:
            _quietly([*RLAB, "group", "set", f"{topic}-g", "--create", "--fifo", *to])

    return create


@contextmanager
def proxied(jars: str) -> Iterator[Endpoint]:
    """RocketMQ's name server and broker, and its proxy beside them."""
    with broker_of_rocketmq(jars) as broker, tempfile.TemporaryDirectory() as directory:
        home, port = Path(directory), free_port()
        (home / "conf").mkdir()
        for name in _LOGS:
            (home / "conf" / name).write_text("<configuration/>")
        settings = {"rocketMQClusterName": "DefaultCluster", "grpcServerPort": port, "remotingListenPort": free_port()}
        (home / "conf" / "proxy.json").write_text(json.dumps(settings))
        java = ["java", "-Xmx384m", f"-Duser.home={home}", f"-Drocketmq.home.dir={home}", "-cp", jars]
        environment = {**os.environ, "ROCKETMQ_HOME": str(home)}
        log = home / "proxy.log"

        def create(topic: str, kind: str) -> None:
            # mqadmin would start a Java machine for each.
            fields = {"topic": topic, "defaultTopic": TEMPLATE_TOPIC, "readQueueNums": "2", "writeQueueNums": "2"}
            fields |= {"perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
            fields["attributes"] = f"+message.type={kind}"
            _request(broker.port, Frame(RequestCode.UPDATE_AND_CREATE_TOPIC, 0, 1, fields))
            if kind == FIFO:
                settings = {"groupName": f"{topic}-g", "consumeMessageOrderly": True}
                body = json.dumps(settings).encode()
                _request(broker.port, Frame(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, 0, 1, {}, body))

        with log.open("wb") as file:
            start = [
                *java,
                _PROXY,
                "-n",
                broker.name_server,
                "-pm",
                "cluster",
                "-pc",
                str(home / "conf" / "proxy.json"),
            ]
            process = subprocess.Popen(start, env=environment, stdout=file, stderr=subprocess.STDOUT)
        try:
            wait_for(log, "startup successfully")
            # The proxy lets no receive wait less than 5 s, and its broker looks for failed messages every 10 s.
            pids = (broker.process.pid, process.pid)
            yield Endpoint(f"127.0.0.1:{port}", create, poll_s=6, retry_s=30, pids=pids)
        finally:
            process.kill()
            process.wait()


def _request(port: int, frame: Frame) -> None:
    """Send a request to a broker of RocketMQ. Raises: RuntimeError: it was refused."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(encode_frame(frame))
        answer = connection.recv(1 << 16)
    if b'"code":0' not in answer:
        raise RuntimeError(f"the broker refused {frame}: {answer[:300]!r}")


def _quietly(command: Command) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode or "Exception" in done.stdout + done.stderr:
        raise RuntimeError(f"{command[-4:]}: {(done.stdout + done.stderr)[-300:]}")


def differing_fields(program: Command) -> list[str]:
    """The fields of our table of messages that the client for Python has otherwise, or does not have."""
    done = subprocess.run([*program, "127.0.0.1:1", "x", "--fields"], capture_output=True, text=True, check=True)
    theirs = {tuple(line.split("\t")) for line in done.stdout.splitlines()}
    ours = [
        (name, str(field.number), field.name, _kind_of(field), str(field.is_repeated))
        for name, message in MESSAGES.items()
        if name not in _OF_PROTOBUF
        for field in message.DESCRIPTOR.fields
    ]
    enumerations = {(*each[:3], _INT32, each[4]) for each in theirs if each[3] == _ENUM}
    return [" ".join(each) for each in ours if each not in theirs and each not in enumerations]


def _kind_of(field: Any) -> str:
    return str(field.type if field.message_type is None else field.message_type.name)


def features_over_grpc(program: Command, endpoint: Endpoint, prefix: str) -> dict[str, str]:
    """Run every feature of a client, with topics that begin with a prefix; name -> `ok` or what was wrong."""
    listed = subprocess.run([*program, "127.0.0.1:1", prefix, "--list"], capture_output=True, text=True, check=True)
    for line in listed.stdout.splitlines():
        endpoint.create(*line.split("\t"))
    pause(2)  # until every route has them
    command = [*program, endpoint.address, prefix, str(endpoint.poll_s), str(endpoint.retry_s)]
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        with subprocess.Popen(command, stdout=output, stderr=errors, cwd=Path(program[-1]).parent) as process:
            try:
                process.wait(TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
        output.seek(0)
        rows = [line.split("\t") for line in output if line.startswith("feature\t")]
        found = {name: outcome.strip() for _, name, outcome in rows}
        if len(found) < len(listed.stdout.splitlines()):
            errors.seek(0)
            say(f"{prefix} ended after {len(found)} features: {errors.read()[-1500:]}")
    return found
