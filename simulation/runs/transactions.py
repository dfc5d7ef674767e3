"""Transactions under faults: producers and brokers that crash, connections that are cut, lost ends and lost checks.

    python -m simulation.runs.transactions --seeds 500

Each seed has a cluster of its own in virtual time. The producers of one group run transactions against common books,
as services with one database would: a local branch enters its message as committed, or fails; a check that finds
nothing enters it as rolled back, so that a branch that comes later fails. Ends and checks are lost on purpose, beside
the random faults (`simulation/faults/torture_faults.py`). Then all is repaired, and the brokers must agree with the
books: what is committed there is published once, nothing else is published, and no transaction is open.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import anyio
from anyio.abc import TaskGroup

from broker.transactions.table import TransactionOptions
from model.decode import decode_messages
from model.errors import ConnectionLost, RlabError
from model.limits import MAX_PULL_BYTES
from model.message import Message, MessageExt
from model.message_queue import MessageQueue
from model.transaction import TransactionState
from simulation.cluster.clients import SimulatedTransactionProducer
from simulation.cluster.cluster import SimulatedCluster
from simulation.faults.full_disk import FillingDisks
from simulation.faults.torture_faults import Faults
from simulation.runs.scenario import SeedVerdict, run_seed, run_seeds, seeds_parser

TOPIC, QUEUES, GROUP = "orders", 2, "shop"
OPTIONS = TransactionOptions(timeout_s=2.0, check_interval_s=3.0, max_checks=1_000)
"""Soon, so that a run of minutes has many checks; and never given up, so that every transaction ends."""
LOST = 0.15
"""How often an end, its answer, or a check is lost."""
FAILS, UNDECIDED = 0.2, 0.15
"""How often a local branch fails, and how often a transaction says nothing or a check has no answer."""
BRANCH_S, PAUSE_S = (0.0, 0.05, 1.0, 6.0), (0.0, 0.5, 2.0)
WHOLE_AGAIN_S = 240.0
"""How long after the repair a transaction may be open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionRunOptions:
    """Options of a run: so many producers, for so long under faults."""

    seed: int = 0
    producers: int = 3
    duration_s: float = 60.0


@dataclass(slots=True)
class TransactionVerdict(SeedVerdict):
    """Result of a run."""

    committed: int = 0  # by the books
    rolled_back: int = 0
    checks: int = 0  # that reached the users' code


class Aborted(Exception):
    """A local branch found that a check had rolled its transaction back."""


class Books:
    """What all producers of the group write to: message id -> whether its local branch is done, or never will be."""

    def __init__(self) -> None:
        self.entries: dict[str, bool] = {}

    def commit(self, message_id: str) -> None:
        """Enter that a local branch is done; Aborted if a check was faster."""
        if not self.entries.setdefault(message_id, True):
            raise Aborted

    def roll_back(self, message_id: str) -> bool:
        """Enter that a local branch never will be done, unless it is; returns whether it is."""
        return self.entries.setdefault(message_id, False)


def run_transactions(options: TransactionRunOptions) -> TransactionVerdict:
    """Run one seed in a world and a directory of its own; equal options give equal verdicts."""
    return run_seed(
        options.seed, TransactionVerdict, lambda *world: _TransactionRun(options, *world).run(), transactions=OPTIONS
    )


