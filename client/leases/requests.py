"""Requests leases of brokers, releases them, and commits offsets: one request per broker for any number of queues.

RocketMQ asks for each new queue's offset alone, one round trip after another (RebalanceImpl.computePullFromWhere); here
the grant of a lease carries the offset to start from.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import anyio
import msgpack

from client.instance.instance import ClientInstance
from client.instance.lease_session import LeaseSession
from client.pull.owned_queue import OwnedQueue
from model.errors import ConnectFailed, GroupNotExist, RlabError, make_error
from model.message_queue import MessageQueue
from model.topic_incarnation import TopicIncarnation
from remoting.request_code import RequestCode
from remoting.tasks import run_together

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Grant:
    """A lease, with its fencing token. In RocketMQ, concurrent consumers have no leases."""

    token: int
    start_offset: int
    """The committed offset of the group, or by its policy."""
    session: LeaseSession
    """Began before the lease was requested; the lease is valid as long as it is."""


@dataclass(slots=True)
class LeaseOutcome:
    """The answers of the brokers: leases, client ids of the owners of refused queues, and errors without an answer."""

    granted: dict[MessageQueue, Grant] = field(default_factory=dict)
    refused: dict[MessageQueue, str] = field(default_factory=dict)
    failed: dict[MessageQueue, RlabError] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Commit:
    """An offset to commit under a lease; offset -1 commits nothing.

    `incarnation` is that of the topic in which the offset counts, if it is known.

    A lease ends with its topic, so its commits need no incarnation.
    """

    queue: MessageQueue
    offset: int
    token: int
    incarnation: TopicIncarnation | None = None


class LeaseRequests:
    """The requests of one group."""

    def __init__(self, instance: ClientInstance, group: str) -> None:
        self._instance = instance
        self._group = group

    async def acquire(self, queues: Iterable[MessageQueue], cause: str) -> LeaseOutcome:
        """Request leases of queues, all brokers at once. RocketMQ: RebalanceImpl.lockAll, lockBatchMQ.

        Cancellation: leases may have been granted unseen; they end with the membership, and the next request is granted
        the same ones.
        """
        outcome = LeaseOutcome()
        by_broker: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            by_broker.setdefault(queue.broker_name, []).append(queue)
        await run_together(
            [
                partial(self._acquire_on, name, queues_of_broker, cause, outcome)
                for name, queues_of_broker in by_broker.items()
            ]
        )
        return outcome

    async def _acquire_on(
        self, broker_name: str, queues: list[MessageQueue], cause: str, outcome: LeaseOutcome
    ) -> None:
        body = msgpack.packb([[queue.topic, queue.queue_id] for queue in queues])
        try:
            session = await self._session(broker_name, cause)
            try:
                answer = await self._request(broker_name, RequestCode.LOCK_BATCH_MQ, body, {"cause": cause})
            except GroupNotExist:
                # Our session expired at this broker, and we did not know. Register, then ask again.
                await self._instance.heartbeats.send(cause, [self._address(broker_name)])
                session = await self._session(broker_name, cause)
                answer = await self._request(broker_name, RequestCode.LOCK_BATCH_MQ, body, {"cause": cause})
        except RlabError as error:
            # Here, where it is one line for all of a broker's queues.
            which = f"{len(queues)} queues, the first {queues[0]}" if len(queues) > 1 else queues[0]
            logger.warning("%s: no lease of %s: %s", self._instance.client_id, which, error)
            outcome.failed.update({queue: error for queue in queues})
            return
        granted, refused = cast("tuple[list[Any], list[Any]]", answer)
        for topic, queue_id, token, start_offset in granted:
            outcome.granted[MessageQueue(topic, broker_name, queue_id)] = Grant(token, start_offset, session)
        for topic, queue_id, owner in refused:
            outcome.refused[MessageQueue(topic, broker_name, queue_id)] = owner

    async def _session(self, broker_name: str, cause: str) -> LeaseSession:
        """The session under which leases of this broker may be requested now; sends a heartbeat if there is none."""
        address = self._address(broker_name)
        session = self._current(address)
        if session is None:
            await self._instance.heartbeats.send(cause, [address])
            session = self._current(address)
        if session is None:
            raise ConnectFailed(f"broker {broker_name!r} answers no heartbeat; nothing was requested")
        return session

    def unconfirmed(self, owned: Iterable[OwnedQueue]) -> list[MessageQueue]:
        """Queues whose lease may have ended, and whose broker is connected and so can confirm it."""
        now = anyio.current_time()
        unconfirmed = []
        for each in owned:
            if not each.lease_valid(now):
                address = self._instance.routes.address_of(each.queue.broker_name)
                if address is not None and self._instance.remoting.connected(address) is not None:
                    unconfirmed.append(each.queue)
        return unconfirmed

    def _current(self, address: str) -> LeaseSession | None:
        return self._instance.heartbeats.sessions.current(self._group, address, anyio.current_time())

    async def release(self, commits: Iterable[Commit], cause: str) -> dict[MessageQueue, RlabError]:
        """Commit and release, all brokers at once; returns as `commit` does."""
        return await self._commit(RequestCode.UNLOCK_BATCH_MQ, commits, {"cause": cause, "epoch": self._epoch})

    async def commit(
        self, commits: Iterable[Commit], cause: str = "", *, reset: bool = False, soon: bool = False
    ) -> dict[MessageQueue, RlabError]:
        """Commit offsets, all brokers at once; with `reset` they may go backwards, with `soon` they are stored later.

        Returns the commits that were refused, with the reason: `LeaseLost`, `ClientIdConflict` and `OffsetRegression`
        are final; after a network error, the commit may be repeated. Cancellation: some commits may have been stored.
        """
        header = {"cause": cause, "reset": reset, "epoch": self._epoch}
        if soon:  # an older broker does not know it, and stores them at once
            header["soon"] = True
        return await self._commit(RequestCode.UPDATE_CONSUMER_OFFSET, commits, header)

    @property
    def _epoch(self) -> str:
        # Over a new connection, which may be faster than its heartbeat, it identifies our process.
        return self._instance.heartbeats.run_id

    async def _commit(
        self, code: RequestCode, commits: Iterable[Commit], header: dict[str, Any]
    ) -> dict[MessageQueue, RlabError]:
        by_broker: dict[str, list[Commit]] = {}
        for commit in commits:
            by_broker.setdefault(commit.queue.broker_name, []).append(commit)
        failures: dict[MessageQueue, RlabError] = {}
        await run_together(
            [
                partial(self._commit_on, code, name, commits_of_broker, header, failures)
                for name, commits_of_broker in by_broker.items()
            ]
        )
        return failures

    async def _commit_on(
        self,
        code: RequestCode,
        broker_name: str,
        commits: list[Commit],
        header: dict[str, Any],
        failures: dict[MessageQueue, RlabError],
    ) -> None:
        body = msgpack.packb([[c.queue.topic, c.queue.queue_id, c.offset, c.token] for c in commits])
        incarnations = [commit.incarnation for commit in commits]
        if any(incarnations):
            header = {**header, "topic_ids": [each.topic_id if each else 0 for each in incarnations]}
            header["data_id"] = max(each.data_id for each in incarnations if each)  # all are of this broker
        try:
            answer = await self._request(broker_name, code, body, header, follows=True)
        except RlabError as error:
            failures.update({commit.queue: error for commit in commits})
            return
        for topic, queue_id, response_code, remark in cast("list[Any]", answer):
            queue = MessageQueue(topic, broker_name, queue_id)
            failures[queue] = make_error(response_code, remark)

    async def _request(
        self, broker_name: str, code: RequestCode, body: bytes, header: dict[str, Any], *, follows: bool = False
    ) -> object:
        """Request something of a broker; with `follows` of the next master of a set too, twice if need be.

        A lease is requested of one master only: it belongs to the session with that one.
        """
        instance, address = self._instance, self._address(broker_name)
        header = {"group": self._group, "client_id": instance.client_id, **header}
        if follows:
            answer = await instance.request_master(broker_name, code, header, body, repeats=True)
        else:
            answer = await instance.remoting.request(address, code, header, body, instance.config.request_timeout_s)
        return msgpack.unpackb(answer.body or b"")

    def _address(self, broker_name: str) -> str:
        address = self._instance.routes.address_of(broker_name)
        if address is None:
            raise ConnectFailed(f"no route names a master of broker {broker_name!r} now")
        return address
