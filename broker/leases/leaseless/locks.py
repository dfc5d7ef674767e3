"""Requests for the lock of a queue: a request of a member without leases waits a moment for the queue.

`parked_locks.py` in this folder has the reason. Every other request is served at once by `broker/leases/handlers.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from broker.feature import Core, Feature
from broker.groups.members import Groups
from broker.leases.leaseless.parked_locks import ParkedLocks
from broker.leases.service import Leases
from broker.leases.table import QueueKey
from broker.topics.service import Topics
from model.errors import RlabError
from model.limits import LOCK_HOLD_S
from remoting.body import rows_of
from remoting.command import Command
from remoting.connection import Connection
from remoting.request_code import RequestCode
from remoting.server import Handler

_SOON = 1e-6


class _ParkedLock(NamedTuple):
    connection: Connection
    request: Command
    until: float


class Locks(Feature):
    """The requests for locks of one broker; `grant` answers one at once."""

    def __init__(
        self,
        core: Core,
        topics: Topics,
        groups: Groups,
        leases: Leases,
        grant: Callable[[Connection, Command], None],
    ) -> None:
        self._core = core
        self._topics = topics.table
        self._groups = groups.table
        self._leases = leases
        self._grant = grant
        self._parked: ParkedLocks[_ParkedLock] = ParkedLocks()

    def handlers(self) -> dict[RequestCode, Handler]:
        """Request code -> handler."""
        return {RequestCode.LOCK_BATCH_MQ: self.lock}

    def lock(self, connection: Connection, request: Command) -> None:
        """Grant the queues that are free, or park the request."""
        self._lock(_ParkedLock(connection, request, self._core.loop.time() + LOCK_HOLD_S))

    def _lock(self, parked_lock: _ParkedLock) -> None:
        header = parked_lock.request.header
        member = self._groups.member(header["group"], header["client_id"], parked_lock.connection.number)
        if member.data.leaseless:
            member.locks = True
            if self._park(parked_lock):
                return
        self._grant(parked_lock.connection, parked_lock.request)

    def _park(self, parked_lock: _ParkedLock) -> bool:
        """Park a request for one queue until the queue is free; returns whether it is parked."""
        rows, group = list(rows_of(parked_lock.request)), parked_lock.request.header["group"]
        info = self._groups.get(group)
        if len(rows) != 1 or info is None:
            return False
        queue, now = QueueKey(*rows[0]), self._core.loop.time()
        until = min(parked_lock.until, info.changed_at + LOCK_HOLD_S)
        if now + _SOON >= until or not self._topics.is_readable(*queue):
            return False
        lease = self._leases.table.owner_of(group, queue)
        if lease is None or self._leases.grant(group, queue, parked_lock.request.header["client_id"]) is not None:
            return False
        self._core.driver.wake_by(until)
        return self._parked.park((group, queue), parked_lock._replace(until=until))

    def lease_freed(self, group: str, queue: tuple[str, int], waiters: Sequence[str]) -> None:
        """Serve the requests that wait for a queue."""
        # All are removed before the first runs: one of them gets the queue, and the others may be parked again.
        self._lock_again(self._parked.remove_of_queue((group, QueueKey(*queue))))

    def _lock_again(self, parked: list[_ParkedLock]) -> None:
        for parked_lock in parked:
            try:
                self._lock(parked_lock)
            except RlabError as error:
                parked_lock.connection.respond_error(parked_lock.request, error)

    def next_deadline(self) -> float | None:
        """When the next parked request has to be answered."""
        return self._parked.next_deadline()

    def expire(self, now: float) -> None:
        """Answer the parked requests that are due."""
        self._lock_again(self._parked.expire(now + _SOON))