class _TransactionRun:
    """One run."""

    def __init__(
        self, options: TransactionRunOptions, cluster: SimulatedCluster, disks: FillingDisks, tasks: TaskGroup
    ) -> None:
        self.options, self.cluster, self.tasks = options, cluster, tasks
        self.simulation, self.random = cluster.simulation, cluster.simulation.random
        self.faults = Faults(cluster, disks, self._start_producer)
        self.verdict = TransactionVerdict(options.seed)
        self.books = Books()
        self.lost: Counter[str] = Counter()
        self.stopping = self.whole = False
        cluster.client_options |= {"heartbeat_interval_s": 2.0, "route_poll_interval_s": 2.0}
        cluster.watchers.append(lambda event: cluster.events.clear())

    async def run(self) -> TransactionVerdict:
        """Transact, break, repair, wait until nothing is open, and compare the brokers with the books."""
        verdict, loop = self.verdict, self.simulation.loop
        await self.cluster.create_topic(TOPIC, queues=QUEUES)
        for n in range(self.options.producers):
            await self.faults.fill(f"shop-{n}")
        await self.faults.chaos(self.options.duration_s)
        self.stopping = True
        verdict.faults = self.faults.done + self.lost
        await self.faults.make_whole()
        self.whole = True
        until = loop.time() + WHOLE_AGAIN_S
        while self._open() and loop.time() < until:  # noqa: ASYNC110 - the table offers no event to wait for
            await anyio.sleep(0.5)
        if self._open():
            verdict.violations.append(f"{self._open()} transactions are open while producers of their group live")
        self._compare()
        verdict.took_s = loop.time()
        return verdict

    def _open(self) -> int:
        return sum(len(each.running.broker.transactions.table) for each in self.cluster.brokers.values())

    def _compare(self) -> None:
        verdict, entries = self.verdict, self.books.entries
        published = self._published()
        committed = [message_id for message_id, is_committed in entries.items() if is_committed]
        verdict.committed, verdict.rolled_back = len(committed), len(entries) - len(committed)
        verdict.violations += [
            f"{each} is committed, and was not published" for each in committed if not published[each]
        ]
        verdict.violations += [
            f"{each} was published, and is {'rolled back' if each in entries else 'unknown to the books'}"
            for each in published
            if not entries.get(each)
        ]
        verdict.violations += [f"{each} was published {n} times" for each, n in published.items() if n > 1]

    def _published(self) -> Counter[str]:
        """Message id -> how often it is stored in the topic, read from the brokers' own stores."""
        published: Counter[str] = Counter()
        for name, server in self.cluster.brokers.items():
            store, topics = server.running.broker.store, server.running.broker.topics.table
            entry = topics.get(TOPIC)
            for queue_id in range(QUEUES) if entry is not None else ():
                assert entry is not None
                offset, end = 0, store.max_offset(entry.topic_id, queue_id)
                while offset < end:
                    read = store.read(entry.topic_id, queue_id, offset, max_n=1024, max_bytes=MAX_PULL_BYTES)
                    messages = decode_messages(MessageQueue(TOPIC, name, queue_id), read.body)
                    published.update(message.message_id for message in messages)
                    offset = read.next_offset
        return published

    # --- producers ---------------------------------------------------------------------------------------------------

    async def _start_producer(self, slot: str) -> _Worker:
        producer = await self.cluster.start_transaction_producer(GROUP, self._check, host=slot)
        self.cluster.producers.remove(producer)  # the run stops it, or kills it
        self._lose(producer)
        worker = _Worker(producer, anyio.CancelScope())
        self.tasks.start_soon(self._work, worker)
        return worker

    def _lose(self, producer: SimulatedTransactionProducer) -> None:
        """Let ends, answers to ends, and checks of a producer get lost now and then, and ends be sent twice."""
        ends, answers = producer.producer._ends, producer.producer._answers
        end, asked = ends.end, answers.asked

        def lossy_end(*arguments: Any, **more: Any) -> asyncio.Future[int]:
            if self._happens(LOST):
                self.lost["lost end"] += 1
                gone: asyncio.Future[int] = self.simulation.loop.create_future()
                gone.set_exception(ConnectionLost("lost on purpose"))
                return gone
            answer = end(*arguments, **more)
            if self._happens(LOST):
                self.lost["repeated end"] += 1
                answer.add_done_callback(lambda done: done.cancelled() or done.exception())
                return end(*arguments, **more)
            return answer

        def lossy_asked(*arguments: Any) -> None:
            if self._happens(LOST):
                self.lost["lost check"] += 1
            else:
                asked(*arguments)

        ends.end = lossy_end  # type: ignore[method-assign]  # the fault
        answers.asked = lossy_asked  # type: ignore[method-assign, assignment]

    def _happens(self, chance: float) -> bool:
        return not self.whole and self.random.random() < chance

    async def _work(self, worker: _Worker) -> None:
        """Run one transaction after another until the process is killed, or the run stops them."""
        with worker.scope, self.simulation.on_host(worker.producer.host):
            while not self.stopping:
                await anyio.sleep(self.random.choice(PAUSE_S) * self.random.random())
                self.tasks.start_soon(self._transact_in, worker)

    async def _transact_in(self, worker: _Worker) -> None:
        with worker.scope_of_one() as scope, self.simulation.on_host(worker.producer.host):
            try:
                await self._transact(worker.producer)
            except (RlabError, Aborted, ZeroDivisionError):
                pass
            finally:
                worker.scopes.pop(scope, None)

    async def _transact(self, producer: SimulatedTransactionProducer) -> None:
        async with producer.producer.transaction(Message(TOPIC, b"order")) as tx:
            self.verdict.sent += 1
            await anyio.sleep(self.random.choice(BRANCH_S) * self.random.random())
            if self._happens(FAILS):
                raise ZeroDivisionError
            self.books.commit(tx.message_id)
            await anyio.sleep(self.random.choice(BRANCH_S) * self.random.random())
            if self._happens(UNDECIDED):
                tx.unknown()

    async def _check(self, message: MessageExt) -> TransactionState:
        self.verdict.checks += 1
        await anyio.sleep(self.random.random())
        if self._happens(UNDECIDED):
            if self.random.random() < 0.5:
                raise ZeroDivisionError
            return TransactionState.UNKNOWN
        is_committed = self.books.roll_back(message.message_id)
        return TransactionState.COMMIT if is_committed else TransactionState.ROLLBACK


