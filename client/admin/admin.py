"""Administration of a cluster: brokers, topics, groups, offsets, messages. RocketMQ: DefaultMQAdminExt.

All brokers are asked at the same time, each for its own queues. Name servers only provide their addresses.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from random import Random

from client.admin.absent import forget_broker
from client.admin.dead_letters import DeadLetterAdmin
from client.admin.group_settings import set_group
from client.admin.groups import assignment_of, delete_group, group_now, header_of, list_groups, unknown_group
from client.admin.messages import DEFAULT_FOUND, FoundMessages, find_messages, read_queue
from client.admin.offsets import earliest_clock, reset_offsets
from client.admin.producers import ProducerGroup, ProducerGroupInfo, all_producer_groups, one_producer_group
from client.admin.records import (
    NO_HEADER,
    AssignmentInfo,
    BrokerInfo,
    GroupInfo,
    GroupSummary,
    QueueProgress,
    progress_from_wire,
)
from client.admin.replicas import hand_over, replicas_of
from client.admin.requests import ClusterRequests, successful_answers, unpack, unpack_group
from client.admin.topics import create_topic, delete_topic, scale_topic, set_topic
from client.admin.trace import TraceReader
from client.config import ServerDialect, check_seconds, parse_dialect
from client.instance.member import ClientLifecycle
from model.absent_broker import Absence
from model.arguments import check_iterable, check_number, short_repr
from model.assignment import ALL_QUEUES, RequestMode
from model.errors import (
    ConfigError,
    InvalidParameter,
)
from model.group_settings import GroupSettings
from model.limits import DEFAULT_TOPIC_QUEUES, MAX_LOOKUP_MESSAGES, REQUEST_TIMEOUT_S
from model.message import MessageExt
from model.message_queue import MessageQueue
from model.missing_trace import MissingTrace, describe_missing
from model.names import TRACE_TOPIC, check_group, check_topic, is_retry_topic
from model.offset_reset import MAX_VALUE, QueueReset, ResetTo
from model.replica_info import ReplicaSetInfo
from model.replica_set import ReplicaSet
from model.topic_route import BrokerData, MessageType, TopicRoute
from remoting.request_code import RequestCode
from remoting.security.key import Key
from remoting.tasks import OwningLoop


class Admin(ClientLifecycle):
    """Administration of a cluster; an async context manager.

    Args:
        name_servers: addresses, a string separated by commas or a list.
        timeout_s: timeout of each request.
        dialect: protocol of the servers, `rlab`, `rocketmq`, or `auto`, which finds out.
        rng: chooses the name server that is asked first.
        key: proved to every server; by default the key of the environment, if there is one.

    Raises:
        ConfigError: a malformed address, a timeout out of range, or a key or `rng` of a wrong type.

    Every call refuses arguments of a wrong type with InvalidParameter. Its cancellation is harmless where it only asks.

    Use:
        async with Admin("127.0.0.1:9876") as admin:
            print((await admin.group("billing")).balanced)
    """

    def __init__(
        self,
        name_servers: str | Sequence[str],
        *,
        timeout_s: float = REQUEST_TIMEOUT_S,
        rng: Random | None = None,
        key: Key | None = None,
        dialect: str = ServerDialect.AUTO,
    ) -> None:
        check_seconds("timeout_s", timeout_s)
        if not isinstance(key, Key | None) or not isinstance(rng, Random | None):
            raise ConfigError("key must be a Key, and rng a random.Random")
        self._cluster = ClusterRequests(name_servers, timeout_s, rng or Random(), key, parse_dialect(dialect))

    async def start(self) -> None:
        """Reach a name server.

        Raises:
            ConnectFailed: none answers.
            ConfigError: the server that answers is not a name server.

        Cancellation: nothing is left open.
        """
        self._home = OwningLoop()
        await self._cluster.start()

    async def shutdown(self) -> None:
        """Close every connection. Idempotent. Cancellation: harmless."""
        self._check_loop()
        await self._cluster.remoting.aclose()

    # --- brokers -----------------------------------------------------------------------------------------------------

    async def brokers(self) -> tuple[BrokerData, ...]:
        """Every broker that is registered, sorted by name.

        Raises:
            ConnectFailed: no name server answers.
        """
        return await self._cluster.brokers()

    async def broker_info(self, broker: str) -> BrokerInfo:
        """The state of the broker of this name.

        Raises:
            ServiceNotAvailable, InvalidParameter, NetworkError: no broker is registered, or not this one; no answer
                came.
        """
        address = (await self._cluster.masters([broker]))[broker]
        answer = await self._cluster.request(address, RequestCode.GET_BROKER_RUNTIME_INFO, broker=broker)
        return BrokerInfo.from_wire(address, unpack(answer))

    async def allow_writes(self, broker: str, *, allowed: bool) -> None:
        """Remove the write permission of a broker's topics at every name server, or restore it; producers follow soon.

        Raises:
            InvalidParameter, ConnectFailed: no such broker; a name server does not answer. Others may have done it.

        Cancellation: some may have done it.
        """
        if not isinstance(allowed, bool):
            raise InvalidParameter(f"allowed must be True or False, got {short_repr(allowed)}")
        code = RequestCode.ADD_WRITE_PERM_OF_BROKER if allowed else RequestCode.WIPE_WRITE_PERM_OF_BROKER
        answers = await self._cluster.ask(self._cluster.servers, code, {"broker_name": broker})
        successful_answers(answers, "not everywhere:", kind="name server")

    async def absent_brokers(self) -> Absence:
        """The brokers that name servers list as absent: gone without unregistering, and not back. Never fails."""
        return await self._cluster.absent()

    async def forget_broker(self, broker: str) -> int:
        """Remove an absent broker from every name server; returns how many of them listed it.

        Raises:
            InvalidParameter, NetworkError: it is not absent, or registered; a name server does not answer.

        Cancellation: some name servers may have forgotten it.
        """
        return await forget_broker(self._cluster, broker)

    async def replicas(self, broker: str) -> ReplicaSetInfo:
        """The set of replicas of a broker, and the position of each replica.

        Raises:
            InvalidParameter: no such broker is registered, or it has no copies.
            ConnectFailed: no name server answers.
        """
        return await replicas_of(self._cluster, broker)

    async def hand_over(self, broker: str, to: int = 0) -> ReplicaSet:
        """Let the master of a broker hand over to a replica in sync, by its id or with 0 to any; returns the new row.

        Raises:
            InvalidParameter, IllegalOperation: there is no such set; that replica cannot take over without loss.
            NotMaster: another replica is the master now.
            ReplicationTimeout: the others were too slow, so the master continues.
            NetworkError: no answer came.

        Cancellation: the handover goes on.
        """
        return await hand_over(self._cluster, broker, to)

    async def missing_trace(self, silent: Mapping[str, str] = NO_HEADER, trace_s: float | None = None) -> MissingTrace:
        """Describe the parts of SYS_TRACE that absent brokers have; see `describe_missing`. Never fails."""
        return describe_missing(await self._cluster.absent(TRACE_TOPIC), silent, trace_s)

    def trace(self, since_ms: float | None = None) -> TraceReader:
        """A reader of the events of brokers and clients, from the oldest that is left, or since a time of the day.

        Args:
            since_ms: wall clock in milliseconds.
        """
        if since_ms is not None:
            check_number("since_ms", since_ms, 0, MAX_VALUE)
        return TraceReader(self._cluster, since_ms)

    # --- topics ------------------------------------------------------------------------------------------------------

    async def topics(self) -> tuple[str, ...]:
        """Names of all topics, sorted, system topics included.

        Raises:
            ConnectFailed: no name server answers.
        """
        code = RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER
        return tuple(unpack(await self._cluster.name_servers.request(code)))

    async def route(self, topic: str) -> TopicRoute:
        """The brokers and queues of a topic.

        Raises:
            InvalidParameter: an illegal name.
            TopicNotExist: no broker serves it.
            ConnectFailed: no name server answers.
        """
        return await self._cluster.route(topic)

    async def routes(self, topics: Iterable[str]) -> list[TopicRoute]:
        """The routes of topics, in the order given; topics that do not exist are left out.

        Raises:
            ConnectFailed: no name server answers.
        """
        check_iterable("topics", topics)
        routes = [await self._cluster.name_servers.route(check_topic(topic)) for topic in topics]
        return [route for route in routes if route is not None]

    async def create_topic(
        self,
        topic: str,
        queues: int = DEFAULT_TOPIC_QUEUES,
        *,
        read: int | None = None,
        write: int | None = None,
        brokers: Sequence[str] | None = None,
        message_type: MessageType | None = None,
    ) -> TopicRoute:
        """Create a topic; brokers that have it already with the same counts are left as they are.

        RocketMQ's UPDATE_AND_CREATE_TOPIC silently changes an existing topic to the requested counts.

        Args:
            topic: its name.
            queues: queues on each broker.
            read: queues that can be read, if not `queues`.
            write: queues that can be written, if not `queues`.
            brokers: names of the brokers that get it; all by default.
            message_type: the only type of messages that it takes; MIXED, the default of a new topic, takes all.

        Returns:
            Its route, as every reachable name server shows it.

        Raises:
            InvalidParameter: an illegal name or count, or an unknown broker.
            IllegalOperation: it exists with other counts or another type, or is a system topic.
            ServiceNotAvailable: no broker is registered.
            RequestTimeout: it was created, but a name server does not show it.
            RlabError: a broker refused or could not be reached; those before it have the topic. Safe to repeat.

        Cancellation: some brokers may have it.
        """
        return await create_topic(self._cluster, topic, queues, read, write, brokers, message_type)

    async def set_topic(self, topic: str, *, message_type: MessageType) -> TopicRoute:
        """Set the type of messages that a topic takes, on every broker that has it; stored messages stay as they are.

        Raises:
            InvalidParameter, TopicNotExist, IllegalOperation: a wrong type; no such topic; it is a system topic, or one
                of retries or dead letters, which take messages of every type.
            RlabError: see `create_topic`. Safe to repeat.

        Cancellation: some brokers may have the new type.
        """
        return await set_topic(self._cluster, topic, message_type)

    async def scale_topic(
        self, topic: str, *, read: int | None = None, write: int | None = None, force: bool = False
    ) -> TopicRoute:
        """Change the queue counts of a topic on every broker that has it.

        To shrink a topic without hiding a message: lower `write`, let the groups drain the rest, then lower `read`.

        Args:
            topic: its name.
            read: queues that can be read, per broker; None leaves them.
            write: queues that can be written, per broker; None leaves them.
            force: lower `read` although the removed queues hold messages that were not consumed. They stay stored, and
                can be read again when `read` is raised again.

        Returns:
            Its route, as every reachable name server shows it.

        Raises:
            InvalidParameter: neither count is given, or one is illegal.
            TopicNotExist: no such topic.
            IllegalOperation: messages would become unreadable, or it is a system topic.
            RlabError: see `create_topic`. Safe to repeat.

        Cancellation: some brokers may have the new counts.
        """
        return await scale_topic(self._cluster, topic, read, write, force=force)

    async def delete_topic(self, topic: str) -> None:
        """Delete a topic with its messages: on its brokers first, because they would register it again.

        Raises:
            TopicNotExist: no such topic.
            IllegalOperation: it is a system topic.
            RlabError: a broker refused or could not be reached and still has it. Safe to repeat.

        Cancellation: some brokers may have deleted it.
        """
        await delete_topic(self._cluster, topic)

    # --- groups ------------------------------------------------------------------------------------------------------

    async def groups(self) -> tuple[GroupSummary, ...]:
        """Every group that has members, offsets or settings on a broker that answers, sorted by name.

        Raises:
            ServiceNotAvailable: no broker is registered.
            ConnectFailed: no broker answers.
        """
        return await list_groups(self._cluster)

    async def delete_group(self, group: str) -> None:
        """Delete a group that has no members: its offsets, and failed messages that wait for their next attempt.

        Messages that were kept only for this group may be deleted then. Its dead letters stay. Every broker is asked
        for members first, so that nothing is deleted anywhere while there is one.

        Raises:
            InvalidParameter: an illegal name.
            GroupNotExist: no broker knows it; the text lists some that are known.
            IllegalOperation: it has members, or a member joined at this moment.
            RlabError: a broker refused or could not be reached and still has it. Safe to repeat.

        Cancellation: some brokers may have deleted it.
        """
        await delete_group(self._cluster, check_group(group))

    async def set_group(
        self,
        group: str,
        *,
        consume: bool | None = None,
        broadcast: bool | None = None,
        retry_queues: int | None = None,
        max_attempts: int | None = None,
        fifo: bool | None = None,
        retry_delays_ms: Sequence[int] | None = None,
        create: bool = False,
    ) -> Mapping[str, GroupSettings]:
        """Change settings of a group on every broker, also while it consumes; None leaves one as it is.

        Args:
            group: its name.
            consume: whether its members get messages. They keep their queues, and ask on, while they do not.
            broadcast: whether its broadcasting members get messages.
            retry_queues: queues of its retry topic on each broker, 1 to 1,024.
            max_attempts: retries of a failed message before it goes to the DLQ, 0 to 65,000, for all members; -1 for
                the option of each.
            fifo: whether its pops are in order, and clients of RocketMQ 5 consume in order.
            retry_delays_ms: delays before the first, second, ... retry of a failed message, 0 ms to 12 h each, at most
                32; empty for RocketMQ's.
            create: allow a group that no broker knows.

        Returns:
            Broker name -> its settings now.

        Raises:
            InvalidParameter: an illegal name or number, or nothing to change.
            GroupNotExist: no broker knows it; the text lists some that are known.
            ServiceNotAvailable: no broker is registered.
            RlabError: a broker refused or could not be reached; the text names each of them. Safe to repeat.

        Cancellation: some brokers may have the new settings.
        """
        changes: dict[str, object] = {"consume": consume, "broadcast": broadcast, "retry_queues": retry_queues}
        changes |= {"max_attempts": max_attempts, "fifo": fifo, "retry_delays_ms": retry_delays_ms}
        given_settings = {name: value for name, value in changes.items() if value is not None}
        return await set_group(self._cluster, group, given_settings, create=create)

    async def producer_groups(self) -> tuple[ProducerGroup, ...]:
        """Every producer group with a member or an open transaction on a broker that answers, sorted by name.

        Raises:
            ServiceNotAvailable: no broker is registered.
            ConnectFailed: no broker answers.
        """
        return await all_producer_groups(self._cluster)

    async def producer_group(self, group: str) -> ProducerGroupInfo:
        """The members and the oldest open transactions of a producer group.

        Raises:
            InvalidParameter: an illegal name.
            GroupNotExist: no broker that answers knows it.
            ServiceNotAvailable, ConnectFailed: as of `producer_groups`.
        """
        return await one_producer_group(self._cluster, check_group(group))

    def dead_letters(self, group: str) -> DeadLetterAdmin:
        """The dead-letter messages of a group.

        Raises:
            InvalidParameter: an illegal name.
        """

        async def check_known() -> None:
            if group not in (group_names := await self._group_names()):
                raise unknown_group(group, group_names)

        return DeadLetterAdmin(self._cluster, group, check_known)

    async def _group_names(self) -> list[str]:
        return [summary.group for summary in await self.groups()]

    async def group(self, group: str) -> GroupInfo:
        """A group now: members, progress, and the current and the target owner of each queue.

        The parts are requested one after another, so they may contradict each other while the group rebalances.

        Raises:
            InvalidParameter: an illegal name.
            GroupNotExist: no broker that answers knows it; the text lists some that are known.
            ServiceNotAvailable: no broker is registered.
            ConnectFailed: no broker answers.
        """
        return await group_now(self._cluster, check_group(group))

    async def progress(self, group: str) -> tuple[QueueProgress, ...]:
        """Progress of a group and the owners of its queues, without targets, on the brokers that answer.

        One request to each broker, where `group` sends six: for callers that refresh twice a second.

        Raises:
            InvalidParameter: an illegal name.
            ServiceNotAvailable: no broker is registered.
            ConnectFailed: no broker answers.
        """
        header = {"group": check_group(group)}
        masters = await self._cluster.masters()
        answers, _ = await self._cluster.ask_reachable(masters, RequestCode.GET_CONSUME_STATS, header)
        return tuple(
            row
            for name, answer in answers.items()
            for row in progress_from_wire(name, unpack_group(answer) or (), header_of(answer))
        )

    async def clock_ms(self, topic: str) -> int | None:
        """The wall clock of the brokers of a topic in milliseconds, the earliest if they differ.

        For turning an age into the time of a stored message: the clock of this machine may differ from it. None if no
        broker of the topic answers with its time; brokers of RocketMQ do not.

        Raises:
            TopicNotExist: no such topic.
            ConnectFailed: no name server answers.

        Cancellation: harmless.
        """
        return await earliest_clock(self._cluster, topic)

    async def reset_offsets(
        self,
        group: str,
        topic: str,
        to: ResetTo,
        *,
        queues: Collection[MessageQueue] | None = None,
        dry_run: bool = False,
        create: bool = False,
    ) -> tuple[QueueReset, ...]:
        """Reset the offsets of a group on a topic, also while it consumes.

        Members drop the messages that they have fetched and continue at the new offsets. Messages that are with a
        listener at that moment are processed, but not committed, so they are redelivered if they lie at or after the
        new offset. Each broker resets all of its queues in one step, and answers when that is stored. All brokers are
        asked for their plan first, so that nothing is reset anywhere when one of them refuses. Returns every queue,
        sorted.

        Args:
            group: its name.
            topic: its name. The group's retry topic is another one: messages that wait there for a retry stay.
            to: the new offsets.
            queues: the queues to reset; all of the topic by default.
            dry_run: change nothing, only return what would change.
            create: allow a group that no broker knows; it will begin at these offsets.

        Raises:
            TopicNotExist: no such topic.
            InvalidParameter: a queue is not the topic's; or a shift where the group has committed nothing.
            GroupNotExist: no broker of the topic knows the group.
            IllegalOperation: the group is broadcasting: its members keep their offsets themselves.
            RlabError: a broker could not be reached. Safe to repeat, except a shift of those that were reached.

        Cancellation: some brokers may have been reset.
        """
        return await reset_offsets(self._cluster, group, topic, to, queues=queues, dry_run=dry_run, create=create)

    async def assignment(self, group: str) -> AssignmentInfo:
        """The newest assignment that a broker has made for a group, and the request modes of its topics.

        Raises:
            InvalidParameter: an illegal name.
            ServiceNotAvailable: no broker is registered.
            ConnectFailed: no broker answers.
        """
        return await assignment_of(self._cluster, check_group(group))

    async def set_request_mode(
        self, group: str, topic: str, mode: RequestMode | str, *, pop_share_queue_num: int = ALL_QUEUES
    ) -> None:
        """Let the members of a group pull or pop a topic from now on, also while they consume.

        It affects members with `assignment="broker"`. Every broker gets it, because any of them may have to assign.

        Args:
            group: its name; it may have no members yet.
            topic: its name, no retry topic.
            mode: `PULL` or `POP`.
            pop_share_queue_num: for POP: of how many other members a member also pops the queues; 0 or less for all.

        Raises:
            InvalidParameter: an illegal name or mode.
            IllegalOperation: a retry topic.
            TopicNotExist: no broker serves the topic.
            RlabError: a broker refused or could not be reached; others may have taken it. Safe to repeat.

        Cancellation: some brokers may have taken it.
        """
        if mode not in list(RequestMode):
            raise InvalidParameter(f"mode must be one of {', '.join(RequestMode)}, got {mode!r}")
        header = {
            "group": check_group(group),
            "topic": check_topic(topic),
            "mode": RequestMode(mode).value,
            "pop_share_queue_num": pop_share_queue_num,
        }
        if not is_retry_topic(topic):  # which brokers refuse, with the reason
            await self.route(topic)  # brokers take any name, also of topics that only others have
        masters = await self._cluster.masters()
        answers = await self._cluster.ask(masters, RequestCode.SET_MESSAGE_REQUEST_MODE, header)
        successful_answers(answers, f"the mode of {topic!r} could not be set on")

    # --- messages ----------------------------------------------------------------------------------------------------

    async def query_message(
        self, topic: str, key: str, *, max_n: int = DEFAULT_FOUND, begin_ms: int = 0, end_ms: int | None = None
    ) -> FoundMessages:
        """Find messages by one of their keys.

        Copies for a retry and dead letters of messages of the topic are found as well.

        Args:
            topic: its name; a retry topic or a DLQ finds only its own messages.
            key: one of the keys that the producer gave.
            max_n: most messages, 1 to 64.
            begin_ms: stored at this time or later, wall clock in milliseconds.
            end_ms: stored at this time or earlier; None for now.

        Raises:
            InvalidParameter: an illegal name or number.
            TopicNotExist: no broker serves the topic.
            ServiceNotAvailable: no broker is registered.
            ConnectFailed: no name server, or no broker, answers.
            SystemBusy: a broker has too many searches in progress.
            ServerError: a broker cannot read its files.

        Cancellation: harmless.
        """
        await self.route(topic)
        times = {"begin_ms": begin_ms, "end_ms": end_ms}
        return await find_messages(
            self._cluster, RequestCode.QUERY_MESSAGE, {"topic": topic, "key": key, **times}, max_n
        )

    async def read_queue(
        self, queue: MessageQueue, *, offset: int | None = None, since_ms: int | None = None, max_n: int = DEFAULT_FOUND
    ) -> tuple[list[tuple[MessageExt, str]], int]:
        """Messages of a queue from an offset, from a time, or the newest; each with the flaw of an undecodable payload.

        It joins no group. Returns the offset to go on from too.

        Raises:
            TopicNotExist, InvalidParameter: there is no such topic, queue or broker.
            NetworkError: its broker does not answer.
        """
        return await read_queue(self._cluster, queue, offset, since_ms, max_n)

    async def view_message(self, message_id: str, *, max_n: int = MAX_LOOKUP_MESSAGES) -> FoundMessages:
        """Find every copy of a message: the original, its retries, its dead letters.

        Args:
            message_id: the id that the producer gave it.
            max_n: most copies, 1 to 64.

        Raises:
            RlabError: as `query_message`.

        Cancellation: harmless.
        """
        return await find_messages(self._cluster, RequestCode.VIEW_MESSAGE_BY_ID, {"message_id": message_id}, max_n)
