"""docker-compose.yml says what runs: each service's own command line has to come up, here as a local process.

Only what a container network gives is replaced: host names, ports and the volume.
"""

from __future__ import annotations

import shlex
import subprocess
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio
import pyspark
import pytest
import yaml

from client.admin.admin import Admin
from tests.tcp.rlab_process import ROOT, TIMEOUT_S, Daemon, command, environment, stopped_cleanly, wait_until

pytestmark = [pytest.mark.process, pytest.mark.tcp]

SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
DAEMONS = [name for name, service in SERVICES.items() if service["command"].split()[0] in ("namesrv", "broker")]
BROKERS = {"broker-a": "broker-a", "broker-b": "broker-b", "broker-c-1": "broker-c", "broker-c-2": "broker-c"}
SPARK = [name for name, service in SERVICES.items() if "spark" in service.get("profiles", [])]


def option(service: str, name: str) -> str:
    """The value of an option in a service's command line."""
    words = shlex.split(SERVICES[service]["command"])
    return words[words.index(name) + 1]


def local_command(service: str, addresses: dict[str, str], data: Path) -> list[str]:
    """A service's command line on this machine: on a free port, with the real addresses of the others."""
    words = shlex.split(SERVICES[service]["command"])
    local = {"--listen": "127.0.0.1:0", "--data": str(data), "--elections": str(data)}
    if "--namesrv" in words:
        # Every name server that the service names has to be a service itself.
        named = [address.partition(":")[0] for address in option(service, "--namesrv").split(",")]
        local["--namesrv"] = ",".join(addresses[name] for name in named)
    if "--advertise" in words:
        # Its host is the service's name, which only the container network resolves.
        at = words.index("--advertise")
        del words[at : at + 2]
    return [local.get(before, word) for before, word in zip(["", *words], words, strict=False)]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Daemon]]:
    """Every daemon of the file, started in its order; all have to stop cleanly."""
    cwd = tmp_path_factory.mktemp("compose")
    with ExitStack() as stack:
        started: dict[str, Daemon] = {}
        for name in DAEMONS:
            addresses = {other: daemon.address for other, daemon in started.items()}
            arguments = local_command(name, addresses, cwd / name)
            started[name] = stack.enter_context(stopped_cleanly(*arguments, cwd=cwd))
        yield started


def test_each_daemon_comes_up_and_both_name_servers_know_all_brokers(running: dict[str, Daemon]) -> None:
    async def brokers_of(name_server: str) -> list[str]:
        async with Admin(name_server) as admin:
            return [broker.broker_name for broker in await admin.brokers()]

    assert list(running) == ["namesrv-1", "namesrv-2", *BROKERS]
    for name in ("namesrv-1", "namesrv-2"):
        assert anyio.run(brokers_of, running[name].address) == ["broker-a", "broker-b", "broker-c"]
    assert [running[name].said["name"] for name in BROKERS] == list(BROKERS.values())


def test_the_broker_with_copies_has_both_in_sync_and_the_other_one_takes_over(running: dict[str, Daemon]) -> None:
    async def in_sync() -> tuple[int, ...]:
        async with Admin(running["namesrv-1"].address) as admin:
            return (await admin.replicas("broker-c")).row.in_sync

    async def hand_over() -> str | None:
        async with Admin(running["namesrv-1"].address) as admin:
            return (await admin.hand_over("broker-c")).master_address

    wait_until(lambda: anyio.run(in_sync) == (1, 2))
    assert anyio.run(hand_over) == running["broker-c-2"].address


def test_the_swarm_joins_the_cluster_and_leaves_when_it_is_stopped(running: dict[str, Daemon], tmp_path: Path) -> None:
    addresses = {name: daemon.address for name, daemon in running.items()}
    consumers = int(option("swarm", "--consumers"))

    async def most_members() -> int:
        async with Admin(addresses["namesrv-1"]) as admin:
            return max((group.members for group in await admin.groups()), default=0)

    with (tmp_path / "stderr").open("w") as stderr:
        swarm = subprocess.Popen(
            command(local_command("swarm", addresses, tmp_path)),
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            env=environment(),
        )
        with swarm:
            wait_until(lambda: swarm.poll() is not None or anyio.run(most_members) == consumers)
            assert swarm.poll() is None
            swarm.terminate()
            assert swarm.wait(TIMEOUT_S) == 0
    assert anyio.run(most_members) == 0
    assert "Traceback" not in (tmp_path / "stderr").read_text()


