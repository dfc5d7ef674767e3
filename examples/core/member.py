"""The member of a group: it computes its queues again whenever the group may have changed, and pulls them.

    start, a notification of a broker, another number of queues, or 20 s
        -> wakeup -> do_rebalance -> rebalance_by_topic -> update_process_queue_table_in_rebalance

Nothing prevents two members from pulling the same queue: a member that has not computed its queues again still pulls
it. Offsets are stored from time to time, so the next owner begins a little before the place where this one stopped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
from anyio.abc import TaskGroup

from examples.core.allocate import MessageQueue, allocate
from examples.core.remoting import Connection

REBALANCE_INTERVAL_S = 20.0  # RocketMQ: RebalanceService.waitInterval
ROUTE_POLL_S = 0.5  # RocketMQ: pollNameServerInterval, 30 s
HEARTBEAT_S = 0.5  # RocketMQ: heartbeatBrokerInterval, 30 s
PERSIST_S = 0.5  # RocketMQ: persistConsumerOffsetInterval, 5 s


class ProcessQueue:
    """The state of one queue at its owner. RocketMQ: ProcessQueue."""

    def __init__(self, offset: int) -> None:
        self.offset = offset  # of the next message
        self.dropped = False

    def set_dropped(self) -> None:
        """End the pull loop before its next message. RocketMQ: ProcessQueue.setDropped."""
        self.dropped = True


class Member:
    """RocketMQ: DefaultMQPushConsumerImpl with its RebalanceImpl, and the MQClientInstance below them.

    Args:
        connect: opens a connection to a port; the handler answers requests from there.
        listener: called with a client id, a queue and a message.
    """

    def __init__(self, client_id: str, group: str, topic: str, connect: Any, listener: Callable[..., None]) -> None:
        self.client_id, self.group, self.topic = client_id, group, topic
        self.process_queue_table: dict[MessageQueue, ProcessQueue] = {}  # RocketMQ: RebalanceImpl.processQueueTable
        self.topic_subscribe_info_table: list[MessageQueue] = []  # RocketMQ: topicSubscribeInfoTable, of one topic
        self._brokers: dict[str, Connection] = {}
        self._connect, self._listener = connect, listener
        self._wakeup = anyio.Event()

    async def start(self, tasks: TaskGroup, name_server: int) -> None:
        """RocketMQ: DefaultMQPushConsumerImpl.start."""
        self._tasks = tasks
        self._name_server = await self._connect(name_server, self.process_request)
        await self.update_topic_route_info_from_name_server()
        await self.send_heartbeat_to_all_broker()
        self.rebalance_immediately()
        tasks.start_soon(self.rebalance_service)
        for interval_s, act in (
            (ROUTE_POLL_S, self.update_topic_route_info_from_name_server),
            (HEARTBEAT_S, self.send_heartbeat_to_all_broker),
            (PERSIST_S, self.persist_all_consumer_offset),
        ):
            tasks.start_soon(self._schedule, interval_s, act)

    async def shutdown(self) -> None:
        """Leave in good order: no message is received twice. RocketMQ: DefaultMQPushConsumerImpl.shutdown."""
        for process_queue in self.process_queue_table.values():
            process_queue.set_dropped()
        await self.persist_all_consumer_offset()
        for broker in self._brokers.values():
            await broker.request("UNREGISTER_CLIENT", group=self.group)
        self._tasks.cancel_scope.cancel()

    async def _schedule(self, interval_s: float, act: Any) -> None:
        while True:
            await anyio.sleep(interval_s)
            await act()

    # --- the rebalance -----------------------------------------------------------------------------------------------

    async def process_request(self, connection: Connection, code: str, header: dict[str, Any]) -> None:
        """Handle a request of a broker. RocketMQ: ClientRemotingProcessor.processRequest, notifyConsumerIdsChanged."""
        if code == "NOTIFY_CONSUMER_IDS_CHANGED":
            self.rebalance_immediately()

    def rebalance_immediately(self) -> None:
        """Wake the loop; many calls make one pass. RocketMQ: MQClientInstance.rebalanceImmediately."""
        self._wakeup.set()

    async def rebalance_service(self) -> None:
        """One pass after the other. RocketMQ: RebalanceService.run."""
        while True:
            with anyio.move_on_after(REBALANCE_INTERVAL_S):  # RocketMQ: ServiceThread.waitForRunning
                await self._wakeup.wait()
            self._wakeup = anyio.Event()
            await self.do_rebalance()

    async def do_rebalance(self) -> None:
        """RocketMQ: RebalanceImpl.doRebalance, for each topic of subscriptionInner."""
        await self.rebalance_by_topic(self.topic)

    async def rebalance_by_topic(self, topic: str) -> None:
        """Compute the queues of this member from the two sorted lists. RocketMQ: RebalanceImpl.rebalanceByTopic."""
        mq_all = sorted(self.topic_subscribe_info_table)
        cid_all = sorted(await self.find_consumer_id_list(topic))
        allocated = allocate(self.group, self.client_id, mq_all, cid_all)
        await self.update_process_queue_table_in_rebalance(allocated)

    async def find_consumer_id_list(self, topic: str) -> list[str]:
        """Ask one broker of the topic. RocketMQ: MQClientInstance.findConsumerIdList asks a random one."""
        broker = self._brokers[min(self._brokers)]
        ids: list[str] = await broker.request("GET_CONSUMER_LIST_BY_GROUP", group=self.group)
        return ids

    async def update_process_queue_table_in_rebalance(self, allocated: list[MessageQueue]) -> None:
        """Drop queues that other members own now, and begin new ones. RocketMQ: updateProcessQueueTableInRebalance."""
        for queue in [each for each in self.process_queue_table if each not in allocated]:
            process_queue = self.process_queue_table.pop(queue)
            process_queue.set_dropped()
            await self._persist(queue, process_queue)  # RocketMQ: removeUnnecessaryMessageQueue
        for queue in allocated:
            if queue not in self.process_queue_table:
                process_queue = ProcessQueue(await self.compute_pull_from_where(queue))
                self.process_queue_table[queue] = process_queue
                self._tasks.start_soon(self.pull_message_service, queue, process_queue)

    async def compute_pull_from_where(self, queue: MessageQueue) -> int:
        """The offset that the group has stored. RocketMQ: RebalancePushImpl.computePullFromWhere."""
        offset: int = await self._brokers[queue.broker_name].request(
            "QUERY_CONSUMER_OFFSET", group=self.group, topic=queue.topic, queue_id=queue.queue_id
        )
        return offset

    # --- between two passes ------------------------------------------------------------------------------------------

    async def pull_message_service(self, queue: MessageQueue, process_queue: ProcessQueue) -> None:
        """Pull one queue until it is dropped. RocketMQ: PullMessageService, ConsumeMessageConcurrentlyService."""
        broker = self._brokers[queue.broker_name]
        while not process_queue.dropped:
            bodies = await broker.request(
                "PULL_MESSAGE", topic=queue.topic, queue_id=queue.queue_id, offset=process_queue.offset
            )
            for body in bodies:
                if process_queue.dropped:
                    return
                self._listener(self.client_id, queue, body)
                process_queue.offset += 1

    async def update_topic_route_info_from_name_server(self) -> None:
        """Poll the route; another number of queues is a reason for a pass. RocketMQ: the method of this name."""
        route = await self._name_server.request("GET_ROUTEINFO_BY_TOPIC", topic=self.topic)
        queues = [
            MessageQueue(self.topic, name, n) for name, count in route["queue_datas"].items() for n in range(count)
        ]
        for name, port in route["broker_datas"].items():
            if name not in self._brokers:
                self._brokers[name] = await self._connect(port, self.process_request)
        if queues != self.topic_subscribe_info_table:
            self.topic_subscribe_info_table = queues
            self.rebalance_immediately()  # RocketMQ waits for its timer

    async def send_heartbeat_to_all_broker(self) -> None:
        """RocketMQ: MQClientInstance.sendHeartbeatToAllBroker, with HeartbeatData."""
        for broker in self._brokers.values():
            await broker.request("HEART_BEAT", group=self.group, client_id=self.client_id, topics=[self.topic])

    async def persist_all_consumer_offset(self) -> None:
        """RocketMQ: MQClientInstance.persistAllConsumerOffset."""
        for queue, process_queue in list(self.process_queue_table.items()):
            await self._persist(queue, process_queue)

    async def _persist(self, queue: MessageQueue, process_queue: ProcessQueue) -> None:
        await self._brokers[queue.broker_name].request(
            "UPDATE_CONSUMER_OFFSET",
            group=self.group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            offset=process_queue.offset,
        )
