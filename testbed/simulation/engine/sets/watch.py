"""Observes the replica sets of a run for `testbed/simulation/checks/replicas.py`: all the time, and at rest."""

from __future__ import annotations

import anyio

from broker.durability.metadata_file import MetadataFile
from model.decode import decode_messages
from model.events import Event, EventKind
from model.limits import MAX_PULL_BYTES
from model.message_queue import MessageQueue
from model.replica_set import ReplicaSet
from remoting.command import Command
from remoting.request_code import RequestCode
from remoting.wire.field import Effect
from remoting.wire.schema import SCHEMA
from testbed.simulation.checks.replicas import CopyOfLog, ReplicaCheck, ServingMaster
from testbed.simulation.cluster.cluster import SimulatedCluster
from testbed.simulation.cluster.sets import SimulatedReplica, SimulatedSet
from testbed.simulation.engine.checkers import Checkers
from testbed.simulation.engine.programme import Programme

POLL_S = 0.2
SETTLE_S = 2.5
"""Until the members that start with the run have their queues; no handover begins sooner."""


class SetWatch:
    """The observer of one run."""

    def __init__(self, programme: Programme, cluster: SimulatedCluster, checkers: Checkers) -> None:
        self.check = ReplicaCheck()
        self._programme, self._cluster, self._judge = programme, cluster, checkers
        self._topics = [topic.name for topic in programme.topic]
        self._n_reported = 0
        self._dropped = 0  # times that a member lost a queue after the groups had settled
        self._settled_s = float("inf")
        cluster.watchers.append(self._event)
        checkers.placed.append(self._placed)

    @property
    def _sets(self) -> list[SimulatedSet]:
        return [each for each in self._cluster.brokers.values() if isinstance(each, SimulatedSet)]

    def _event(self, event: Event) -> None:
        if event.kind == EventKind.MASTER_ELECTED:
            self.check.elected(event.broker, int(event.detail.split()[1]), event.n)
            self._serving(event.broker)
        elif event.kind == EventKind.LOG_CUT:
            self.check.cut(event.broker, int(event.node.rpartition("-")[2]), event.offset, event.version)
        elif event.kind == EventKind.QUEUE_DROPPED and self._cluster.simulation.loop.kernel.now_s > self._settled_s:
            self._dropped += 1

    def answered(self, host: str, request: Command) -> None:
        """A replica answers a request without an error; only a master may do that, unless any server may."""
        replica, code = self._cluster.replicas.get(host), RequestCode(request.code)
        if replica is None or not replica.can_be_killed or SCHEMA[code].effect in (None, Effect.LOCAL):
            return
        mastering = None if replica.process is None else replica.process.mastering
        if mastering is not None:
            name, replica_id = host.rpartition("-")[0], row_id(replica)
            self.check.answered(name, replica_id, mastering.epoch, code.name)

    def _placed(self, queue: MessageQueue, offset: int, body: bytes, seen: bool) -> None:
        if queue.topic in self._topics:
            self.check.placed(queue, offset, body, seen=seen)

    async def watch(self) -> None:
        """Look at all sets again and again. Cancellation: it ends."""
        self._settled_s = self._cluster.simulation.loop.time() + SETTLE_S
        while True:
            for each in self._sets:
                await self._poll(each)
            self.report_violations()
            await anyio.sleep(POLL_S)

    def report_violations(self) -> None:
        """Report what was found since the last call, also when the run has broken down."""
        for replica in self._cluster.replicas.values():
            for reason in replica.bad_starts:
                self.check.started_badly(replica.name.rpartition("-")[0], row_id(replica), reason)
            replica.bad_starts.clear()
        for line in self.check.violations[self._n_reported :]:
            kind, _, text = line.partition(": ")
            self._judge.find(kind, text)
        self._n_reported = len(self.check.violations)

    def _serving(self, name: str) -> None:
        """Find the replicas of a set that may serve now; a process that stands still serves nothing."""
        simulation, serving = self._cluster.simulation, []
        standstill, now_s = simulation.network.standstill, simulation.loop.kernel.now_s
        simulated_set = self._cluster.brokers[name]
        assert isinstance(simulated_set, SimulatedSet)
        for replica in simulated_set.replicas:
            process, host = replica.process, replica.host
            mastering = None if process is None or not replica.serves else process.mastering
            if mastering is None or mastering.running is None or standstill.stands(host):
                continue
            if now_s < standstill.woke_at.get(host, float("-inf")) + POLL_S:
                continue  # it compares its clocks before it serves the next request
            with simulation.on_host(host):
                if mastering.sender.refusal() is None:
                    serving.append(row_id(replica))
        self.check.may_serve(name, serving)

    async def _poll(self, simulated_set: SimulatedSet) -> None:
        row = await self._cluster.register.read(simulated_set.name)
        if row is None:
            return
        masters = []
        for replica in simulated_set.replicas:
            process = replica.process
            mastering = None if process is None or not replica.serves else process.mastering
            if mastering is not None and mastering.running is not None:
                sender = mastering.sender
                masters.append(
                    ServingMaster(replica_id=row_id(replica), epoch=mastering.epoch, waits_for=sender.waits_for)
                )
                if (row_id(replica), mastering.epoch) == (row.master, row.epoch):  # and not one that knows of no other
                    self.check.committed(simulated_set.name, sender.committed_position, mastering.epoch)
                    if sender.committed_position:  # no request is served before
                        shown_position = mastering.running.broker.store.shown_position
                        self.check.shown(row, shown_position, sender.committed_position)
                        self._ends(simulated_set.name, replica)
        self.check.check(row, masters)
        self._serving(simulated_set.name)

    def _ends(self, name: str, replica: SimulatedReplica) -> None:
        broker = replica.running.running
        assert broker is not None, "it serves"
        store, topics = broker.broker.store, broker.broker.topics.table
        self.check.granted(name, broker.broker.leases.table.newest_token)
        for topic in self._topics:
            entry = topics.get(topic)
            for queue_id in range(entry.config.write_queue_nums if entry is not None else 0):
                assert entry is not None
                self.check.ended(MessageQueue(topic, name, queue_id), store.max_offset(entry.topic_id, queue_id))

    # --- at rest -----------------------------------------------------------------------------------------------------

    async def wait_in_sync(self, timeout_s: float) -> None:
        """Wait until all replicas of a whole cluster are in sync and have everything, and compare them."""
        messages: dict[tuple[MessageQueue, int], bytes] = {}
        for simulated_set in self._sets:
            with anyio.move_on_after(timeout_s):
                while not await self._is_whole(simulated_set):  # noqa: ASYNC110 - virtual time costs nothing
                    await anyio.sleep(POLL_S)
            row = await self._cluster.register.read(simulated_set.name)
            assert row is not None, "the set was made"
            if not await self._is_whole(simulated_set):
                text = f"I4: {timeout_s:g} s after the repair not all replicas are in sync: {row}"
                self._judge.find("missing-copy", text)
                return
            self.check.rested(row, [self._copy_of(simulated_set, replica, row) for replica in simulated_set.replicas])
            messages |= self._messages_of(simulated_set)
        self.check.stored(messages)
        if all(step.do == "hand_over" for step in self._programme.step):
            self.check.handovers_only(self._judge.redelivered, self._dropped)
        self.report_violations()

    async def _is_whole(self, simulated_set: SimulatedSet) -> bool:
        row, master = await self._cluster.register.read(simulated_set.name), simulated_set.master
        if row is None or master is None or master.running.mastering is None:
            return False
        sender = master.running.mastering.sender
        return len(row.in_sync) == len(simulated_set.replicas) and sender.is_idle

    def _copy_of(self, simulated_set: SimulatedSet, replica: SimulatedReplica, row: ReplicaSet) -> CopyOfLog:
        directory = self._cluster.data_dir / replica.name
        segments = {int(path.stem): path.read_bytes() for path in sorted(directory.glob("*.log"))}
        master = simulated_set.running.broker.metadata
        names = sorted({table for table, number in master.declared if not number and master.declared[table, number]})
        tables = _tables_of(replica)
        return CopyOfLog(
            replica_id=row_id(replica),
            in_sync=row_id(replica) in row.in_sync,
            segments=segments,
            tables={name: list(tables.rows(f"select * from {name}")) for name in names},
        )

    def _messages_of(self, simulated_set: SimulatedSet) -> dict[tuple[MessageQueue, int], bytes]:
        """Place -> body of every message in the topics of the programme at the master."""
        broker = simulated_set.running.broker
        messages: dict[tuple[MessageQueue, int], bytes] = {}
        for topic in self._topics:
            if (entry := broker.topics.table.get(topic)) is None:
                continue
            for queue_id in range(entry.config.write_queue_nums):
                queue, offset = MessageQueue(topic, simulated_set.name, queue_id), 0
                while offset < broker.store.max_offset(entry.topic_id, queue_id):
                    read = broker.store.read(entry.topic_id, queue_id, offset, max_n=1024, max_bytes=MAX_PULL_BYTES)
                    for message in decode_messages(queue, read.body):
                        messages[queue, message.offset] = message.body
                    offset = read.next_offset
        return messages


def row_id(replica: SimulatedReplica) -> int:
    """The replica id of a host: replicas join in the order of their numbers."""
    return int(replica.name.rpartition("-")[2])


def _tables_of(replica: SimulatedReplica) -> MetadataFile:
    process = replica.running
    if process.running is not None:
        return process.running.broker.metadata
    assert process.following is not None, "it follows"
    return process.following.tables
