"""Heartbeats of a client instance to every broker, one for all of its groups; and the refusals of brokers.

A heartbeat registers the members at a broker, and its answer prolongs their sessions (`lease_session.py`). RocketMQ:
MQClientInstance.

A group that an operator has disabled goes on pulling each of its queues every second, so that it consumes soon after it
is enabled again. It logs one warning with the remedy, because a warning for each refusal would flood the log.

The master of a set of replicas may hang, and another replica, which this client cannot reach, may become the master.
The new master keeps the leases of this client for a limited time. So for a set, messages are dispatched for a shorter
time after the last answered heartbeat (`SET_SESSION_S`), and three heartbeats are sent within that time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from functools import partial
from hashlib import blake2b
from math import ceil

import anyio
import msgpack

from client.instance.lease_session import LeaseSessions
from client.instance.member import CheckingProducer, GroupMember, InstanceHost, Resident
from client.trigger import Trigger
from model.errors import (
    ClientIdConflict,
    ConfigError,
    InvalidParameter,
    NetworkError,
    NoPermission,
    NotAuthenticated,
    RlabError,
    UsageError,
)
from model.group_settings import OWN_ATTEMPTS
from model.heartbeat import HeartbeatData
from model.limits import MAX_GROUPS_OF_CLIENT
from model.message_queue import MessageQueue
from model.replica_limits import SET_SESSION_S
from remoting.client import raise_for_code
from remoting.command import Command
from remoting.connection import Connection
from remoting.request_code import RequestCode
from remoting.tasks import run_together

logger = logging.getLogger(__name__)

_LEAVE_TIMEOUT_S = 1.0
"""Short, because a broker that does not answer sees the connection close."""


class Heartbeats:
    """Sends heartbeats and keeps the answers of brokers; `run_id` of `HeartbeatData` is set before the first one."""

    def __init__(self, host: InstanceHost) -> None:
        self.run_id = ""
        self.sessions = LeaseSessions()
        self._host = host
        self._timeout_s = host.config.request_timeout_s
        # (address of a broker, group) -> `max_attempts` of `GroupSettings`, where operators have set it.
        self.max_attempts: dict[tuple[str, str], int] = {}
        self._created_ms: dict[str, int] = {}
        # Groups that we have left, or are about to leave: no heartbeat may register us again.
        self._left: dict[str, None] = {}
        self._warnings: dict[str, list[str]] = {}  # by address: the warnings of the last answer
        self._refusals = HeartbeatRefusals()
        # By address: the connection over which a broker that takes fingerprints got the last heartbeat, and its own.
        self._taken: dict[str, tuple[Connection, int]] = {}
        self._has_sets = False  # whether a broker that has answered is a set of replicas
        self._unanswered: dict[str, None] = {}  # addresses to which a heartbeat of `keep_alive` is under way
        self._sessions_changed = anyio.Event()

    async def keep_alive(self) -> None:
        """Send heartbeats until cancelled: at the interval, and three in the shortest session of a consumer.

        Brokers do not wait for each other: one that does not answer would let the sessions at the others expire.
        """

        async def beat(address: str) -> None:
            self._unanswered[address] = None
            await self.send("", [address])
            self._unanswered.pop(address, None)

        all_at = anyio.current_time()
        async with anyio.create_task_group() as beats:
            while True:
                self._sessions_changed = anyio.Event()
                sessions = [consumer.session_timeout_s / 3 for consumer in self._host.members.values()]
                interval_s = min([self._host.config.heartbeat_interval_s, *sessions])
                ticks = ceil(interval_s / (SET_SESSION_S / 3)) if self._has_sets and sessions else 1
                with anyio.move_on_after(interval_s / ticks):
                    await self._sessions_changed.wait()
                    continue
                all_addresses = self._host.addresses()
                self._has_sets = any(map(self._is_set, all_addresses))
                if is_for_all := anyio.current_time() > all_at + interval_s * (1 - 0.5 / ticks):
                    all_at = anyio.current_time()
                chosen = all_addresses if is_for_all else filter(self._is_set, all_addresses)
                addresses = [each for each in chosen if each not in self._unanswered]
                for address in self._send_again(addresses):
                    beats.start_soon(beat, address)

    def _is_set(self, address: str) -> bool:
        return self._host.routes.is_set(self._host.routes.broker_at(address))

    def check_room(self, new: Resident) -> None:
        """Check that a heartbeat has room for the group of one more client.

        Raises:
            InvalidParameter: it has not; brokers would refuse the heartbeats, and the sessions of all groups would end.
        """
        is_consumer = isinstance(new, GroupMember)
        groups = {each.group for each in self._host.residents if isinstance(each, GroupMember) is is_consumer}
        if new.group not in groups and len(groups) >= MAX_GROUPS_OF_CLIENT:
            raise InvalidParameter(
                f"this client instance has {len(groups)} {'consumer' if is_consumer else 'producer'} groups, the most "
                f"that one may have: give the client of group {new.group!r} another instance_name"
            )

    def joining(self, group: str) -> None:
        """Record a new consumer, whose session may be shorter than all earlier ones."""
        self._left.pop(group, None)
        self._sessions_changed.set()

    async def send(self, cause: str = "", addresses: list[str] | None = None) -> bool:
        """Send a heartbeat to every known broker, or to some; returns whether all of them have answered.

        Cancellation: some may not have been reached.
        """
        failed: dict[str, None] = {}
        chosen = self._host.addresses() if addresses is None else addresses
        await run_together([partial(self._send_to, address, cause, failed) for address in chosen])
        return not failed

    def _send_again(self, addresses: list[str]) -> list[str]:
        """Send a heartbeat to the brokers that have the same one already; returns the other addresses.

        Nearly every heartbeat is of this kind. A callback takes the answer: a task for each costs ten times as much.
        """
        if not addresses or (heartbeat := self._heartbeat("")) is None:
            return []
        fingerprint, sent_at = _fingerprint(msgpack.packb(heartbeat.to_wire())), anyio.current_time()
        unsent = []
        for address in addresses:
            connection, sent_fingerprint = self._taken.get(address, (None, -1))
            is_open = connection is not None and self._host.remoting.connected(address) is connection
            if connection is None or not is_open or not connection.ready or sent_fingerprint != fingerprint:
                unsent.append(address)
                continue
            header = {"fingerprint": fingerprint}
            try:
                answer = connection.request(RequestCode.HEART_BEAT, header, None, self._timeout_s)
            except RlabError as error:
                self._failed(address, "", error)
                continue
            answer.add_done_callback(partial(self._answered, address, connection, heartbeat, sent_at))
            self._unanswered[address] = None
        return unsent

    def _answered(
        self,
        address: str,
        connection: Connection,
        heartbeat: HeartbeatData,
        sent_at: float,
        answered: asyncio.Future[Command],
    ) -> None:
        self._unanswered.pop(address, None)
        if answered.cancelled():
            return
        refused = answered.exception() is not None
        if not self._host.background.running and (refused or answered.result().header.get("unknown")):
            return  # the end of the client closes its connections
        try:
            answer = raise_for_code(answered.result())
        except RlabError as error:
            self._failed(address, "", error)
            return
        if answer.header.get("unknown"):
            self._taken.pop(address, None)
            self._host.background.start_soon(self.send, "", [address])
        else:
            self._apply_answer(address, connection, heartbeat, sent_at, answer)

    async def _send_to(self, address: str, cause: str, failed: dict[str, None]) -> None:
        try:
            connection = self._host.remoting.connected(address)
            if connection is None:
                if self._heartbeat(cause) is None:
                    return
                connection = await self._host.remoting.connect(address, self._timeout_s)
            # Made after that: a consumer that left while we connected would be registered once more.
            heartbeat = self._heartbeat(cause)
            if heartbeat is None:
                return
            body = msgpack.packb(heartbeat.to_wire())
            sent_at = anyio.current_time()
            answer = await self._request(address, connection, body)
        except RlabError as error:
            failed[address] = None
            self._failed(address, cause, error)
            return
        self._apply_answer(address, connection, heartbeat, sent_at, answer)

    def _failed(self, address: str, cause: str, error: RlabError) -> None:
        logger.warning("%s: heartbeat to %s failed: %s", self._host.client_id, address, error)
        now = anyio.current_time()
        self._refusals.refused(address, error, now)
        for member in list(self._host.members.values()):
            if (final := self._refusals.final(address, now, member.session_timeout_s)) is not None:
                member.refused(final)
        if isinstance(error, NetworkError):
            self._host.broker_lost(address, cause)

    def _apply_answer(
        self, address: str, connection: Connection, heartbeat: HeartbeatData, sent_at: float, answer: Command
    ) -> None:
        """Apply the answer of a broker."""
        self._refusals.accepted(address)
        self._log_new_warnings(address, answer.header.get("warnings", []))
        attempts = answer.header.get("max_attempts", {})
        for data in heartbeat.consumers:
            self.attempts_set(address, data.group, attempts.get(data.group, OWN_ATTEMPTS))
        timeouts_s = {data.group: data.session_timeout_s for data in heartbeat.consumers}
        if timeouts_s and self._is_set(address):
            timeouts_s = {group: min(timeout_s, SET_SESSION_S) for group, timeout_s in timeouts_s.items()}
            if not self._has_sets:
                self._has_sets = True
                self._sessions_changed.set()
        for group, (_, created_ms, joined) in answer.header["groups"].items():
            self._created_ms[group] = min(self._created_ms.get(group, created_ms), created_ms)
            timeout_s = timeouts_s.get(group)
            if timeout_s is None or self._host.remoting.connected(address) is not connection:
                continue  # the reconnector sends another heartbeat
            if self.sessions.record_answer(
                group, address, connection, good_until=sent_at + timeout_s, joined=joined, now=anyio.current_time()
            ):
                # It may have ended leases: we were not a member there, or our session had a gap.
                self._host.wake(group, Trigger.RECONNECT, heartbeat.cause)

    async def _request(self, address: str, connection: Connection, body: bytes) -> Command:
        """Send a heartbeat: only its fingerprint if this connection's broker has the same one already."""
        fingerprint = _fingerprint(body)
        header, request = {"fingerprint": fingerprint}, self._host.remoting.request
        if self._taken.get(address) == (connection, fingerprint):
            answer = await request(address, RequestCode.HEART_BEAT, header, None, self._timeout_s)
            if not answer.header.get("unknown"):
                return answer
        answer = await request(address, RequestCode.HEART_BEAT, header, body, self._timeout_s)
        if answer.header.get("takes_fingerprints"):
            self._taken[address] = connection, fingerprint
        return answer

    def attempts_set(self, address: str, group: str, max_attempts: int) -> None:
        """Record the `max_attempts` of a group at a broker."""
        if max_attempts == OWN_ATTEMPTS:
            self.max_attempts.pop((address, group), None)
        elif group in self._host.members:
            self.max_attempts[address, group] = max_attempts

    def check_accepted(self) -> None:
        """Raise the refusal of a broker, if one has refused the last heartbeat; see `HeartbeatRefusals`.

        Raises:
            ClientIdConflict: another live process is known there under our client id.
            UsageError: the heartbeat has something that the broker does not take.
        """
        self._refusals.check(self._host.addresses())

    def _log_new_warnings(self, address: str, warnings: list[str]) -> None:
        """Log the warnings of a broker that are not in the last answer of any broker."""
        logged_texts = {text for logged in self._warnings.values() for text in logged}
        self._warnings[address] = warnings
        for text in warnings:
            if text not in logged_texts:
                logger.warning("%s: %s", self._host.client_id, text)

    def _heartbeat(self, cause: str) -> HeartbeatData | None:
        """The heartbeat as of now; None without a producer and a consumer that subscribes."""
        consumers = [each.consumer_data() for group, each in self._host.members.items() if group not in self._left]
        present = tuple(data for data in consumers if data is not None)
        producers = dict.fromkeys(each.group for each in self._host.residents if not isinstance(each, GroupMember))
        checkers = dict.fromkeys(each.group for each in self._host.residents if isinstance(each, CheckingProducer))
        if not present and not producers:
            return None
        return HeartbeatData(
            client_id=self._host.client_id,
            consumers=present,
            producer_groups=tuple(producers),
            cause=cause,
            run_id=self.run_id,
            checkers=tuple(checkers),
        )

    def group_created_ms(self, group: str) -> int:
        """The creation time of the group: the earliest time that a broker has answered; 0 without an answer."""
        return self._created_ms.get(group, 0)

    async def leave(self, group: str, cause: str, *, rejoin: bool = False) -> None:
        """Unregister from a group at every broker; others see the connection close, or the session expire.

        With `rejoin` brokers keep the assignment for the `rejoin_within_s` of the last heartbeat.

        Cancellation: some may not have been reached.
        """
        self._left[group] = None
        self.max_attempts = {key: n for key, n in self.max_attempts.items() if key[1] != group}
        self.sessions.forget(group)
        name = {"client_id": self._host.client_id, "epoch": self.run_id}
        header: dict[str, object] = {**name, "groups": [group], "cause": cause, "rejoin": rejoin}
        connected = [each for each in self._host.addresses() if self._host.remoting.connected(each) is not None]
        await run_together([partial(self._leave_one, address, header) for address in connected])

    async def _leave_one(self, address: str, header: dict[str, object]) -> None:
        try:
            await self._host.remoting.request(address, RequestCode.UNREGISTER_CLIENT, header, None, _LEAVE_TIMEOUT_S)
        except ClientIdConflict:
            return  # the process was refused for its client id: there is nothing to leave
        except RlabError as error:
            logger.warning("%s: could not unregister from %s: %s", self._host.client_id, address, error)


