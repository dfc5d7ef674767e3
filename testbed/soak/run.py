"""The soak: real servers and members with TLS and keys under load, one of which is killed every few seconds.

    python -m testbed.soak.run --minutes 30 --rate 5000        (`make soak`)

Two name servers, two brokers and four members, each in a process; a process of producers, which is never killed. Of the
other processes a random one is killed every `--kill-every` seconds, and restarted or replaced once the group has
converged. At a third and at two thirds of the time all servers get a new certificate, and all processes a new key.

It fails if a message that was acknowledged was received by no member, if a rule of `rlab check` is broken, if the group
does not converge after a kill, if a server ends by itself, if an old key or certificate is still in use at the end, or
if memory or descriptors of a server grow, although other connections are opened all the time, send garbage or nothing,
and are closed. These conditions do not depend on the speed of the machine; the reached rate is printed and not judged.
"""

from __future__ import annotations

import argparse
import asyncio
import ssl
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

import anyio
from anyio.abc import TaskGroup, UNIXSocketStream
from cryptography.x509 import load_pem_x509_certificate

from broker.store.disk.options import StoreOptions
from client.admin.admin import Admin
from model.access_limits import ACCESS_RELOAD_S
from model.counted import plural
from model.errors import NotAuthenticated, RlabError
from model.events import Event
from process.children import DAEMON, MODULE, Child, Start, children
from process.runtime import FAILED, UNKNOWN, new_loop
from remoting.address import parse_address
from remoting.client import RemotingClient
from remoting.request_code import RequestCode
from remoting.tasks import background_tasks
from testbed.cluster.certificates import AUTHORITY
from testbed.cluster.cluster_bed import ClusterBed
from testbed.cluster.control.barriers import not_stable
from testbed.cluster.control.starter import starter
from testbed.cluster.ports import free_port
from testbed.cluster.rotation import Secrets
from testbed.simulation.checks.leaks import LeakDetector, Margin
from testbed.simulation.checks.process_usage import process_usage
from testbed.soak.strangers import bother
from testbed.soak.verdict import SoakVerdict, print_verdict
from testbed.swarm.members import SwarmOptions
from testbed.swarm.parts import ProcessPart
from traces.check.delivery import DeliveryCheck

TOPIC = GROUP = "soak"
NAME_SERVERS, BROKERS = ("namesrv-1", "namesrv-2"), ("broker-a", "broker-b")
PATIENCE_S = 120.0
"""Time limit for each condition that has to be reached: a machine may be busy with other things."""
POLL_S = 0.2
DOWN_S = (0.1, 2.0)
"""How long a killed server stays away."""
RSS_MARGIN, FD_MARGIN = Margin(1.1, 4, trend=False), Margin(1.2, 16, trend=False)
"""MiB and descriptors. A killed server starts again with few of them, so both go up in steps and there is no trend."""

BYTES_OF_MESSAGE = 400
"""Memory for a short message that is kept, at most."""


class ForkedPart(ProcessPart):
    """A part in a fork, whose standard input and output are one socket."""

    async def end_commands(self) -> None:
        """See `RemotePart`."""
        assert isinstance(self.process.stdin, UNIXSocketStream), "a starter has forked it"
        await self.process.stdin.send_eof()


