"""`run_replica`: one process, one data directory, and the role that the register gives it; like `run_broker` otherwise.

    waiting    asks the register for its role; it listens, and refuses all requests of clients
    following  copies the log and the tables of the master, and sends clients there
    master     runs the ordinary broker on the same directory, in a new epoch

A replica does not convert one role into another: it closes the files of one role, and opens the directory again for
the other, as a restart does. So a promotion is the restart of a broker, which crashes have tested, and a deposed master
begins like any replica that was away: bytes beyond the common history are cut (`broker/store/follower/cut.py`).

A master begins each of its runs in a new epoch, by a compare-and-set before it opens the log. So no epoch has two
masters, and a deposed one is refused by everybody who knows the new one.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict
from enum import StrEnum
from typing import Any

import anyio

from broker.broker import RunningBroker
from broker.durability.metadata_file import MetadataFile
from broker.store.disk.directory import claim_directory
from broker.store.disk.errors import StoreError
from broker.store.follower.follower_log import FollowerLog
from broker.topics.registration import Announcement, NoTopics, Registration
from model.errors import NotMaster, RlabError, StorageFull
from model.event_log import EventLog
from model.replica_set import NO_MASTER, ReplicaSet
from remoting.server import RemotingServer
from remoting.tasks import background_tasks
from replica.config import ReplicaConfig
from replica.directory import OldRegister, locked
from replica.follower_role import FollowerRole
from replica.lease.promise import Promise
from replica.master_role import MasterRole
from replica.mastership.election import Election
from replica.membership import Membership, own_address
from replica.set_requests import SetRequests
from replica.waiting import waiting_server

logger = logging.getLogger(__name__)

DISK_PAUSE_S = 2.0
"""Pause after a role that ended with an error of the disk, before the next one begins."""


class Role(StrEnum):
    """What a replica does now."""

    WAITING = "waiting"
    FOLLOWING = "following"
    MASTER = "master"


class RunningReplica:
    """A replica that listens.

    Attributes:
        name: name of the broker that it is a copy of.
        address: `host:port` that it listens on, with the real port; the same in every role.
        membership: its place in the set; None while it waits for the register for the first time.
        following, mastering: the object of its current role; both None while it waits. A master has its broker in
            `running`.
        ready: set once it has its first role and listens in it.
        hands_over_at_end: whether a master hands over at the end of the block.
        is_closed_cleanly: whether the last role has ended with everything on the disk.
    """

    def __init__(self, config: ReplicaConfig) -> None:
        self.config = config
        self.name = config.broker.name
        self.address = config.broker.listen
        self.membership: Membership | None = None
        self.ready = anyio.Event()
        self.hands_over_at_end, self.is_closed_cleanly = True, False
        self._requests = SetRequests(self).by_code()
        self.following: FollowerRole | None = None
        self.mastering: MasterRole | None = None
        self._committed_position: int | None = None  # of the last role
        self._promise = Promise(config.lease_clock())
        self._election: Election | None = None  # the election that ended the last period as a follower
        self._waiting: RemotingServer
        self._registration: Registration | None = None  # as a follower, until it is registered as the master
        self._is_leaving = self._has_failed = False
        self._roles = anyio.CancelScope(shield=True)  # until it has left
        self._is_suspect = False  # whether a role has found damage in the log that the next one is to repair

    @property
    def role(self) -> Role:
        """The current role of the replica."""
        if self.mastering is not None:
            return Role.MASTER
        return Role.WAITING if self.following is None else Role.FOLLOWING

    @property
    def row(self) -> ReplicaSet | None:
        """The newest row of the set that this process knows."""
        if self.membership is None:
            return None
        rows = [self.membership.row]
        if self.running is not None and self.mastering is not None:
            rows.append(self.mastering.sender.row)
        return max(rows, key=lambda row: row.version)

    @property
    def epoch(self) -> int:
        """Number of the newest mastership of the set that this process knows; 0 before it knows any."""
        return 0 if self.membership is None else self.membership.row.epoch

    @property
    def running(self) -> RunningBroker | None:
        """The broker, while this replica is the master."""
        return None if self.mastering is None else self.mastering.running

    @property
    def server(self) -> RemotingServer:
        """The server of its role."""
        running = self.running
        return self._waiting if running is None else running.server

    async def wait_attempted(self) -> None:
        """Wait until each name server has answered once or could not be reached. Raises ConfigError if one refuses.

        Cancellation: harmless.
        """
        running = self.running
        registration = self._registration if running is None else running.broker.topics.registration
        if registration is not None:
            await registration.wait_attempted()

    # --- the roles ---------------------------------------------------------------------------------------------------

    async def play_until_left(self) -> None:
        """Run one role after the other until `leave` has ended, which has to be called.

        Raises: as `play`.

        Cancellation: it goes on until then. The cancellation may be that of the caller of `leave`, too. Without its
        role, a master could not send the last frame of its handover, and the new master would wait for its lease.
        """
        with self._roles:
            await self.play()

    async def play(self) -> None:
        """Run one role after the other, as the register decides.

        Raises:
            ConfigError: the register or the master refuses this directory, or it cannot be opened.

        Cancellation: the role ends as its server does.
        """
        has_failed = False
        async with background_tasks() as tasks:
            while not self._is_leaving:
                async with waiting_server(self.config.broker, self.address, self.not_master, self._requests) as server:
                    self.address, self._waiting = server.address, server
                    membership = self.membership
                    if membership is None:
                        membership = self.membership = await self._begin()
                        tasks.start_soon(membership.poll)
                    while not self._may_begin(membership):
                        with self._retried():
                            await self._follow(membership)
                        await self._pause_after_failure()
                with self._retried():
                    if has_failed:
                        await membership.begin_again()  # a log that was opened in an epoch cannot be in the same one
                    if membership.is_master:
                        await self._be_master(membership)
                has_failed = self._has_failed
                await self._pause_after_failure()
            await anyio.sleep_forever()

    def _may_begin(self, membership: Membership) -> bool:
        """Whether this replica is the master, and no earlier one serves; else it follows, or waits as a follower."""
        return membership.is_master and (membership.row.has_settled or self._election is not None)

    @contextmanager
    def _retried(self) -> Iterator[None]:
        """Log an error of the disk of this replica in the block and continue, if it has played a role before.

        A full disk must not end the process: the register has it as a member, and there may be room soon.
        """
        self._has_failed = False
        try:
            yield
        except (StoreError, StorageFull) as error:
            if not self.ready.is_set():
                raise
            logger.error("%s: the replica cannot do its part, and tries again: %s", self.name, error)
            self._has_failed = True

    @contextmanager
    def _closed_on_disk(self) -> Iterator[None]:
        """Record whether everything is on the disk when the role in the block has ended."""
        self.is_closed_cleanly = False
        try:
            yield
        except StoreError:
            raise
        except BaseException:  # a cancellation too: any other end has closed the files in their context managers
            self.is_closed_cleanly = True
            raise
        self.is_closed_cleanly = True

    async def _pause_after_failure(self) -> None:
        if self._has_failed:
            self._has_failed = False
            await anyio.sleep(DISK_PAUSE_S)

    async def _begin(self) -> Membership:
        membership = Membership(self.config, await own_address(self.config.broker, self.address))
        await membership.begin()
        return membership

    async def _follow(self, membership: Membership) -> None:
        self._election, broker = None, self.config.broker
        events = EventLog(
            f"{self.name}-{membership.replica_id}",
            broker.clock_ms,
            sink=broker.event_sink,
            buffered=False,
            run=membership.identity.incarnation,
        )
        with (
            self._closed_on_disk(),
            FollowerLog.open(broker.data_dir, broker.store, broker.files) as log,
            MetadataFile(broker.data_dir, flush=broker.flush, files=broker.files) as tables,
        ):
            log.is_suspect = self._is_suspect
            epochs, row = log.epochs, membership.row
            if epochs and epochs[-1].number > row.epoch:
                raise OldRegister(
                    f"{broker.data_dir} has epoch {epochs[-1].number} of the set {self.name}, and the register only "
                    f"{row.epoch}: it is an older copy, restore the newest one (rlab elections restore)"
                )
            role = self.following = FollowerRole(
                self.config, membership, log, tables, events, self._committed_position, self._promise
            )
            registration = self._registration = Registration(self._announcement(membership, role), NoTopics())
            try:
                async with background_tasks() as tasks:
                    registration.start(tasks, self.address)
                    self.ready.set()
                    await role.run()
                    self._election = role.election
            except BaseException:  # a cancellation too: a follower that has ended must not stay registered
                await self._unregister()
                raise
            finally:
                self.following, self._committed_position = None, role.committed_position
                self._is_suspect = log.is_suspect

    async def _unregister(self) -> None:
        """End the registration as a follower.

        A replica that becomes the master keeps this registration until it is registered as the master: a set without
        any registration has no queues. Cancellation: the registration ends all the same.
        """
        registration, self._registration = self._registration, None
        if registration is not None:
            with anyio.CancelScope(shield=True):
                await registration.stop()

    async def _unregister_when_master(self, registration: Registration) -> None:
        await registration.wait_registered()
        await self._unregister()

    def _announcement(self, membership: Membership, role: FollowerRole) -> Announcement:
        broker = self.config.broker
        return Announcement(
            name=self.name,
            key=broker.key,
            cluster=broker.cluster,
            broker_id=membership.replica_id,
            name_servers=broker.name_servers,
            advertise=broker.advertise,
            register_interval_s=broker.register_interval_s,
            expiry_s=broker.expiry_s,
            version=int(broker.clock_ms()),
            set_id=membership.row.set_id,
            replica_id=membership.replica_id,
            role="follower",
            lag_bytes=lambda: role.lag_bytes,
        )

    async def _be_master(self, membership: Membership) -> None:
        election, self._election = self._election, None
        mastering = self.mastering = MasterRole(self.config, membership, self.address, self._requests, election)

        def began(running: RunningBroker) -> None:
            self.ready.set()
            tasks.start_soon(self._unregister_when_master, running.broker.topics.registration)

        try:
            async with background_tasks() as tasks:
                with self._closed_on_disk():
                    await mastering.run(began)
        finally:
            await self._unregister()
            self.mastering, self._committed_position = None, mastering.committed_position
            self._is_suspect = self._is_suspect or mastering.has_damage

    # --- what operators ask ------------------------------------------------------------------------------------------

    def not_master(self) -> NotMaster:
        """The refusal of requests that only a master may serve."""
        row = self.row
        membership = self.membership
        if row is None or membership is None or membership.is_master:
            return NotMaster(f"this replica of {self.name} begins its role: try again")
        if row.master == NO_MASTER:
            return NotMaster(f"{self.name} has no master: elect one (rlab broker elect {self.name})", "", row.epoch)
        text = f"replica {row.master} at {row.master_address} is the master of {self.name}"
        return NotMaster(text, row.master_address or "", row.epoch)

    def state(self) -> dict[str, Any]:
        """Figures of this replica, for GET_REPLICAS."""
        membership, following, mastering = self.membership, self.following, self.mastering
        fields: dict[str, Any] = {
            "role": self.role.value,
            "replica_id": 0 if membership is None else membership.replica_id,
            "register_answers": membership is not None and membership.reachable,
            "register_at": list(self.config.register.addresses),
            "lease_margin_s": None,
            "end_position": 0,
            "replicas": [],
        }
        if following is not None:
            fields["end_position"] = following.log.end_position
        elif mastering is not None and mastering.running is not None:
            fields["end_position"] = mastering.running.broker.store.written_position
            fields["lease_margin_s"] = mastering.sender.lease.margin_s
            fields["replicas"] = [asdict(each) for each in mastering.sender.progress()]
        return fields

    async def hand_over(self, to: int = 0) -> ReplicaSet:
        """Make another replica the master; see `replica/mastership/handover.py`.

        Raises:
            NotMaster: this replica is not the master.
            SetRefusal, ReplicationTimeout, StoreError: see `hand_over` there.

        Cancellation: see there.
        """
        if self.mastering is None:
            raise self.not_master()
        return await self.mastering.hand_over(to)

    async def leave(self) -> None:
        """Hand over, if this is the master and another replica can take over, and end the role. Bounded in time."""
        self._is_leaving = True
        mastering = self.mastering if self.hands_over_at_end else None
        try:
            if mastering is not None and mastering.running is not None and mastering.sender.targets():
                with anyio.move_on_after(2 * self.config.handover_timeout_s):
                    await mastering.hand_over(leaves=True)
        except RlabError as error:
            logger.warning("%s stops without a handover: %s", self.name, error)
        finally:
            self._roles.cancel()


@asynccontextmanager
async def run_replica(config: ReplicaConfig) -> AsyncIterator[RunningReplica]:
    """Run a replica while the block runs; at its end a master hands over to a replica in sync, if there is one.

    Yields:
        The replica, in its first role, already listening.

    Raises:
        ConfigError: the directory or the address cannot be used, or the set refuses this replica; see
            `replica/directory.py` and `run_broker`.

    Cancellation: as at the end of the block.
    """
    broker = config.broker
    claim_directory(broker.data_dir, broker.files).release()  # it is a store, or becomes one
    with locked(broker.data_dir, broker.files):
        replica = RunningReplica(config)
        try:
            async with background_tasks() as tasks:
                tasks.start_soon(replica.play_until_left)
                try:
                    await replica.ready.wait()
                    yield replica
                finally:
                    with anyio.CancelScope(shield=True):
                        await replica.leave()
        finally:
            if replica.is_closed_cleanly and replica.membership is not None:
                replica.membership.end()
