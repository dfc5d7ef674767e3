"""Every system by its name, and the parts of it that this machine lacks."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable, Sequence
from importlib.metadata import version

from testbed.bench.peers.systems.aiokafka_peer import AioKafka
from testbed.bench.peers.systems.confluent_peer import ConfluentKafka
from testbed.bench.peers.systems.kafka_server import JARS
from testbed.bench.peers.systems.nats_peer import Nats
from testbed.bench.peers.systems.ours import Ours
from testbed.bench.peers.systems.protocol import OURS, System
from testbed.bench.peers.systems.redis_peer import Redis

PEERS: tuple[System, ...] = (Redis(), Nats(), AioKafka(), ConfluentKafka())
SYSTEMS: dict[str, System] = {OURS: Ours(), **{system.name: system for system in PEERS}}
SERVERS = tuple(dict.fromkeys(system.server for system in PEERS))
"""The words of `--peers`."""
_DISTRIBUTIONS = {"nats": "nats-py", "confluent_kafka": "confluent-kafka"}


def _has_module(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def _has_program(name: str) -> bool:
    return shutil.which(name) is not None


def _has_jars() -> bool:
    return any(JARS.glob("kafka_*.jar"))


def missing(
    system: System,
    has_module: Callable[[str], bool] = _has_module,
    has_program: Callable[[str], bool] = _has_program,
    has_jars: Callable[[], bool] = _has_jars,
) -> list[str]:
    """The parts that a system needs and this machine lacks; empty if the system can be measured."""
    lacks = [f"the Python module {name}" for name in system.modules if not has_module(name)]
    lacks += [f"the program {name}" for name in system.programs if not has_program(name)]
    if system.server == "kafka" and not has_jars():
        lacks.append("Kafka's jars")
    return lacks


def choose(servers: Sequence[str]) -> tuple[list[System], list[str]]:
    """The peers of these servers that can be measured, and one line about each of the others."""
    chosen: list[System] = []
    notes: list[str] = []
    for system in PEERS:
        if system.server in servers:
            lacks = missing(system)
            if lacks:
                notes.append(f"{system.name} is left out: {' and '.join(lacks)} is missing (make peers installs it)")
            else:
                chosen.append(system)
    return chosen, notes


def settings_of(peers: Sequence[System]) -> list[str]:
    """One line about ours and each of some peers: versions of its packages, settings of its server and its client."""
    lines = []
    for system in (SYSTEMS[OURS], *peers):
        versions = ", ".join(f"{name} {version(_DISTRIBUTIONS.get(name, name))}" for name in system.modules)
        server, client = system.settings
        lines.append(f"{system.name}{f' ({versions})' if versions else ''}: {server}; client: {client}")
    return lines
