"""security-cost: the cost of access control and of TLS for sends and for pulls, with and without them in turns.

Three clusters run side by side, an open one, one with access control and one with TLS, each with a producer and with a
member that pulls. The rounds of each secured one take turns with the rounds of the open one. Name server and broker
have the same options, and a connection proves its key, or shakes hands, before it is measured.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from client import Message, Producer
from model.limits import PULL_BATCH
from remoting.security.key import SECRET_BYTES, Key
from remoting.security.login import KEY_FILE
from remoting.security.tls.trust import TLS_CA
from testbed.bench.kit.echo import BODY, TOPIC
from testbed.bench.kit.processes import cluster_processes
from testbed.bench.kit.report import Result
from testbed.bench.kit.rounds import Progress, Round, Sizes, in_turns
from testbed.bench.throughput.pull import QUEUES, fill, leases, member_client, pulling
from testbed.bench.throughput.send import IN_FLIGHT, make_round, sending
from testbed.bench.throughput.trace_cost import MIN_TURNS, compute_cost
from testbed.cluster.certificates import AUTHORITY, make_certificate

_RIGHTS = 'brokers = ["*"]\nadmin = true\nproduce = ["*"]\nconsume = ["*"]\ngroups = ["*"]\n'


@dataclass(frozen=True, slots=True)
class _Side:
    """The rounds of one cluster."""

    sends: Round
    pulls: Round


async def bench_security_cost(sizes: Sizes, progress: Progress) -> list[Result]:
    """Measure sends and pulls, with access control and with TLS, each against a cluster that has neither."""
    repeat = max(MIN_TURNS, sizes.repeat)
    results = []
    with tempfile.TemporaryDirectory(prefix="rlab-bench-") as folder:
        ways = {"access": access(Path(folder)), "tls": tls(Path(folder))}
        async with AsyncExitStack() as stack:
            plain = await stack.enter_async_context(_side("open", (), {}, sizes, progress))
            sides = {
                name: await stack.enter_async_context(_side(name, options, variables, sizes, progress))
                for name, (options, variables) in ways.items()
            }
            for name, side in sides.items():  # first: sends make the topics longer, not all of them by the same
                turns = await in_turns(side.pulls, plain.pulls, repeat)
                results.append(compute_cost(f"{name}-cost-pull-{PULL_BATCH}", turns))
            for name, side in sides.items():
                turns = await in_turns(side.sends, plain.sends, repeat)
                results.append(compute_cost(f"{name}-cost-send-{IN_FLIGHT}", turns))
    return results


def access(folder: Path) -> tuple[Sequence[str], Mapping[str, str]]:
    """Options of servers that know one user, and variables of its clients."""
    key, access, file = Key("bench", secrets.token_bytes(SECRET_BYTES)), folder / "access.toml", folder / "bench.key"
    for path, text in ((access, f'[users.bench]\nkeys = ["{key.hash()}"]\n{_RIGHTS}'), (file, key.text())):
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")
    return ("--access", str(access)), {KEY_FILE: str(file)}


def tls(folder: Path) -> tuple[Sequence[str], Mapping[str, str]]:
    """Options of servers with a certificate, and variables of clients that trust its authority."""
    cert, key = make_certificate(folder, "server", ["127.0.0.1"], 2)
    return ("--tls-cert", str(cert), "--tls-key", str(key)), {TLS_CA: str(folder / AUTHORITY)}


@asynccontextmanager
async def _side(
    label: str, options: Sequence[str], variables: Mapping[str, str], sizes: Sizes, progress: Progress
) -> AsyncIterator[_Side]:
    async with AsyncExitStack() as stack:
        with environment(variables):  # servers get it when they start, and a client reads it when it connects
            cluster = await stack.enter_async_context(cluster_processes({TOPIC: QUEUES}, both=options))
            progress(f"filling the queues, {label}")
            queues = await fill(cluster.name_server, sizes.backlog)
            producer = await stack.enter_async_context(Producer(cluster.name_server))
            await producer.send(Message(TOPIC, BODY))
            remoting = await stack.enter_async_context(member_client())
            connection = await remoting.connect(cluster.broker.address)
            tokens = await leases(connection, queues)
        yield _Side(
            make_round(sending(producer), IN_FLIGHT, sizes, progress, f"send, {label}"),
            make_round(pulling(connection, tokens, sizes.backlog), QUEUES, sizes, progress, f"pull, {label}"),
        )


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables of this process, and of those that it starts, as long as the block."""
    old_environment = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            os.environ.pop(name)
        os.environ.update(old_environment)