class Books:
    """The ids of all messages; events are read from the trace of the cluster, and not from the members."""

    def __init__(self) -> None:
        self.check = DeliveryCheck()
        self.acknowledged = self.check.acknowledged
        self.failed = self.check.failed
        self.received = self.check.received

    def event(self, event: Event) -> None:
        """Do nothing with it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SoakOptions:
    """Options of a run."""

    seconds: float
    rate: float
    kill_every_s: float
    members: int
    rotations: int
    seed: int
    folder: Path


class Soak:
    """One run: `run` fills the verdict."""

    def __init__(self, options: SoakOptions, secrets: Secrets, servers: Start, clients: Start) -> None:
        self.verdict = SoakVerdict(options.seed)
        self._options = options
        self._secrets = secrets
        self._start_server = servers
        self._start_client = clients
        self._random = Random(options.seed)
        self._books = Books()
        self._members: dict[str, ProcessPart] = {}
        self._joined = 0
        self._stack: AsyncExitStack
        self._bed: ClusterBed
        self._servers: tuple[list[Child], ...] = ()  # the name servers and the brokers that run
        self._admin: Admin
        self._name_servers = ""
        self._tasks: TaskGroup
        self._interval_s = max(0.4, options.seconds / 200)
        margins = {f"{name}: RSS MiB": RSS_MARGIN for name in NAME_SERVERS}
        # A broker keeps the newest messages in memory, up to its budgets: until these are full it grows, and rightly.
        store, stored_mib = StoreOptions(), options.seconds * options.rate * BYTES_OF_MESSAGE / 2**20
        budget_mib = (store.tail_bytes + store.index_cache_bytes + store.segment_records * 20) / 2**20
        kept = Margin(RSS_MARGIN.ratio, RSS_MARGIN.slack + min(stored_mib, budget_mib), trend=False)
        margins |= {f"{name}: RSS MiB": kept for name in BROKERS}
        margins |= {f"{name}: descriptors": FD_MARGIN for name in (*NAME_SERVERS, *BROKERS)}
        samples = options.seconds / self._interval_s
        self._levels = LeakDetector(warm_up=int(samples / 4), margins=margins)

    async def run(self) -> None:
        """Run it. Raises: RlabError, if the cluster cannot be started. Cancellation: everything is killed."""
        options, verdict = self._options, self.verdict
        async with AsyncExitStack() as self._stack:
            stack = self._stack
            await self._start_cluster(stack)
            self._tasks = await stack.enter_async_context(background_tasks())
            for _ in range(options.members):
                await self._join()
            producers = await self._part(producers=2, rate=options.rate)
            await self._converge()
            began = anyio.current_time()
            await producers.produce()
            self._tasks.start_soon(self._watch_levels)
            self._tasks.start_soon(self._watch_ends)
            await self._torment(began)
            await producers.quiet()
            verdict.seconds = anyio.current_time() - began
            await self._drain()
            await self._until(self._old_secrets, "an old key or certificate is in use")
            await self._ask_rlab_check()
            for part in (producers, *self._members.values()):
                await part.leave()
            self._tasks.cancel_scope.cancel()
        self._fill()

    # --- processes ---------------------------------------------------------------------------------------------------

    async def _start_cluster(self, stack: AsyncExitStack) -> None:
        secrets, folder = self._secrets, self._options.folder
        shared = (
            "--access",
            str(secrets.access),
            "--tls-cert",
            str(secrets.cert),
            "--tls-key",
            str(secrets.key),
            *DAEMON,
        )
        ports = {name: f"127.0.0.1:{free_port()}" for name in (*NAME_SERVERS, *BROKERS)}
        self._name_servers = ",".join(ports[name] for name in NAME_SERVERS)
        commands: dict[str, Sequence[str]] = {}
        for name in NAME_SERVERS:
            commands[name] = [*MODULE, "cli.main", "namesrv", "--listen", ports[name], *shared]
        for name in BROKERS:
            broker_options = ("--name", name, "--listen", ports[name], "--data", str(folder / name))
            # A whole run fits the disk, and the caches of a short one are full before it is half over.
            sizes = ("--segment-size", "16MiB", "--restore-grace", "2", "--namesrv", self._name_servers)
            commands[name] = [*MODULE, "cli.main", "broker", *broker_options, *sizes, *shared]
        start = self._start_server
        first = await stack.enter_async_context(children([(name, commands[name]) for name in NAME_SERVERS], start))
        second = await stack.enter_async_context(children([(name, commands[name]) for name in BROKERS], start))
        self._bed = ClusterBed(first, second, commands, start)
        self._servers = (first, second)
        self._admin = await stack.enter_async_context(Admin(self._name_servers))
        await self._until(self._topic_made, "the topic is not there")

    async def _topic_made(self) -> list[str]:
        if len(await self._admin.brokers()) < len(BROKERS):
            return ["brokers are missing"]
        await self._admin.create_topic(TOPIC, 8)
        return []

    async def _part(self, **counts: Any) -> ProcessPart:
        """Start a part of the swarm: a member, or the producers."""
        self._joined += 1
        # A member may be killed at any moment, so it reports each message at once.
        prompt = ["--prompt"] if "consumers" in counts else []
        process = await self._start_client([*MODULE, "testbed.swarm.worker", *prompt])
        part = ForkedPart(self._joined, process, self._books)
        self._stack.push_async_callback(self._end, part)
        self._tasks.start_soon(part.listen)
        name = f"soak{self._joined}-"
        options = SwarmOptions(
            name_servers=self._name_servers, topic=TOPIC, group=GROUP, run=1, prefix=name, body_bytes=64, **counts
        )
        await part.send_options(options)
        await part.reach("joined")
        return part

    @staticmethod
    async def _end(part: ForkedPart) -> None:
        await part.stop()
        with anyio.CancelScope(shield=True):
            await part.close()

    async def _join(self) -> None:
        part = await self._part(consumers=1)
        self._members[f"member {self._joined}"] = part

    # --- kills and new keys ------------------------------------------------------------------------------------------

    async def _torment(self, began: float) -> None:
        options, verdict = self._options, self.verdict
        due = [began + options.seconds * n / (options.rotations + 1) for n in range(1, options.rotations + 1)]
        next_kill = began + options.kill_every_s
        # On a slow machine a run is longer instead of one in which less happened.
        least_kills = min(3, int(options.seconds / options.kill_every_s))
        while anyio.current_time() < began + options.seconds or due or sum(verdict.kills.values()) < least_kills:
            await anyio.sleep(POLL_S)
            if due and anyio.current_time() >= due[0]:
                del due[0]
                await self._secrets.rotate(partial(anyio.sleep, ACCESS_RELOAD_S + 1))
                verdict.rotations += 1
                await self._converge()
            if anyio.current_time() >= next_kill:
                await self._kill_one()
                next_kill = max(next_kill + options.kill_every_s, anyio.current_time())

    async def _kill_one(self) -> None:
        victims, kills = [*NAME_SERVERS, *BROKERS, *self._members], self.verdict.kills
        # Of each kind first: so the few kills of a short run hit all.
        kinds = (BROKERS, tuple(self._members), NAME_SERVERS)
        n = sum(kills.values())
        name = self._random.choice(kinds[n] if n < len(kinds) else victims)
        counted = name.partition(" ")[0]
        kills[counted] = kills.get(counted, 0) + 1
        began = anyio.current_time()
        if name in self._members:
            part = self._members.pop(name)
            part.process.kill()
            await part.reach("quiet")  # as all states are, when its last line is read
            await part.close()
            await self._join()
        else:
            await self._bed.act(name, "kill")
            await anyio.sleep(self._random.uniform(*DOWN_S))
            await self._bed.act(name, "start")
        if await self._converge():
            self.verdict.converged_s.append(round(anyio.current_time() - began, 2))

    # --- checks ------------------------------------------------------------------------------------------------------

    async def _until(self, missing: Callable[[], Any], otherwise: str) -> bool:
        """Wait until nothing is missing; if that takes too long, record `otherwise` as a failure."""
        left: list[str] = []
        with anyio.move_on_after(PATIENCE_S):
            while True:
                try:
                    left = await missing()
                except RlabError as error:  # a server is away
                    left = [str(error)]
                if not left:
                    return True
                await anyio.sleep(POLL_S)
        self.verdict.wrong.append(f"{otherwise}: {'; '.join(left[:3])}")
        return False

    async def _converge(self) -> bool:
        async def missing() -> list[str]:
            return not_stable(await self._admin.group(GROUP), len(self._members))

        return await self._until(missing, "the group did not converge")

    async def _drain(self) -> None:
        async def missing() -> list[str]:
            n_lost = self._books.check.lost
            return (
                [f"{plural(n_lost, 'message', 'is', 'are')} not received: {self._books.check.missing(5)}"]
                if n_lost
                else []
            )

        await self._until(missing, "lost")

    async def _watch_levels(self) -> None:
        outsider = ssl.create_default_context(cafile=self._secrets.folder / AUTHORITY)
        outsider.check_hostname = False
        while True:
            sample: dict[str, float] = {}
            for child in [each for each in chain(*self._servers) if each.address]:  # the others are being started
                with suppress(OSError):  # it is being killed
                    usage = process_usage(child.process.pid)
                    sample[f"{child.name}: RSS MiB"] = round(usage.rss_bytes / 2**20, 1)
                    sample[f"{child.name}: descriptors"] = usage.fds
                    await anyio.to_thread.run_sync(bother, child.address, outsider)
            self._levels.add_sample(sample)
            await anyio.sleep(self._interval_s)

    async def _watch_ends(self) -> None:
        child = await self._bed.first_end()
        self.verdict.wrong.append(f"{child.name} ended by itself, exit code {child.process.returncode}")

    async def _old_secrets(self) -> list[str]:
        """The servers that present another certificate than the newest, or accept an old key."""
        cert, problems = load_pem_x509_certificate(self._secrets.cert.read_bytes()), []
        for child in chain(*self._servers):
            address = parse_address(child.address)
            shown_certificate = await anyio.to_thread.run_sync(ssl.get_server_certificate, address)
            if load_pem_x509_certificate(shown_certificate.encode()) != cert:
                problems.append(f"{child.name} shows an old certificate")
            for key in self._secrets.old_keys:
                with suppress(NotAuthenticated):
                    async with RemotingClient(key=key) as client:
                        await client.request(child.address, RequestCode.GET_SERVER_STATE)
                    problems.append(f"{child.name} takes an old key of {key.user}")
        return problems

    async def _ask_rlab_check(self) -> None:
        # A busy machine may leave a queue without an owner for long; that it is owned in the end is checked above.
        limits = ("--orphan", str(PATIENCE_S), "--double-owner", "1")
        command = (*MODULE, "cli.main", "check", "--namesrv", self._name_servers, "--group", GROUP, "--json", *limits)
        done = await anyio.run_process(command, check=False)
        self.verdict.check = {0: "yes", FAILED: "no", UNKNOWN: "unknown"}.get(done.returncode, "none")
        if done.returncode not in (0, UNKNOWN):  # killed processes take their last events with them
            self.verdict.wrong.append(f"rlab check says {self.verdict.check}: {done.stdout.decode()[:4000]}")

    def _fill(self) -> None:
        verdict, check = self.verdict, self._books.check
        verdict.sent, verdict.failed_sends, verdict.lost = check.sent, check.failed_sends, check.lost
        verdict.received, verdict.received_again = check.received_unique, check.duplicates
        verdict.sent_per_s = round(check.sent / verdict.seconds)
        verdict.wrong += self._levels.grown()
        for name in self._levels.samples[-1]:
            values = [sample[name] for sample in self._levels.samples if name in sample]
            verdict.levels[name] = values[:: max(1, len(values) // 20)]


def main() -> int:
    """Run it as asked; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--rate", type=float, default=5_000.0, help="messages per second")
    parser.add_argument("--kill-every", type=float, default=10.0, metavar="SECONDS")
    parser.add_argument("--members", type=int, default=4)
    parser.add_argument("--rotations", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1, help="decides what is killed")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rlab-soak-") as folder:
        options = SoakOptions(
            seconds=arguments.minutes * 60,
            rate=arguments.rate,
            kill_every_s=arguments.kill_every,
            members=arguments.members,
            rotations=arguments.rotations,
            seed=arguments.seed,
            folder=Path(folder),
        )
        secrets = Secrets(options.folder)
        # Forks have the environment of their starter, and so the key of its user.
        secrets.act_as("clients")
        with starter() as start_client:
            secrets.act_as("servers")
            with starter() as start_server, asyncio.Runner(loop_factory=new_loop) as runner:
                soak = Soak(options, secrets, start_server, start_client)
                runner.run(soak.run())
    print_verdict(soak.verdict, as_json=arguments.json)
    return bool(soak.verdict.wrong)


if __name__ == "__main__":
    sys.exit(main())
