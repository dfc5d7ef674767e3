"""Checks the liveness of replica sets: a set has to serve again soon once a part of it works.

    stuck  L1  a set acknowledges messages `SERVES_S` after its register and one replica in sync work, whatever its
               other replicas do
           L2  all its replicas are in sync within the promised time after everything is repaired

A producer of its own sends to a topic that no group reads. (VOPR of TigerBeetle: a safety mode, and a liveness mode in
which a core is healed and the rest is not.)
"""

from __future__ import annotations

from collections.abc import Collection

import anyio

from model.errors import NotMaster, RlabError
from model.message_queue import MessageQueue
from testbed.simulation.cluster.clients import SimulatedProducer
from testbed.simulation.cluster.cluster import SimulatedCluster
from testbed.simulation.engine.checkers import Checkers

SERVES_S = 10.0
"""An election takes 3 s, and a client that waits for a hung master asks for routes every 5 s."""
POLL_S = 0.2
PROBES = "probes"


class SetLiveness:
    """The liveness check of one run."""

    def __init__(self, cluster: SimulatedCluster, judge: Checkers) -> None:
        self._cluster, self._judge = cluster, judge
        self._producer: SimulatedProducer
        self._n_sent = 0

    async def start(self) -> None:
        """Make the topic and the producer. Raises: RlabError. Cancellation: they may be there."""
        while True:
            try:
                await self._cluster.create_topic(PROBES, queues=1)
            except NotMaster:  # replicas have just joined, and have not confirmed a frame yet
                await anyio.sleep(POLL_S)
            else:
                break
        self._producer = await self._cluster.start_producer(host="prober")

    async def wait_serving(self, lost_hosts: Collection[str] = ()) -> None:
        """Wait until each set acknowledges a message; `lost_hosts` are the hosts that cannot. Cancellation: it ends.

        A set need not serve if only lost replicas are in sync: the working one was removed at the last moment.
        """
        waiting = dict.fromkeys(self._cluster.brokers)
        with anyio.move_on_after(SERVES_S):
            async with anyio.create_task_group() as tasks:
                for name in list(waiting):
                    tasks.start_soon(self._probe, name, waiting)
        for name in waiting:
            row = await self._cluster.register.read(name)
            assert row is not None, "the set was made"
            if {f"{name}-{each}" for each in row.in_sync} - {*lost_hosts}:
                text = f"{name} acknowledges no message {SERVES_S:g} s after the repair"
                self._judge.find("stuck", f"L1: {text} of one replica in sync: {row}; lost: {', '.join(lost_hosts)}")

    async def _probe(self, name: str, waiting: dict[str, None]) -> None:
        while name in waiting:
            self._n_sent += 1
            try:
                await self._producer.send(PROBES, b"%d" % self._n_sent, queue=MessageQueue(PROBES, name, 0))
            except RlabError:
                await anyio.sleep(POLL_S)
            else:
                waiting.pop(name, None)

    async def wait_whole(self, repaired_s: float, within_s: float) -> None:
        """Wait until all replicas of all sets are in sync, and each set acknowledges a message. Cancellation: it ends.

        The time counts from the repair, at `repaired_s` of the loop's clock.
        """
        for name in self._cluster.brokers:
            n_replicas = sum(host.rpartition("-")[0] == name for host in self._cluster.replicas)
            with anyio.CancelScope(deadline=repaired_s + within_s) as left:
                while not await self._is_whole(name, n_replicas):  # noqa: ASYNC110 - virtual time costs nothing
                    await anyio.sleep(POLL_S)
            if left.cancelled_caught:
                row = await self._cluster.register.read(name)
                self._judge.find("stuck", f"L2: not all replicas are in sync {within_s:g} s after the repair: {row}")
                return
        await self.wait_serving()

    async def _is_whole(self, name: str, n_replicas: int) -> bool:
        row = await self._cluster.register.read(name)
        return row is not None and len(row.in_sync) == n_replicas
