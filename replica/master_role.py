"""The role of the master: runs the ordinary broker on the directory of a replica, for one epoch.

The broker serves clients, and a sender sends its log and its tables to the other replicas. The broker stops once the
row of the register has another master, or a newer epoch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import anyio

from broker.broker import Broker, RunningBroker, run_broker
from broker.config import Mastership
from broker.feature import Core
from model.errors import RlabError
from model.events import EventKind
from model.replica_limits import FAILING_DISK_S
from model.replica_set import Elect, ReplicaSet
from remoting.request_code import RequestCode
from remoting.server import Handler
from remoting.tasks import background_tasks
from replica.config import ReplicaConfig
from replica.mastership.election import Election
from replica.mastership.handover import hand_over
from replica.membership import Membership
from replica.stream.sender import ReplicaSender

logger = logging.getLogger(__name__)


class SetSender(ReplicaSender):
    """The sender of a master, which also serves requests about the set: `own` has their handlers."""

    def __init__(self, own_handlers: Mapping[RequestCode, Handler], *arguments: Any) -> None:
        super().__init__(*arguments)
        self._own = own_handlers

    def handlers(self) -> Mapping[RequestCode, Handler]:
        """See `Feature.handlers`."""
        return {**super().handlers(), **self._own}


class MasterRole:
    """One mastership. Each has an epoch of its own.

    Attributes:
        epoch: the number of the mastership.
        running: the broker, while it runs.
        sender: the stream to the other replicas, once the broker runs.
    """

    running: RunningBroker | None = None
    sender: SetSender

    def __init__(
        self,
        config: ReplicaConfig,
        membership: Membership,
        listen: str,
        own_handlers: Mapping[RequestCode, Handler],
        election: Election | None = None,
    ) -> None:
        self.epoch = membership.row.epoch
        self._config, self._membership, self._listen, self._own = config, membership, listen, own_handlers
        self._election = election
        self._one_handover = anyio.Lock()

    @property
    def is_current(self) -> bool:
        """Whether the newest known row has this replica as the master of this epoch."""
        row = self._membership.row
        return (row.master, row.epoch) == (self._membership.replica_id, self.epoch)

    @property
    def committed_position(self) -> int | None:
        """Log position up to which all replicas in sync have the log; None before the broker runs."""
        return None if self.running is None else self.sender.committed_position

    @property
    def has_damage(self) -> bool:
        """Whether the broker has found damage in its log."""
        return self.running is not None and bool(self.running.broker.store.damage.report())

    async def run(self, began: Callable[[RunningBroker], None]) -> None:
        """Serve until another replica is the master; `began` is called once the broker listens.

        Raises:
            ConfigError, StoreError: see `run_broker`.

        Cancellation: the broker stops as at the end of `run_broker`.
        """
        membership, row = self._membership, self._membership.row
        config = replace(
            self._config.broker,
            listen=self._listen,
            replicator=self._make_sender,
            replica=Mastership(row.set_id, row.register_id, self.epoch, membership.replica_id),
        )
        async with run_broker(config) as running, background_tasks() as tasks:
            tasks.start_soon(self.sender.run)
            if self._config.elect is not Elect.OPERATOR:
                tasks.start_soon(self._leave_a_failing_disk, running.broker)
            self.running = running
            events = running.broker.events
            events.emit(EventKind.MASTER_ELECTED, broker=row.name, n=self.epoch, detail=self._describe_start())
            began(running)
            while self.is_current:
                await membership.wait_changed()
                self.sender.saw(membership.row)
            events.emit(EventKind.MASTER_DEPOSED, broker=row.name, n=self.epoch, detail=str(membership.row))
            logger.warning("%s: this replica is no longer the master: %s", row.name, membership.row)

    async def _leave_a_failing_disk(self, broker: Broker) -> None:
        """Hand over when the disk of this replica fails or hangs and another replica is in sync, so its disk works.

        This replica is not in sync afterwards. So it cannot become the master again before its disk works.
        """
        while True:
            await broker.barrier.wait_failing(FAILING_DISK_S)
            if self.sender.targets():
                try:
                    await self.hand_over(leaves=True)
                except RlabError as error:
                    logger.warning("%s: no handover away from a disk that fails: %s", self._membership.row.name, error)
            await anyio.sleep(FAILING_DISK_S)

    def _describe_start(self) -> str:
        """Describe how this mastership began: replica, time without a master, cause."""
        text, election = f"replica {self._membership.replica_id}", self._election
        if election is None:
            return text
        silent_s = self._config.lease_clock() - election.silent_since
        return f"{text} after {silent_s:.2f} s: {election.cause}"

    def _make_sender(self, core: Core) -> SetSender:
        membership = self._membership
        self.sender = SetSender(
            self._own,
            *(core, membership.row, membership.replica_id, self._config.register, self._deposed),
            *(self._config.broker.flush, self._config.lease_clock),
        )
        return self.sender

    def _deposed(self, row: ReplicaSet | None) -> None:
        """Read the register, because this replica is no longer the master; `row` is the newest known row."""
        if row is not None:
            self._membership.saw(row)
        self._membership.poll_now()

    async def hand_over(self, to: int = 0, *, leaves: bool = False) -> ReplicaSet:
        """Make another replica the master; see `replica/mastership/handover.py`. One handover at a time."""
        assert self.running is not None, "only a master that serves can hand over"
        async with self._one_handover:
            self._membership.saw(self.sender.row)  # the sender makes most changes of the row
            row = await hand_over(
                self.sender,
                self._membership,
                to,
                begin_segment=partial(_begin_segment, self.running.broker),
                timeout_s=self._config.handover_timeout_s,
                leaves=leaves,
            )
            self.sender.saw(row)  # at once, because a broker that stops would wait for acknowledgements in vain
            self.running.broker.events.emit(
                EventKind.HANDOVER, broker=row.name, n=row.epoch, detail=f"replica {row.master}"
            )
            return row


def _begin_segment(broker: Broker) -> None:
    if broker.barrier.disk.is_stuck:
        logger.warning("%s: hands over without a new segment, because the disk hangs", broker.config.name)
        return
    # New requests are refused, but features still have changes in memory, such as commits that came with pulls. Closing
    # the features appends these changes, and the flush writes them with all that this loop iteration has appended.
    broker.features.close()
    broker.barrier.flush_now()
    broker.store.begin_segment_now()
