"""TopicAdmin: creating, scaling and deleting topics. RocketMQ: UpdateTopicSubCommand, DeleteTopicSubCommand.

A topic is changed on brokers, which tell the name servers. Name servers do not talk to each other, so a change counts
as done when each of them that can be reached shows it: whoever asks for a route afterwards gets the new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import anyio

from client.admin.records import BrokerInfo, ProgressReport
from client.admin.requests import ClusterRequests, fail, masters_of, unpack, unpack_group, unpack_route
from model.errors import IllegalOperation, InvalidParameter, NetworkError, RequestTimeout, RlabError, TopicNotExist
from model.limits import DEFAULT_TOPIC_QUEUES
from model.message_queue import MessageQueue
from model.names import check_topic, is_system_topic
from model.topic_route import READ_WRITE, TopicConfig, TopicRoute, checked_topic_config
from remoting.wire.request_code import RequestCode

VISIBLE_TIMEOUT_S = 5.0
"""How long a change may take from the brokers to the name servers; brokers register it at once, so this is ample."""
VISIBLE_POLL_S = 0.02


class TopicAdmin:
    """The part of `Admin` that is about topics."""

    def __init__(self, cluster: ClusterRequests) -> None:
        self._cluster = cluster

    async def topics(self) -> tuple[str, ...]:
        """Names of all topics, sorted, system topics included.

        Raises:
            ConnectFailed: no name server answers.
        """
        code = RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER
        return tuple(unpack(await self._cluster.name_servers.request(code)))

    async def route(self, topic: str) -> TopicRoute:
        """Where a topic lives.

        Raises:
            InvalidParameter: an illegal name.
            TopicNotExist: no broker serves it.
            ConnectFailed: no name server answers.
        """
        route = await self._cluster.name_servers.route(check_topic(topic))
        if route is None:
            raise TopicNotExist(f"topic {topic!r} does not exist: create it with 'rlab topic create {topic}'")
        return route

    async def routes(self, topics: Iterable[str]) -> list[TopicRoute]:
        """Where topics live, in the order given; those that do not exist are left out.

        Raises:
            ConnectFailed: no name server answers.
        """
        routes = [await self._cluster.name_servers.route(topic) for topic in topics]
        return [route for route in routes if route is not None]

    async def create_topic(
        self,
        topic: str,
        queues: int = DEFAULT_TOPIC_QUEUES,
        *,
        read: int | None = None,
        write: int | None = None,
        brokers: Sequence[str] | None = None,
    ) -> TopicRoute:
        """Create a topic; brokers that have it already with the same counts are left as they are.

        RocketMQ's UPDATE_AND_CREATE_TOPIC turns an existing topic into the one described, without a word.

        Args:
            topic: its name.
            queues: queues on each broker.
            read: queues that can be read, if not `queues`.
            write: queues that can be written, if not `queues`.
            brokers: names of the brokers that get it; all by default.

        Returns:
            Its route, as every reachable name server shows it.

        Raises:
            InvalidParameter: an illegal name or count, or an unknown broker.
            IllegalOperation: it exists with other counts, or is a system topic.
            ServiceNotAvailable: no broker is registered.
            RequestTimeout: it was created, but a name server does not show it.
            RlabError: a broker refused or could not be reached; those before it have the topic. Safe to repeat.

        Cancellation: some brokers may have it.
        """
        config = checked_topic_config(
            topic, queues if read is None else read, queues if write is None else write, READ_WRITE
        )
        _check_is_users("created", topic)
        names = list(await self._cluster.masters(brokers))
        existing = await self._cluster.name_servers.route(topic)
        for data in existing.queues if existing is not None else ():
            counts = (data.read_queue_nums, data.write_queue_nums)
            if data.broker_name in names and counts != (config.read_queue_nums, config.write_queue_nums):
                raise IllegalOperation(
                    f"topic {topic!r} exists on {data.broker_name} with {counts[0]} read and {counts[1]} write queues: "
                    "scale it instead of creating it"
                )
        return await self._put(topic, dict.fromkeys(names, config))

    async def scale_topic(
        self, topic: str, *, read: int | None = None, write: int | None = None, force: bool = False
    ) -> TopicRoute:
        """Change the queue counts of a topic on every broker that has it.

        To shrink a topic without hiding a message: lower `write`, let the groups drain the rest, then lower `read`.

        Args:
            topic: its name.
            read: queues that can be read, per broker; None leaves them.
            write: queues that can be written, per broker; None leaves them.
            force: lower `read` although the queues that go hold messages that were not consumed. They stay stored, and
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
        _check_is_users("scaled", topic)
        if read is None and write is None:
            raise InvalidParameter(f"nothing to change: name the read or the write queues that {topic!r} should have")
        masters = masters_of((await self.route(topic)).brokers)
        configs: dict[str, TopicConfig] = {}
        for name, answer in (await self._cluster.ask_brokers(masters, RequestCode.GET_BROKER_RUNTIME_INFO, {})).items():
            if isinstance(answer, RlabError):
                fail(f"broker {name} has topic {topic!r}", answer)
            info = BrokerInfo.from_wire(masters[name], unpack(answer))
            found = info.topic(topic)
            if found is None:
                continue
            old = found.config
            configs[name] = new = checked_topic_config(
                topic,
                old.read_queue_nums if read is None else read,
                old.write_queue_nums if write is None else write,
                old.perm,
            )
            if new.read_queue_nums < old.read_queue_nums and not force:
                await self._check_drained(info, topic, new.read_queue_nums)
        return await self._put(topic, configs)

    async def delete_topic(self, topic: str) -> None:
        """Delete a topic with its messages: on its brokers first, because they would register it again.

        Raises:
            TopicNotExist: no such topic.
            IllegalOperation: it is a system topic.
            RlabError: a broker refused or could not be reached and still has it. Safe to repeat.

        Cancellation: some brokers may have deleted it.
        """
        _check_is_users("deleted", topic)
        masters = masters_of((await self.route(topic)).brokers)
        header = {"topic": topic}
        answers = await self._cluster.ask_brokers(masters, RequestCode.DELETE_TOPIC_IN_BROKER, header)
        for name, answer in answers.items():
            if isinstance(answer, RlabError) and not isinstance(answer, TopicNotExist):
                fail(f"topic {topic!r} could not be deleted on broker {name}", answer)
        # A name server that is away hears from the brokers when it is back.
        await self._cluster.ask(self._cluster.addresses, RequestCode.DELETE_TOPIC_IN_NAMESRV, header)

    async def _check_drained(self, info: BrokerInfo, topic: str, read: int) -> None:
        """Refuse to hide messages that a group has still to consume, or that no group has begun to.

        What a producer with an old route stores after this look is not seen; lowering the write count first avoids it.
        """
        found = info.topic(topic)
        filled = {
            MessageQueue(topic, info.name, queue_id): False
            for queue_id, held in enumerate(found.ranges if found is not None else ())
            if queue_id >= read and held.max_offset > held.min_offset
        }
        if not filled:
            return
        for group, *_ in unpack(await self._cluster.request(info.address, RequestCode.GET_GROUP_LIST)):
            header = {"group": group, "topic": topic}
            answers = await self._cluster.ask([info.address], RequestCode.GET_CONSUME_STATS, header)
            for row in unpack_group(answers[info.address]) or ():
                progress = ProgressReport.from_wire(info.name, row)
                if progress.queue not in filled:
                    continue
                if progress.committed is None or progress.committed < progress.max_offset:
                    _refuse_to_hide(progress.queue, f"group {group!r} has not consumed")
                filled[progress.queue] = True
        for queue, consumed in filled.items():
            if not consumed:
                _refuse_to_hide(queue, "no group has consumed")

    async def _put(self, topic: str, configs: Mapping[str, TopicConfig]) -> TopicRoute:
        """Give brokers their config of a topic, one after another, then wait until name servers show it."""
        masters = await self._cluster.masters(configs)
        for name, config in configs.items():
            header = {
                "topic": topic,
                "read_queue_nums": config.read_queue_nums,
                "write_queue_nums": config.write_queue_nums,
                "perm": int(config.perm),
            }
            try:
                await self._cluster.request(masters[name], RequestCode.UPDATE_AND_CREATE_TOPIC, header)
            except RlabError as error:
                fail(f"broker {name}", error)
        return await self._wait_visible(topic, configs)

    async def _wait_visible(self, topic: str, configs: Mapping[str, TopicConfig]) -> TopicRoute:
        addresses = self._cluster.addresses
        behind = list(addresses)
        with anyio.move_on_after(VISIBLE_TIMEOUT_S):
            while True:
                answers = await self._cluster.ask(addresses, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
                # A name server that is away hears from the brokers when it is back.
                routes = {at: unpack_route(a) for at, a in answers.items() if not isinstance(a, NetworkError)}
                behind = [at for at, route in routes.items() if not _shows(route, configs)]
                shown = next((route for route in routes.values() if route is not None), None)
                if shown is not None and not behind:
                    return shown
                await anyio.sleep(VISIBLE_POLL_S)
        raise RequestTimeout(
            f"the brokers have topic {topic!r}, but name server {', '.join(behind or addresses)} does not show it "
            f"after {VISIBLE_TIMEOUT_S:g} s: does every broker register with every name server?"
        )


def _check_is_users(what: str, topic: str) -> None:
    if is_system_topic(topic):
        raise IllegalOperation(f"{topic} is a system topic of every broker; it cannot be {what}")


def _refuse_to_hide(queue: MessageQueue, who: str) -> None:
    raise IllegalOperation(
        f"queue {queue} holds messages that {who}, and would not be read any more: lower the write queues alone, wait "
        "until the groups have drained the rest, then lower the read queues; or force it"
    )


def _shows(route: TopicRoute | None, configs: Mapping[str, TopicConfig]) -> bool:
    """Whether a route has the queue counts of all these brokers."""
    shown = {q.broker_name: (q.read_queue_nums, q.write_queue_nums) for q in (route.queues if route else ())}
    return all(shown.get(name) == (config.read_queue_nums, config.write_queue_nums) for name, config in configs.items())