class _Worker:
    """A producer process with its local branches, as the faults see it."""

    def __init__(self, producer: SimulatedTransactionProducer, scope: anyio.CancelScope) -> None:
        self.producer = producer
        self.scope = scope
        self.scopes: dict[anyio.CancelScope, None] = {}

    def scope_of_one(self) -> anyio.CancelScope:
        """A scope for one more local branch, which ends with the process."""
        scope = anyio.CancelScope()
        self.scopes[scope] = None
        return scope

    @property
    def live(self) -> bool:
        """Whether it runs and can be reached."""
        return self.producer.live

    @live.setter
    def live(self, live: bool) -> None:
        self.producer.live = live

    def _end_branches(self) -> None:
        for scope in (self.scope, *self.scopes):
            scope.cancel()

    async def stop(self) -> None:
        """Stop it, in the middle of its branches."""
        self._end_branches()
        await self.producer.stop()

    async def crash(self) -> None:
        """Kill it, in the middle of its branches."""
        self._end_branches()
        await self.producer.crash()

    def hang(self) -> Any:
        """Cut it off without a reset."""
        return self.producer.hang()


# --- many seeds ------------------------------------------------------------------------------------------------------


def transaction_figures(verdict: TransactionVerdict) -> str:
    """The counts of a verdict, in words."""
    return (
        f"{verdict.sent:,} transactions, {verdict.committed:,} committed, {verdict.rolled_back:,} rolled back, "
        f"{verdict.checks:,} checks"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it as a command; returns the exit code."""
    parser = seeds_parser("simulation.runs.transactions", __doc__)
    parser.add_argument("--duration", type=float, default=60.0, help="seconds under faults in each, virtual")
    chosen = parser.parse_args(arguments)

    def options_of(seed: int) -> TransactionRunOptions:
        return TransactionRunOptions(seed=seed, duration_s=chosen.duration)

    return run_seeds(chosen, TransactionVerdict, options_of, run_transactions, transaction_figures)


if __name__ == "__main__":
    sys.exit(main())
