"""The replica's half of the stream: connects to the master, cuts its log where the two diverge, and writes the frames.

    follow(...)   HELLO: the epochs of the own log  ->  the master's epoch, and the position at which the own log ends
                  cut there, or discard everything without anything in common
                  REPLICATED 0  ->  frames; each event-loop iteration one write and one acknowledgement

It does not reconnect: when the stream ends, its caller reads the register and decides what follows.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from enum import StrEnum
from typing import Any, NamedTuple

import anyio
import msgpack

from broker.durability.metadata_file import MetadataFile
from broker.durability.polled_tables import PolledTables
from broker.store.follower.follower_log import FollowerLog
from broker.store.segments.epochs import Epoch
from model.errors import (
    InvalidParameter,
    NetworkError,
    NotMaster,
    RlabError,
    ServerError,
)
from model.quirks import Quirk
from model.replica_limits import MASTER_DEAD_S, REPLICA_REDIAL_TIMEOUT_S
from model.replica_set import ReplicaSet
from remoting.client import RemotingClient, raise_for_code
from remoting.codec import CODEC
from remoting.command import ONE_WAY, Command
from remoting.connection import Connection
from remoting.request_code import RequestCode
from remoting.tasks import background_tasks
from remoting.wire.schema import check_header
from replica.directory import ReplicaIdentity
from replica.stream.applying import Applying
from replica.stream.fetching import Fetching
from replica.stream.following import Acknowledgement, Following
from replica.stream.frames import FrameDamaged, decode_frame_of

logger = logging.getLogger(__name__)

RECEIVED_S = 0.1
"""How often a replica confirms that frames have come which wait for its disk, at most."""


class FollowEnd(StrEnum):
    """Reason for which a replica no longer follows its master."""

    MASTER_GONE = "the master cannot be reached"
    REFUSED = "no process listens at the address of the master"
    SET_CHANGED = "the other replica is not the master, or not of this epoch"
    HANDED_OVER = "the master has handed over"


class FollowProgress(NamedTuple):
    """How far a replica is; reported when its log was cut, and with every write.

    Attributes:
        epoch: of the master.
        state: "catching up", or "following" once the tables are those of its log.
        position, master_position: where its log and the master's end.
        committed_position: log position up to which all replicas in sync have the log.
        cut_from: where the log ended that was just cut at `position`; None if it was not.
        salvaged: whether the bytes that were cut are kept.
    """

    epoch: int
    state: str
    position: int
    master_position: int
    committed_position: int
    cut_from: int | None = None
    salvaged: bool = False


async def follow(
    log: FollowerLog,
    metadata: MetadataFile,
    identity: ReplicaIdentity,
    row: ReplicaSet,
    client: RemotingClient,
    on_progress: Callable[[FollowProgress], None],
    *,
    committed_position: int | None = None,
    promise: Callable[[], None] = lambda: None,
    quirks: frozenset[Quirk] = frozenset(),
) -> FollowEnd:
    """Follow the master of a row until the stream ends.

    `committed_position` is the last one that `on_progress` was called with: bytes before it that have to be cut,
    because of an election that accepted a loss, are kept in the folder `salvage`. If it is not known, all bytes that
    are cut are kept. `promise` is called before each confirmation of frames: the master may serve for some time because
    of it (`replica/lease/`). `quirks` are defects of RocketMQ to reproduce.

    Returns:
        Why the stream ended. The caller follows again, at once after the first loss of a connection: the master removes
        a replica from the in-sync set that is not back within `REPLICA_RECONNECT_S`.

    Raises:
        IllegalOperation: the master refuses this replica by name: it is of another set or register, was forgotten, or
            another process of it has started.
        NotAuthenticated, NoPermission, ConfigError: the key of `client` gives no right to replicate.
        StoreFull, StorageFull, ServiceNotAvailable: this replica's disk takes no writes now; follow again later.
        StoreError: another failure of this replica's disk: open the log again first, which finishes a cut.
        SystemError_, InvalidParameter: the tables cannot be written, or are of another version.

    Cancellation: the frames that have come are applied; the log and the file stay usable.
    """
    address = row.master_address
    if address is None:
        return FollowEnd.SET_CHANGED
    try:
        connection = await client.connect(address, REPLICA_REDIAL_TIMEOUT_S)
        answer = await _greet(log, identity, row, connection)
    except NotMaster as error:
        logger.info("%s: replica %d does not follow %s: %s", row.name, identity.replica_id, address, error)
        return FollowEnd.SET_CHANGED
    except (NetworkError, ServerError) as error:
        client.drop(address)  # with its back-off: the caller has one of its own
        logger.info("%s: replica %d cannot follow %s: %s", row.name, identity.replica_id, address, error)
        return FollowEnd.REFUSED if isinstance(error.__cause__, ConnectionRefusedError) else FollowEnd.MASTER_GONE
    try:
        epoch = answer.header["epoch"]
        if epoch < row.epoch:
            return FollowEnd.SET_CHANGED
        cut = _cut(log, answer, committed_position, row.name)
        if cut is not None:
            on_progress(cut)
        return await _Stream(connection, log, metadata, identity, answer, on_progress, promise, row.name, quirks).run()
    except FrameDamaged as error:
        logger.error("%s: the answer of the master is broken: %s", row.name, error)
        return FollowEnd.MASTER_GONE
    finally:
        client.drop(address)


async def _greet(log: FollowerLog, identity: ReplicaIdentity, row: ReplicaSet, connection: Connection) -> Command:
    history = log.history()
    header = {
        "broker_name": row.name,
        "set_id": identity.set_id,
        "register_id": identity.register_id,
        "replica_id": identity.replica_id,
        "incarnation": identity.incarnation,
        "epoch": row.epoch,
        "end_position": history.end_position,
    }
    body: bytes = msgpack.packb([list(epoch) for epoch in history.epochs])
    return raise_for_code(await connection.request(RequestCode.REPLICA_HELLO, header, body, REPLICA_REDIAL_TIMEOUT_S))


def _cut(log: FollowerLog, answer: Command, committed_position: int | None, name: str) -> FollowProgress | None:
    """Cut this log so that it is a prefix of the master's; returns the cut, if there was one."""
    header, end = answer.header, log.end_position
    position = header["position"]
    if position > end and not header["discard"]:
        raise FrameDamaged(f"the master begins at {position}, behind the end {end} of this log")
    salvage = end > log.min_position and (committed_position is None or position < committed_position)
    if answer.header["discard"]:
        is_cut = end > log.min_position
        if is_cut:
            logger.warning("%s: this log has nothing in common with the master's: all of it is copied", name)
        log.restart_at(position, salvage=salvage, epochs=_epochs_of(answer))
    elif is_cut := position < end:
        logger.warning(
            "%s: this log is cut at %d, %d bytes before its end%s",
            *(name, position, end - position, ", which are kept in the folder salvage" if salvage else ""),
        )
        log.cut(position, salvage=salvage)
    if not is_cut:
        return None
    return FollowProgress(header["epoch"], "catching up", position, position, 0, end, salvage)