def test_each_health_check_looks_at_the_port_that_its_service_listens_on() -> None:
    for name in DAEMONS:
        port = option(name, "--listen").rpartition(":")[2]
        assert SERVICES[name]["environment"]["HEALTH_PORT"] == port


def test_every_service_has_a_health_check_enough_descriptors_and_a_read_only_file_system() -> None:
    for service in SERVICES.values():
        assert service["healthcheck"].get("test") or service["healthcheck"] == {"disable": True}
        assert service["ulimits"] == {"nofile": 65536}
        assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])


def test_a_command_that_is_run_in_a_service_finds_the_cluster() -> None:
    for name in set(SERVICES) - set(SPARK):
        assert SERVICES[name]["environment"]["RLAB_NAMESRV"] == option("swarm", "--namesrv")


def test_only_the_console_is_published_and_on_loopback_alone() -> None:
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert published == {"console": ["127.0.0.1:9480:9480"]}
    assert option("console", "--listen") == "0.0.0.0:9480"


def test_dependencies_are_installed_before_the_code_is_copied_and_without_numpy() -> None:
    stages = (ROOT / "Dockerfile").read_text(encoding="utf-8").split("\nFROM ")
    [dependencies] = [stage for stage in stages if stage.startswith("python:3.11-slim AS dependencies\n")]
    assert "COPY constraints.txt pyproject.toml ./" in dependencies
    assert "COPY . ." not in dependencies
    assert "sticky" not in dependencies
    copied = [line for line in stages[-1].splitlines() if line.startswith("COPY")]
    assert copied == ["COPY --from=dependencies /opt/rlab /opt/rlab", "COPY --from=code /opt/code /opt/rlab"]


def test_clients_are_notified_the_names_that_the_network_resolves() -> None:
    for name, broker in BROKERS.items():
        assert option(name, "--replica-of" if name == "broker-c-2" else "--name") == broker
        assert option(name, "--advertise") == f"{name}:{option(name, '--listen').rpartition(':')[2]}"
        assert any(volume.endswith(f":{option(name, '--data')}") for volume in SERVICES[name]["volumes"])


def test_every_service_that_needs_name_servers_names_all_of_them() -> None:
    name_servers = [f"{name}:{option(name, '--listen').rpartition(':')[2]}" for name in DAEMONS if "namesrv" in name]
    for name, service in SERVICES.items():
        if "--namesrv" in service["command"]:
            assert option(name, "--namesrv").split(",") == name_servers


def test_spark_workers_go_to_the_master_and_write_where_its_jobs_do() -> None:
    workers = [name for name in SPARK if name != "spark-master"]
    assert len(workers) == 2
    assert SERVICES["spark-master"]["hostname"] == option("spark-master", "--host")
    for name in workers:
        address = f"{option('spark-master', '--host')}:{option('spark-master', '--port')}"
        assert shlex.split(SERVICES[name]["command"])[-1] == f"spark://{address}"
        assert SERVICES[name]["depends_on"] == {"spark-master": {"condition": "service_healthy"}}
        assert SERVICES[name]["volumes"] == SERVICES["spark-master"]["volumes"]


def test_spark_services_run_what_spark_has_and_their_health_checks_look_at_its_ports() -> None:
    [core] = Path(pyspark.__file__).parent.glob("jars/spark-core_*.jar")
    with zipfile.ZipFile(core) as jar:
        classes = set(jar.namelist())
    for name in SPARK:
        service = SERVICES[name]
        assert (service["entrypoint"], service["build"]["target"]) == (["spark-class"], "spark")
        assert f"{shlex.split(service['command'])[0].replace('.', '/')}.class" in classes
        assert service["environment"]["HEALTH_PORT"] == option(name, "--port")
        assert "$$HEALTH_PORT" in service["healthcheck"]["test"][1]