def _fingerprint(body: bytes) -> int:
    return int.from_bytes(blake2b(body, digest_size=8).digest())


class Refusals:
    """The queues of which brokers refuse messages to the groups of one client."""

    def __init__(self) -> None:
        self.refused: dict[str, dict[MessageQueue, None]] = {}  # by group; bounded by the queues that are asked for

    def add(self, client_id: str, group: str, queue: MessageQueue, error: RlabError) -> None:
        """Record a refusal; the first of a group is logged as a warning."""
        queues = self.refused.setdefault(group, {})
        level = logging.DEBUG if queues else logging.WARNING
        queues[queue] = None
        logger.log(level, "%s: group %s gets no messages of %s, and keeps trying: %s", client_id, group, queue, error)

    def discard(self, client_id: str, group: str, queue: MessageQueue) -> None:
        """Remove the refusal of a queue that is accepted again or no longer wanted; the last of a group is logged."""
        queues = self.refused.get(group, {})
        if queue in queues:
            del queues[queue]
            if not queues:
                del self.refused[group]
                logger.info("%s: group %s is no longer refused messages", client_id, group)


class HeartbeatRefusals:
    """The brokers that refuse the heartbeats of one client, and since when.

    A broker refuses a heartbeat as a whole, whichever group in it is wrong, and without heartbeats the sessions of all
    groups end. So a refusal must not only be logged: `start` and `subscribe` raise it (`check`), and a refusal that
    lasts for a session ends the consumer (`final`). Before that its reason may disappear, for instance because another
    process with our client id stops.
    """

    def __init__(self) -> None:
        self._by_address: dict[str, tuple[UsageError, float]] = {}

    def refused(self, address: str, error: RlabError, now: float) -> None:
        """Record how a heartbeat failed at a loop time. Only a failure that lasts until a change is a refusal.

        The two errors of a new connection do not count: a key or a certificate is being changed, here or there.
        """
        if isinstance(error, UsageError) and not isinstance(error, NotAuthenticated | ConfigError):
            _, since = self._by_address.get(address, (error, now))
            self._by_address[address] = error, since

    def accepted(self, address: str) -> None:
        """Record that a broker has taken a heartbeat."""
        self._by_address.pop(address, None)

    def check(self, addresses: Collection[str]) -> None:
        """Raise the refusal of one of these brokers, if there is one; an error of the same class names the broker."""
        for address in addresses:
            if address in self._by_address:
                error, _ = self._by_address[address]
                raise type(error)(f"broker {address} refuses this client: {error}") from error

    def final(self, address: str, now: float, session_timeout_s: float) -> UsageError | None:
        """The refusal of a broker that has lasted for a session; None without one.

        A missing right does not count: an operator may grant it while the client runs, and each heartbeat logs it.
        """
        error, since = self._by_address.get(address, (None, now))
        lasts = now - since >= session_timeout_s
        return error if lasts and not isinstance(error, NoPermission) else None
