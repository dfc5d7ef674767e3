"""Requests to many servers of a cluster at once, for administration; answers are keyed by name or address.

A server that fails does not fail the others: its error is in the place of its answer, and the caller decides. A request
to a set of replicas goes on to the next master while there is time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from random import Random
from typing import Any, NoReturn

import anyio
import msgpack

from client.config import ServerDialect
from client.instance.name_servers import NameServers
from model.absent_broker import Absence, AbsentBroker
from model.arguments import check_text
from model.decode import decode_or_keep
from model.errors import (
    ConnectFailed,
    ConnectionLost,
    GroupNotExist,
    InvalidParameter,
    NetworkError,
    NotMaster,
    ReplicationTimeout,
    RlabError,
    ServiceNotAvailable,
    TopicNotExist,
)
from model.limits import REQUEST_TIMEOUT_S
from model.message import MessageExt
from model.message_queue import MessageQueue
from model.names import check_topic
from model.replica_limits import MASTER_CONNECT_S, MASTER_PAUSE_S
from model.response_code import ResponseCode
from model.topic_route import BrokerData, TopicRoute, broker_data
from remoting.address import parse_addresses
from remoting.client import RemotingClient, raise_for_code
from remoting.command import Command
from remoting.request_code import RequestCode
from remoting.security.key import Key

Answer = Command | RlabError
"""The response of one server, or the error instead of it."""

_NOTHING_THERE = (ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_OFFSET_MOVED, ResponseCode.PULL_RETRY_IMMEDIATELY)
_NOTHING_DONE = (NotMaster, ConnectFailed)
_MAY_BE_DONE = (*_NOTHING_DONE, ConnectionLost, ReplicationTimeout)
"""After these errors the next master of a set is asked; after the last two, only if executing twice does no harm."""
_SHOWN_NAMES = 10


class ClusterRequests:
    """Connections to the name servers and brokers of a cluster; the arguments are those of `Admin`.

    `servers` names each of the name servers after its address, for `ask`.
    """

    def __init__(
        self,
        name_servers: str | Sequence[str],
        timeout_s: float,
        rng: Random,
        key: Key | None = None,
        dialect: ServerDialect = ServerDialect.AUTO,
    ) -> None:
        addresses = parse_addresses(name_servers)
        self.servers = {address: address for address in addresses}
        self.remoting = RemotingClient(rng=rng, key=key, codec_of=dialect.codec_of())
        self.name_servers = NameServers(self.remoting, addresses, rng, timeout_s)
        self._timeout_s = timeout_s
        self._lacking: dict[str, None] = {}  # names of brokers whose replicas had no master when they were last listed
        self.dialect = dialect

    async def start(self) -> None:
        """See `Admin.start`. Cancellation: nothing is left open."""
        try:
            self.dialect, _ = await self.name_servers.find_dialect(self.dialect)
        except BaseException:  # a cancellation too: a caller does not close connections that it could not start
            with anyio.CancelScope(shield=True):
                await self.remoting.aclose()
            raise

    # --- routes and addresses -----------------------------------------------------------------------------------------

    async def brokers(self) -> tuple[BrokerData, ...]:
        """Every broker that is registered, sorted by name.

        Raises ConnectFailed: no name server answers. Cancellation: harmless.
        """
        answer = await self.name_servers.request(RequestCode.GET_BROKER_CLUSTER_INFO)
        sets = {name: (set_id, epoch) for name, set_id, epoch, _ in answer.header.get("sets", ())}
        return tuple(
            broker_data(cluster, name, addresses, *sets.get(name, ()))
            for cluster, name, addresses in sorted(unpack(answer), key=lambda broker: str(broker[1]))
        )

    async def route(self, topic: str) -> TopicRoute:
        """The route of a topic; see `Admin.route`. Cancellation: harmless."""
        route = await self.name_servers.route(check_topic(topic))
        if route is None:
            away = [str(broker) for broker in (await self.absent(topic)).brokers]
            if away:
                raise TopicNotExist(f"no broker of topic {topic!r} is there: {'; '.join(away)}")
            raise TopicNotExist(f"topic {topic!r} does not exist: create it with 'rlab topic create {topic}'")
        return route

    async def masters(self, wanted_names: Iterable[str] | None = None) -> dict[str, str]:
        """Name -> address of the master of these brokers, or of all, sorted by name.

        Raises ServiceNotAvailable if no broker is registered, InvalidParameter if one of the wanted is not, or is not
        a name. Cancellation: harmless.
        """
        names = None if wanted_names is None else list(wanted_names)
        for name in names or ():
            check_text("the name of a broker", name)
        masters = masters_of(await self._with_masters(names))
        if not masters:
            servers = ", ".join(self.servers)
            away = "".join(f"; {broker}" for broker in (await self.absent()).brokers[:_SHOWN_NAMES])
            raise ServiceNotAvailable(
                f"no broker is registered with name server {servers}: start one with 'rlab broker'{away}"
            )
        chosen = list(masters) if names is None else sorted(names)
        for name in chosen:
            if name not in masters:
                absent = (await self.absent()).masters.get(name)
                away = "" if absent is None else f": {absent}"
                raise InvalidParameter(
                    f"broker {name!r} is not registered{away}; {list_names('registered brokers', masters)}"
                )
        return {name: masters[name] for name in chosen}

    async def _with_masters(self, wanted_names: Collection[str] | None) -> tuple[BrokerData, ...]:
        """Every registered broker. It waits a moment for the next master of a set, once for each time without one."""
        until = anyio.current_time() + MASTER_CONNECT_S
        while True:
            brokers = await self.brokers()
            lacking = {each.broker_name: None for each in brokers if each.master is None and each.set_id}
            expected = [
                name for name in lacking if name not in self._lacking and (wanted_names is None or name in wanted_names)
            ]
            if not expected or anyio.current_time() >= until:
                self._lacking = lacking
                return brokers
            await anyio.sleep(MASTER_PAUSE_S)

    async def absent(self, topic: str | None = None) -> Absence:
        """The brokers that any name server lists as gone without unregistering, and that are registered at none.

        With a topic, only those that have it. A name server that does not answer or is of an earlier version cannot
        report them, which is a part of the answer. Cancellation: harmless.
        """
        header = {} if topic is None else {"topic": topic}
        answers = await self.ask(self.servers, RequestCode.GET_ABSENT_BROKERS, header)
        unable = {address: str(answer) for address, answer in answers.items() if isinstance(answer, RlabError)}
        able = [answer for answer in answers.values() if not isinstance(answer, RlabError)]
        brokers_away: dict[tuple[str, int], AbsentBroker] = {}
        for answer in able:
            for broker in map(AbsentBroker.from_wire, unpack(answer)):
                other = brokers_away.get((broker.broker_name, broker.broker_id))
                if other is None or broker.away_s < other.away_s:
                    brokers_away[broker.broker_name, broker.broker_id] = broker
        if brokers_away:
            lists = await self.ask(self.servers, RequestCode.GET_BROKER_CLUSTER_INFO, {})
            for each in lists.values():
                for _, name, addresses in () if isinstance(each, RlabError) else unpack(each):
                    for broker_id, _ in addresses:
                        brokers_away.pop((name, int(broker_id)), None)
        return Absence(
            brokers=tuple(broker for _, broker in sorted(brokers_away.items())),
            known_for_s=max((answer.header["uptime_s"] for answer in able), default=None),
            unable=unable,
        )

    # --- asking ------------------------------------------------------------------------------------------------------

    async def request(
        self,
        address: str,
        code: RequestCode,
        header: Mapping[str, Any] | None = None,
        body: bytes | None = None,
        *,
        broker: str = "",
        timeout_s: float | None = None,
        repeats: bool = True,
    ) -> Command:
        """Send a request to one server; raises the error of its answer. Cancellation: it may have been executed.

        Args:
            address: of the server.
            code: of the request.
            header: its fields.
            body: its body.
            broker: the name, if it is the master of a broker: then the next master of a set is asked as well.
            timeout_s: for each attempt; by default that of `Admin`.
            repeats: whether the request may be executed twice. If not, it is sent again only if it was certainly not
                executed.
        """

        async def attempt(address: str) -> Command:
            return await self.remoting.request(address, code, header, body, timeout_s or self._timeout_s)

        return await self._followed(address, broker, attempt, repeats=repeats)

    async def pull(
        self, address: str, group: str, queue: MessageQueue, offset: int, max_n: int
    ) -> tuple[list[tuple[MessageExt, str]], int]:
        """Read a queue without a lease, at the address of its broker or at the next master of a set.

        Returns messages as `decode_or_keep` does, and the offset to go on from. If the messages at the offset were
        deleted or damaged, no messages are returned, and an offset behind them. Cancellation: harmless.
        """
        header = {
            "group": group,
            "topic": queue.topic,
            "queue_id": queue.queue_id,
            "offset": offset,
            "max_n": max_n,
            "suspend_ms": 0,
        }

        async def attempt(address: str) -> Command:
            connection = self.remoting.connected(address) or await self.remoting.connect(address, REQUEST_TIMEOUT_S)
            answer = await connection.request(RequestCode.PULL_MESSAGE, header, None, REQUEST_TIMEOUT_S)
            return answer if answer.code in _NOTHING_THERE else raise_for_code(answer)

        answer = await self._followed(address, queue.broker_name, attempt, repeats=True)
        messages = [] if answer.code in _NOTHING_THERE else decode_or_keep(queue, answer.body or b"")
        return messages, answer.header["next_offset"]

    async def _followed(
        self, address: str, broker: str, attempt: Callable[[str], Awaitable[Command]], *, repeats: bool
    ) -> Command:
        """Make attempts at one address after another, as long as there is a next master and the time of a request.

        A replica that does not serve names the master of its set. Otherwise name servers are asked for it.
        """
        until, doubt, epoch = anyio.current_time() + self._timeout_s, None, 0
        while True:
            try:
                return await attempt(address)
            except RlabError as error:
                doubt = doubt or (None if error.definite else error)
                if isinstance(error, NotMaster) and error.master_address and error.epoch > epoch:
                    address, epoch = error.master_address, error.epoch
                    continue
                is_worth = broker and isinstance(error, _MAY_BE_DONE if repeats else _NOTHING_DONE)
                next_master = await self._next_master(broker, address, error, until) if is_worth else None
                if next_master is None:
                    raise doubt or error from None
                address = next_master

    async def _next_master(self, broker: str, address: str, error: RlabError, until: float) -> str | None:
        """The address at which to repeat a request, after a short wait; None without a next master, or without time."""
        if anyio.current_time() + MASTER_PAUSE_S >= until:
            return None
        entry = next((data for data in await self.brokers() if data.broker_name == broker), None)
        if entry is None or not (isinstance(error, NotMaster) or entry.master != address or entry.set_id):
            return None
        await anyio.sleep(MASTER_PAUSE_S)
        return entry.master or address

    async def ask(
        self,
        servers: Mapping[str, str],
        code: RequestCode,
        header: Mapping[str, Any],
        *,
        repeats: bool = True,
        **own_fields: Mapping[str, Any],
    ) -> dict[str, Answer]:
        """Ask servers, given as name -> address, at the same time; the answers, some of them errors, are by name.

        A name that is not the address is that of a broker: see `request`, also for `repeats`. Each other keyword is a
        field of the header that is different for each server, by name. Cancellation: any of them may have executed the
        request.
        """
        answers: dict[str, Answer] = dict.fromkeys(servers, ConnectFailed("not asked"))

        async def ask_one(name: str, address: str) -> None:
            fields = {field: values[name] for field, values in own_fields.items()}
            try:
                broker = "" if name == address else name
                answers[name] = await self.request(address, code, {**header, **fields}, broker=broker, repeats=repeats)
            except RlabError as error:
                answers[name] = error

        async with anyio.create_task_group() as tasks:
            for name, address in servers.items():
                tasks.start_soon(ask_one, name, address)
        return answers

    async def ask_reachable(
        self, masters: Mapping[str, str], code: RequestCode, header: Mapping[str, Any]
    ) -> tuple[dict[str, Answer], list[str]]:
        """Ask brokers; returns answers and errors of those that were reached, by name, and the names of the others.

        Raises ConnectFailed if none was reached. Cancellation: any of them may have executed the request.
        """
        answers = await self.ask(masters, code, header)
        away = [name for name, answer in answers.items() if isinstance(answer, NetworkError)]
        if len(away) == len(answers):
            raise ConnectFailed("no broker answers: " + "; ".join(f"{name}: {answers[name]}" for name in away))
        return {name: answer for name, answer in answers.items() if name not in away}, away


def successful_answers(
    answers: Mapping[str, Answer], failed: str, *ignored: type[RlabError], kind: str = "broker"
) -> dict[str, Command]:
    """The responses of servers of a `kind`, by name; errors of the ignored classes are left out.

    The first other error is raised, with the text `failed` and the server's name in front.
    """
    for name, answer in answers.items():
        if isinstance(answer, RlabError) and not isinstance(answer, ignored):
            fail(f"{failed} {kind} {name}", answer)
    return {name: answer for name, answer in answers.items() if not isinstance(answer, RlabError)}


def unpack(answer: Answer) -> Any:
    """The body of a response; an error is raised."""
    if isinstance(answer, RlabError):
        raise answer
    return msgpack.unpackb(answer.body or b"", strict_map_key=False)


def unpack_group(answer: Answer) -> Any:
    """The body of a response about a group; None if the broker does not know the group."""
    return None if isinstance(answer, GroupNotExist) else unpack(answer)


def unpack_route(answer: Answer) -> TopicRoute | None:
    """The route in a name server's response; None instead of any error."""
    return None if isinstance(answer, RlabError) else TopicRoute.from_wire(unpack(answer))


def masters_of(brokers: Iterable[BrokerData]) -> dict[str, str]:
    """Broker name -> address, sorted by name; brokers without a registered master are left out."""
    masters = {broker.broker_name: broker.master for broker in brokers}
    return {name: address for name, address in sorted(masters.items()) if address is not None}


def fail(where: str, error: RlabError) -> NoReturn:
    """Raise an error again, of the same class, with the text `where` in front."""
    raise type(error)(f"{where}: {error}") from error


def list_names(title: str, names: Iterable[str]) -> str:
    """Text with the first names, for errors about an unknown name."""
    names = list(names)
    more = f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
    return f"{title}: {', '.join(names[:_SHOWN_NAMES])}{more}" if names else f"there are no {title}"
