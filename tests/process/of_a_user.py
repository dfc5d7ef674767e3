"""A project of somebody who has packages `broker`, `client`, `model` and `cli`, and uses what is installed beside them.

    python -m tests.process.of_a_user FOLDER PYTHON

It writes the project into a folder, and runs it by a Python that has rebalance-lab, pytest and aiohttp. The project
imports its own packages and ours; a message goes through a cluster that the command `rlab` runs, with the project on
the import path; and a test of the project breaks a cluster of the plugin.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

NAMES = ("broker", "client", "model", "cli")
_VERSION = ("-m", "rlab", "--version")
_PROGRAMME = """
import json, subprocess, sys

import anyio
import broker, cli, client, model
from rlab.client import ConsumeFrom, Message, Producer, PushConsumer

assert {broker.OWNER, cli.OWNER, client.OWNER, model.OWNER} == {"user"}


async def main(address):
    done = anyio.Event()

    async def on_messages(messages):
        print("received", messages[0].body.decode())
        done.set()

    async with Producer(address, group="shop") as producer:
        await producer.send(Message("greetings", b"hello"))
    async with PushConsumer(address, group="readers", consume_from=ConsumeFrom.FIRST_OFFSET) as consumer:
        await consumer.subscribe("greetings", on_messages)
        with anyio.fail_after(20):
            await done.wait()


command = [sys.executable, "-m", "rlab", "cluster", "--brokers", "1", "--port", "0", "--json"]
with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as cluster:
    try:
        anyio.run(main, json.loads(cluster.stdout.readline())["address"])
    finally:
        cluster.terminate()
assert cluster.returncode == 0, cluster.returncode
assert {broker, cli, client, model} <= {sys.modules[name] for name in ("broker", "cli", "client", "model")}
ours = [name for name in sys.modules if name.split(".")[0] in ("traces", "remoting", "metrics", "testbed")]
assert not ours, ours
"""


_TEST = """
import broker, cli, client, model


def test_a_broker_is_broken_and_whole_again(rlab_cluster, rlab_topic, rlab_simulate):
    assert {broker.OWNER, cli.OWNER, client.OWNER, model.OWNER} == {"user"}
    cluster = rlab_cluster.blocking
    with cluster.killed("broker-a"), cluster.drop("HEART_BEAT"):
        assert len(cluster.faults()) == 1
    assert cluster.faults() == []

    async def in_virtual_time(cluster):
        await cluster.create_topic("orders")
        await cluster.simulated.start_consumer("billing", "orders")
        await cluster.balanced("billing", members=1)

    rlab_simulate(in_virtual_time)
"""


def write_project(folder: Path) -> None:
    """Write the packages, and the programme."""
    for name in NAMES:
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text('OWNER = "user"\n', encoding="utf-8")
    (folder / "programme.py").write_text(_PROGRAMME, encoding="utf-8")
    (folder / "test_plugin.py").write_text(_TEST, encoding="utf-8")
    # Else pytest takes the settings of the first project above it, which may be this one.
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")


def run_project(folder: Path, python: Path, *options: str, path: str = "") -> str:
    """Run the programme in the folder, which is on the import path; returns what it and `rlab --version` print."""
    said = [run_python(folder, python, *options, *what, path=path) for what in (_VERSION, ("programme.py",))]
    return "".join(said).strip()


def run_python(folder: Path, python: Path, *arguments: str, path: str = "") -> str:
    """Run Python in the folder, which is on the import path; returns what it prints."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(folder), path]))}
    command = [str(python), *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{arguments} failed:\n{done.stdout}{done.stderr}"
    return done.stdout


def main() -> None:
    """Write and run it."""
    folder, python = Path(sys.argv[1]), Path(sys.argv[2])
    write_project(folder)
    said = run_project(folder, python)
    run_python(folder, python, "-m", "pytest", "-q", "test_plugin.py")
    script = subprocess.run(
        [python.with_name("rlab"), "--version"],
        env={**os.environ, "PYTHONPATH": "."},
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    sys.stdout.write(f"{python}: {said.replace(os.linesep, ', ')}, {script.stdout.strip()}\n")


if __name__ == "__main__":
    main()
