"""Transactions of a programme, and the books that record how each must end.

The books stand for the database that the services of a producer group share: all producers of a run use them. A local
branch enters its message as committed, or fails; a check that finds nothing enters it as rolled back, so that a branch
which comes later fails. After each repair the brokers have to agree with the books: a message committed there is
published once, nothing else is published, and no transaction is open. The consumers' view is the ledger's: a committed
message counts as sent, any other one does not.
"""

from __future__ import annotations

from collections import Counter, defaultdict

import anyio

from model.counted import plural
from model.decode import decode_messages
from model.errors import RlabError
from model.limits import MAX_PULL_BYTES
from model.message import Message, MessageExt
from model.message_queue import MessageQueue
from model.transaction import TransactionState
from testbed.simulation.cluster.clients import SimulatedTransactionProducer
from testbed.simulation.cluster.cluster import SimulatedCluster
from testbed.simulation.engine.checkers import Checkers
from testbed.simulation.engine.programme import Programme
from traces.check.ledger import NOWHERE, SentMessage

GROUP = "producers"


class BranchAborted(Exception):
    """A local branch failed: by itself, or because a check had rolled its transaction back."""


class SimulatedTransactions:
    """The transactions of one run."""

    def __init__(self, programme: Programme, cluster: SimulatedCluster, checkers: Checkers) -> None:
        self.entries: dict[str, bool] = {}  # the books: message id -> whether its branch has succeeded
        self.checks = 0  # that reached the users' code
        self.calm = False  # set while the cluster is whole: then nothing fails by chance
        self._load, self._cluster, self._judge = programme.load, cluster, checkers
        self._topics = [topic.name for topic in programme.topic]
        self._random = cluster.simulation.random
        self._branches: defaultdict[str, dict[anyio.CancelScope, None]] = defaultdict(dict)  # of each host

    async def start_producer(self, host: str) -> SimulatedTransactionProducer:
        """Start a producer of the group. Raises and cancellation: see `Producer.start`."""
        return await self._cluster.start_transaction_producer(GROUP, self._check, host=host, retries=1)

    def end_branches(self, host: str) -> None:
        """End the local branches of a process that ends."""
        for scope in self._branches.pop(host, {}):
            scope.cancel()

    async def run(self, producer: SimulatedTransactionProducer, message: Message, sent: SentMessage) -> None:
        """Run one transaction, with any outcome. Cancellation: the outcome is left to the check."""
        branches = self._branches[producer.host]
        with anyio.CancelScope() as scope, self._cluster.simulation.on_host(producer.host):
            branches[scope] = None
            try:
                await self._transact(producer, message, sent)
            except BranchAborted:
                pass
            except RlabError:
                self._judge.failed_sends += 1
            finally:
                branches.pop(scope, None)

    async def _transact(self, producer: SimulatedTransactionProducer, message: Message, sent: SentMessage) -> None:
        async with producer.producer.transaction(message) as tx:
            await anyio.sleep(self._random.random() ** 2 * self._load.branch_s)
            if self._happens(self._load.fails) or not self.entries.get(tx.message_id, True):
                raise BranchAborted
            self.entries[tx.message_id] = True
            self._judge.acknowledged(sent, message.body, NOWHERE, -1, "")
            await anyio.sleep(self._random.random() ** 2 * self._load.branch_s)
            if self._happens(self._load.undecided):
                tx.unknown()

    async def _check(self, message: MessageExt) -> TransactionState:
        self.checks += 1
        await anyio.sleep(self._random.random())
        if self._happens(self._load.undecided):
            if self._random.random() < 0.5:
                raise BranchAborted
            return TransactionState.UNKNOWN
        is_committed = self.entries.setdefault(message.message_id, False)
        return TransactionState.COMMIT if is_committed else TransactionState.ROLLBACK

    def _happens(self, chance: float) -> bool:
        return not self.calm and self._random.random() < chance

    # --- the brokers -------------------------------------------------------------------------------------------------

    @property
    def open(self) -> int:
        """Transactions that no broker has seen the end of."""
        return sum(len(each.running.broker.transactions.table) for each in self._cluster.brokers.values())

    def compare(self) -> None:
        """Compare the brokers of a whole cluster with the books; differences are findings."""
        find, published = self._judge.find, self._published()
        if self.open:
            find(
                "open-transaction",
                f"{plural(self.open, 'transaction', 'is', 'are')} open while producers of their group live",
            )
        for message_id, is_committed in self.entries.items():
            if is_committed and not published[message_id]:
                find("lost-write", f"message {message_id} is committed, and was not published")
        for message_id, n in published.items():
            if not self.entries.get(message_id):
                how = "rolled back" if message_id in self.entries else "unknown to the books"
                find("phantom", f"message {message_id} was published, and is {how}")
            elif n > 1:
                find("duplicate", f"message {message_id} was published {n} times")

    def _published(self) -> Counter[str]:
        """Message id -> how often it is stored in its topic, read from the brokers' own stores."""
        published: Counter[str] = Counter()
        for name, server in self._cluster.brokers.items():
            store, topics = server.running.broker.store, server.running.broker.topics.table
            for topic in self._topics:
                if (entry := topics.get(topic)) is None:
                    continue
                for queue_id in range(entry.config.write_queue_nums):
                    offset, end = 0, store.max_offset(entry.topic_id, queue_id)
                    while offset < end:
                        read = store.read(entry.topic_id, queue_id, offset, max_n=1024, max_bytes=MAX_PULL_BYTES)
                        messages = decode_messages(MessageQueue(topic, name, queue_id), read.body)
                        published.update(message.message_id for message in messages)
                        offset = read.next_offset
        return published
