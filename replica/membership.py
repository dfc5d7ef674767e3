"""Membership: creates or joins the set when a replica starts, and then keeps the newest row of the register.

The place of a replica in its set is stored in two places: in the file REPLICA of the directory, and in the row of the
register. A start writes the file first, then the row (`replica/directory.py` says why). Each change of the row is a
decision of `replica/sets.py` on the newest row, and a compare-and-set. If the answer of the register is lost, the row
is read again before anything else is decided.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

import anyio

from broker.config import BrokerConfig
from broker.store.disk.directory import METADATA_NAME, claim_directory
from broker.store.disk.errors import StoreError
from broker.store.follower.follower_log import FollowerLog
from broker.topics.registration import ANY_HOST
from model.errors import ConfigError, ConnectFailed, NoPermission, NotAuthenticated, RegisterUnavailable, RlabError
from model.record import FlushMode
from model.replica_set import ReplicaSet, SetChanged, was_written
from remoting.address import format_address, parse_address
from remoting.client import RemotingClient
from replica.config import ReplicaConfig
from replica.directory import (
    NotAReplica,
    ReplicaIdentity,
    check_identity,
    read_identity,
    write_identity,
)
from replica.sets import create, joined, started, with_options

logger = logging.getLogger(__name__)

POLL_S = 1.0
"""How often the register is asked whether the row has changed: a decision of an operator waits for it."""
RETRY_S = 0.5
"""Pause before a register that could not be reached is asked again."""
DEFAULT_COPIES = 2
"""Wanted copies of a new set: one can be lost."""

_FOR_NOW = (ConfigError, NoPermission, NotAuthenticated)
"""Errors of a name server without elections or with another access file: a start fails, and a running set waits."""
_SET_ID_BITS = 62  # SQLite and msgpack store it as it is
_LOG_SUFFIX = ".log"


async def own_address(broker: BrokerConfig, listens_at: str) -> str:
    """The address of a replica for others: the configured one, or the one that a name server sees.

    Cancellation: harmless.
    """
    host, port = parse_address(listens_at)
    if broker.advertise is not None or host not in ANY_HOST:
        return broker.advertise or listens_at
    async with RemotingClient(rng=broker.rng, key=broker.key) as client:
        while True:
            for name_server in broker.name_servers:
                try:
                    return format_address((await client.connect(name_server)).local_host, port)
                except ConnectFailed as error:
                    logger.warning("%s cannot find out its own address yet: %s", broker.name, error)
            await anyio.sleep(RETRY_S)


class Membership:
    """See the module header. `row` is the newest row that this process knows."""

    def __init__(self, config: ReplicaConfig, address: str) -> None:
        self.row: ReplicaSet
        self.identity: ReplicaIdentity
        self.reachable = True  # whether the register answered when it was last asked
        self.address = address  # `host:port` at which clients and the other replicas reach this one
        self._config = config
        self._register = config.register
        self._directory, self._files = config.broker.data_dir, config.broker.files
        self._name = config.broker.name
        self._lease_ms = None if config.lease_s is None else round(1000 * config.lease_s)
        self._changed = anyio.Event()
        self._poll_soon = anyio.Event()
        self._has_begun = False

    @property
    def replica_id(self) -> int:
        """Number of this replica in its set."""
        return self.identity.replica_id

    @property
    def is_master(self) -> bool:
        """Whether the newest row has this replica as its master."""
        return self.row.master == self.replica_id

    # --- the start ---------------------------------------------------------------------------------------------------

    async def begin(self) -> None:
        """Create or join the set, or find its row again; waits for the register as long as necessary.

        A replica that is the master of the row afterwards has a new epoch.

        Raises:
            ConfigError: the directory is refused, by a subclass of `replica/directory.py`, or by a rule of `sets.py`.

        Cancellation: the place may be taken; the next start goes on from there.
        """
        identity = read_identity(self._directory, self._files)
        row = await self._read()
        if identity is None:
            await (self._make(row) if self._config.makes else self._join(row))
        elif identity.register_id == 0:
            await self._make(row, identity)
        else:
            await self._start(identity, self._checked(row, identity))
        if self._config.makes:
            await self.change(self._with_options)
        self._has_begun = True

    def _with_options(self, row: ReplicaSet) -> ReplicaSet:
        config = self._config
        changed = with_options(row, copies=config.copies, min_in_sync=config.min_in_sync, acks=config.acks)
        return row if changed == row else changed

    async def _make(self, row: ReplicaSet | None, identity: ReplicaIdentity | None = None) -> None:
        if row is not None and (identity is None or identity.set_id != row.set_id):
            raise NotAReplica(
                f"the register has a set {self._name} already, and {self._directory} does not belong to it: to join "
                "it, start with --replica-of and an empty directory"
            )
        is_new = identity is None
        if identity is None:
            self._check_history()
            set_id = self._config.broker.rng.getrandbits(_SET_ID_BITS) or 1
            identity = self._store_identity(
                ReplicaIdentity(name=self._name, set_id=set_id, register_id=0, replica_id=1, incarnation=1)
            )
        first = create(self._name, self.address, set_id=identity.set_id, copies=DEFAULT_COPIES)
        proposed = self._with_options(first if self._lease_ms is None else replace(first, lease_ms=self._lease_ms))
        created = await self._apply(lambda current, _: proposed if current is None else current)
        if created.set_id != identity.set_id:
            await self._make(created, identity)  # another replica has created the set first
            return
        identity = self._store_identity(replace(identity, register_id=created.register_id))
        if is_new:
            self.row = created  # creating the set counts as this start
        else:
            await self._start(identity, created)

    def _check_history(self) -> None:
        """Refuse a log that belonged to a set, before the register has a row with a lower epoch than that log."""
        if epochs := FollowerLog.epochs_in(self._directory, self._files):
            raise NotAReplica(
                f"{self._directory} has the log of a replica, up to epoch {epochs[-1].number}, and no file REPLICA, "
                "for instance from a backup: to make a set of it, start it once without --copies, which ends that "
                "history, stop it, and start it with --copies"
            )

    async def _join(self, row: ReplicaSet | None) -> None:
        if row is None:
            raise NotAReplica(
                f"the register has no set {self._name}: start its first broker with --copies, or check --namesrv "
                "and --register"
            )
        claim_directory(self._directory, self._files).release()
        # A broker without messages may have topics and groups, which the tables of the master would replace.
        names = self._files.list_names(self._directory)
        if METADATA_NAME in names or any(name.endswith(_LOG_SUFFIX) for name in names):
            raise NotAReplica(
                f"{self._directory} has messages or topics and does not belong to the set {self._name}: a new replica "
                "starts with an empty directory, and gets everything from the master"
            )
        replica_id = 0

        def decide(current: ReplicaSet | None, _maybe_done: bool) -> ReplicaSet:
            nonlocal replica_id
            if current is None:
                raise NotAReplica(f"the set {self._name} is gone from the register")
            changed, replica_id = joined(current, self.address)
            return changed

        row = await self._apply(decide)
        await self._start(
            self._store_identity(
                ReplicaIdentity(
                    name=self._name,
                    set_id=row.set_id,
                    register_id=row.register_id,
                    replica_id=replica_id,
                    incarnation=0,
                )
            ),
            row,
        )

    async def _start(self, identity: ReplicaIdentity, row: ReplicaSet) -> None:
        """Count this start, first in the file and then in the register."""
        member = row.member(identity.replica_id)
        assert member is not None, "checked"
        clean = self._config.broker.flush is FlushMode.SYNC or identity.is_clean(self._files)
        if not clean:
            logger.warning(
                "%s: the machine of replica %d stopped before it: messages that others in sync have may be missing",
                *(self._name, identity.replica_id),
            )
        incarnation = max(identity.incarnation, member.incarnation + 1)
        new_identity = self._store_identity(
            replace(identity, incarnation=incarnation, boot_id=self._files.boot_id(), clean=False)
        )

        def decide(current: ReplicaSet | None, maybe_done: bool) -> ReplicaSet:
            # A copy of this directory that starts at the same time counts to the same number, and may have been faster.
            row = self._checked(current, new_identity if maybe_done else identity)
            member = row.member(new_identity.replica_id)
            if maybe_done and member is not None and member.incarnation == new_identity.incarnation:
                return row
            return started(row, new_identity.replica_id, self.address, clean=clean, lease_ms=self._lease_ms)

        self.row = await self._apply(decide)

    def _store_identity(self, identity: ReplicaIdentity) -> ReplicaIdentity:
        claim_directory(self._directory, self._files).release()  # a new directory gets its marker first
        write_identity(self._directory, identity, self._files)
        self.identity = identity
        return identity

    def end(self) -> None:
        """Record in the file that everything is on the disk: the last action of a replica."""
        try:
            self._store_identity(replace(self.identity, clean=True))
        except StoreError as error:
            logger.warning("%s: a power cut before the next start would count as one now: %s", self._name, error)

    # --- the row -----------------------------------------------------------------------------------------------------

    async def begin_again(self) -> None:
        """Count one more start, because the role that the row gives could not be begun: a master needs a new epoch.

        Raises and cancellation: as `begin`.
        """
        await self._start(self.identity, self.row)

    def saw(self, row: ReplicaSet) -> None:
        """Record a row that the register sent, or another replica that has it from the register."""
        if row.version > self.row.version and row.epoch >= self.row.epoch:
            self.row = row
            self.wake()

    def wake(self) -> None:
        """Wake the callers of `wait_changed`, because something else has changed that they depend on."""
        self._changed.set()
        self._changed = anyio.Event()

    async def wait_changed(self) -> None:
        """Wait until a newer row is known, or `wake` is called. Cancellation: harmless."""
        await self._changed.wait()

    def poll_now(self) -> None:
        """Let `poll` ask the register at once, because another replica knows more, or does not answer."""
        self._poll_soon.set()

    async def poll(self) -> None:
        """Keep the row up to date.

        Raises:
            ConfigError: this replica is no longer a member, or another process has taken its place.

        Cancellation: it ends.
        """
        while True:
            with anyio.move_on_after(POLL_S):
                await self._poll_soon.wait()
            self._poll_soon = anyio.Event()
            await self.refresh()

    async def refresh(self) -> ReplicaSet:
        """Read the row now; waits while the register cannot be reached. Raises as `poll`. Cancellation: harmless."""
        newest_row = self.row  # before the read: others note newer rows while it is under way
        row = self._checked(await self._read())
        if row.version < newest_row.version or row.epoch < newest_row.epoch:
            if self.reachable:
                logger.error(
                    "%s: the register has %s, and this replica knows %s: the register is an older copy and is ignored; "
                    "restore its newest copy (rlab elections restore)",
                    *(self._name, row, newest_row),
                )
            self.reachable = False
        self.saw(row)
        return self.row

    def _checked(self, row: ReplicaSet | None, identity: ReplicaIdentity | None = None) -> ReplicaSet:
        return check_identity(identity or self.identity, row, name=self._name, directory=self._directory)

    async def change(self, decide: Callable[[ReplicaSet], ReplicaSet]) -> ReplicaSet:
        """Apply a decision to the row, and return the new one; waits for the register.

        `decide` returns the row that it got if there is nothing to change.

        Raises:
            RlabError: the refusal of the decision.

        Cancellation: it may have been applied.
        """

        def on_newest(current: ReplicaSet | None, _maybe_done: bool) -> ReplicaSet:
            row = self._checked(current)
            self.saw(row)  # also if the decision refuses it
            return decide(row)

        row = await self._apply(on_newest)
        self.saw(row)
        return row

    async def _apply(self, decide: Callable[[ReplicaSet | None, bool], ReplicaSet]) -> ReplicaSet:
        """Apply a decision; its second argument is whether an earlier attempt may have been applied.

        A write whose answer was lost may arrive later than everything that is read before the next write.
        """
        current = await self._read()
        unknown: tuple[ReplicaSet, int] | None = None
        while True:
            proposed = decide(current, unknown is not None)
            if proposed is current:
                return proposed
            version = 0 if current is None else current.version
            try:
                return await self._register.write(proposed, version)
            except SetChanged as error:
                current = error.current
            except RegisterUnavailable as error:
                self._record_unreachable(error)
                unknown = proposed, version
                await anyio.sleep(RETRY_S)
                current = await self._read()
            if current is not None and unknown is not None and was_written(*unknown, current):
                return current

    async def _read(self) -> ReplicaSet | None:
        """The row, as soon as the register answers."""
        expected = (RegisterUnavailable, *_FOR_NOW) if self._has_begun else RegisterUnavailable
        while True:
            try:
                row = await self._register.read(self._name)
            except expected as error:
                self._record_unreachable(error)
                await anyio.sleep(RETRY_S)
            else:
                if not self.reachable:
                    logger.warning("%s: the register of the set answers again", self._name)
                self.reachable = True
                return row

    def _record_unreachable(self, error: RlabError) -> None:
        if self.reachable:
            logger.warning(
                "%s: the register of the set does not answer (%s): until it does, the set cannot change its master "
                "or the replicas that are in sync",
                *(self._name, error),
            )
        self.reachable = False