def _epochs_of(answer: Command) -> list[Epoch]:
    rows: Any = msgpack.unpackb(answer.body or b"\x90")
    try:
        return [Epoch(*map(int, row)) for row in rows]
    except (TypeError, ValueError) as error:
        raise FrameDamaged(f"the epochs of the master cannot be read: {error}") from error


class _Stream:
    """One stream, from the first acknowledgement on."""

    def __init__(
        self,
        connection: Connection,
        log: FollowerLog,
        metadata: MetadataFile,
        identity: ReplicaIdentity,
        answer: Command,
        on_progress: Callable[[FollowProgress], None],
        promise: Callable[[], None],
        name: str,
        quirks: frozenset[Quirk],
    ) -> None:
        self._connection = connection
        self._log = log
        self._replica_id = identity.replica_id
        self._on_progress = on_progress
        self._promise = promise
        self._acked, self._acked_at = Acknowledgement(0, 0, -1), 0.0
        self._name = name
        self._following = Following(answer.header["epoch"], log.end_position)
        self._loop = asyncio.get_running_loop()
        tables = PolledTables(metadata, quirks, self._loop.time) if quirks else metadata
        self._applying = Applying(log, tables, self._following, self, sync=answer.header["sync"])
        self._last_received_at = self._loop.time()
        self._ended = anyio.Event()
        self._end = FollowEnd.MASTER_GONE
        self._failure: RlabError | None = None
        self._fetching = Fetching(connection, log, name, self._applying.sync_soon)

    async def run(self) -> FollowEnd:
        """Write the frames until the stream ends; see `follow`."""
        try:
            async with background_tasks() as tasks:
                tasks.start_soon(self._applying.sync_regularly)
                tasks.start_soon(self._fetching.fetch_indexes)
                tasks.start_soon(self._fetching.repair_regularly)
                tasks.start_soon(self._watch)
                self._connection.serve_by(self._received)
                self._acknowledge()
                await self._ended.wait()
        finally:
            self._applying.close()
        if self._failure is not None:
            raise self._failure
        return self._end

    async def _watch(self) -> None:
        """End the stream when the connection is closed, or nothing comes for too long."""
        while not self._connection.closed:
            wait_s = self._last_received_at + MASTER_DEAD_S - self._loop.time()
            if wait_s <= 0:
                logger.warning("%s: nothing came from the master for %s s", self._name, MASTER_DEAD_S)
                break
            with anyio.move_on_after(wait_s):
                await self._connection.wait_closed()
        self._ended.set()

    def _received(self, connection: Connection, command: Command) -> None:
        self._last_received_at = self._loop.time()
        if self._ended.is_set():
            return
        try:
            if command.code not in STREAMED:
                raise FrameDamaged(f"request code {command.code} is not a part of the stream")
            check_header(command)
            if command.code == RequestCode.REPLICA_HANDOVER:
                if command.header["epoch"] > self._following.epoch:
                    self._end = FollowEnd.HANDED_OVER
                    self._ended.set()
                return
            self._applying.accept(*decode_frame_of(command), more=bool(connection.inbox))
        except (FrameDamaged, InvalidParameter) as error:
            # The connection is made again, and the log goes on where it ends.
            logger.error("%s: the stream from the master is broken: %s", self._name, error)
            self._ended.set()

    # --- what `Applying` calls ---------------------------------------------------------------------------------------

    def acknowledge(self, done: Acknowledgement) -> None:
        """See `Applied`."""
        self._acked = done
        self._acknowledge()
        following = self._following
        self._on_progress(
            FollowProgress(
                *(following.epoch, "catching up" if done.n < 0 else "following", self._log.end_position),
                *(following.master_position, following.committed_position),
            )
        )

    def received(self) -> None:
        """See `Applied`."""
        if self._loop.time() >= self._acked_at + RECEIVED_S:
            self._acknowledge()

    def _acknowledge(self) -> None:
        connection = self._connection
        if connection.closed:
            return
        self._promise()
        self._acked_at = self._loop.time()
        header = {
            "epoch": self._following.epoch,
            "replica_id": self._replica_id,
            "number": self._acked.number,
            "crc": self._acked.crc,
            "received": self._following.number,
        }
        # Not `notify`, which leaves out what a peer does not read in time: no timer repeats an acknowledgement.
        connection.send_frame(CODEC.encode(ONE_WAY, RequestCode.REPLICATED, 0, header, None))
        connection.flush()

    def failed(self, error: RlabError) -> None:
        """See `Applied`."""
        if isinstance(error, FrameDamaged):
            logger.error("%s: the stream from the master is broken: %s", self._name, error)
        else:
            self._failure = error
        self._ended.set()

    def segment_finished(self, base_position: int) -> None:
        """See `Applied`."""
        self._fetching.segment_finished(base_position)


STREAMED = frozenset({RequestCode.REPLICATE, RequestCode.REPLICA_SNAPSHOT, RequestCode.REPLICA_HANDOVER})
"""The requests that a replica serves on its connection to the master."""
