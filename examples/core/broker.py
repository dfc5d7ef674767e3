"""The broker: queues in memory, the members of groups, and a one-way notification when a group changes.

    heartbeat -> register_consumer -> update_channel, update_subscription -> changed? -> notify_consumer_ids_changed

It does not assign queues, and any client may pull any queue.
"""

from __future__ import annotations

from typing import Any

import anyio

from examples.core.remoting import Connection

PULL_HOLD_S = 1.0
"""How long a pull waits for a message. RocketMQ: 15 s (brokerSuspendMaxTimeMillis)."""
PULL_BATCH = 4


class ConsumerGroupInfo:
    """The members of one group. RocketMQ: ConsumerGroupInfo, with its channelInfoTable and subscriptionTable."""

    def __init__(self) -> None:
        self.channel_info_table: dict[Connection, str] = {}  # connection -> client id
        self.subscription_table: set[str] = set()

    def update_channel(self, channel: Connection, client_id: str) -> bool:
        """Whether the member is new. RocketMQ: ConsumerGroupInfo.updateChannel."""
        is_new = channel not in self.channel_info_table
        self.channel_info_table[channel] = client_id
        return is_new

    def update_subscription(self, topics: list[str]) -> bool:
        """Whether a topic is new. RocketMQ: ConsumerGroupInfo.updateSubscription."""
        added = set(topics) - self.subscription_table
        self.subscription_table |= added
        return bool(added)


class Broker:
    """RocketMQ: BrokerController, ConsumerManager, ConsumerOffsetManager and a store, in one class."""

    def __init__(self, name: str, topics: dict[str, int]) -> None:
        self.name = name
        self.topics = topics
        self.messages: dict[tuple[str, int], list[str]] = {}
        self.consumer_table: dict[str, ConsumerGroupInfo] = {}  # RocketMQ: ConsumerManager.consumerTable
        self.offset_table: dict[tuple[str, str, int], int] = {}  # RocketMQ: ConsumerOffsetManager.offsetTable
        self._arrived = anyio.Event()

    async def process_request(self, connection: Connection, code: str, header: dict[str, Any]) -> Any:
        """RocketMQ: one processor for each group of request codes."""
        match code:
            case "HEART_BEAT":
                await self.heart_beat(connection, **header)
            case "UNREGISTER_CLIENT":
                await self.unregister_consumer(header["group"], connection)
            case "GET_CONSUMER_LIST_BY_GROUP":
                info = self.consumer_table.get(header["group"], ConsumerGroupInfo())
                return list(info.channel_info_table.values())
            case "SEND_MESSAGE":
                self.put_message(**header)
            case "PULL_MESSAGE":
                return await self.pull_message(**header)
            case "QUERY_CONSUMER_OFFSET":
                return self.offset_table.get((header["group"], header["topic"], header["queue_id"]), 0)
            case "UPDATE_CONSUMER_OFFSET":
                self.offset_table[header["group"], header["topic"], header["queue_id"]] = header["offset"]

    # --- the group ---------------------------------------------------------------------------------------------------

    async def heart_beat(self, channel: Connection, group: str, client_id: str, topics: list[str]) -> None:
        """A member registers, or stays. RocketMQ: ClientManageProcessor.heartBeat, ConsumerManager.registerConsumer."""
        info = self.consumer_table.setdefault(group, ConsumerGroupInfo())
        r1 = info.update_channel(channel, client_id)
        r2 = info.update_subscription(topics)
        if r1 or r2:
            await self.notify_consumer_ids_changed(group)

    async def unregister_consumer(self, group: str, channel: Connection) -> None:
        """A member leaves. RocketMQ: ConsumerManager.unregisterConsumer."""
        if self.consumer_table[group].channel_info_table.pop(channel, None) is not None:
            await self.notify_consumer_ids_changed(group)

    async def do_channel_close_event(self, channel: Connection) -> None:
        """A connection closes, as when a process dies. RocketMQ: ConsumerManager.doChannelCloseEvent."""
        for group in self.consumer_table:
            await self.unregister_consumer(group, channel)

    async def notify_consumer_ids_changed(self, group: str) -> None:
        """Notify each member; no answer is expected. RocketMQ: DefaultConsumerIdsChangeListener, Broker2Client."""
        for channel in list(self.consumer_table[group].channel_info_table):
            await channel.invoke_oneway("NOTIFY_CONSUMER_IDS_CHANGED", group=group)

    # --- messages ----------------------------------------------------------------------------------------------------

    def put_message(self, topic: str, queue_id: int, body: str) -> None:
        """RocketMQ: CommitLog.putMessage, without a disk."""
        self.messages.setdefault((topic, queue_id), []).append(body)
        self._arrived.set()
        self._arrived = anyio.Event()

    async def pull_message(self, topic: str, queue_id: int, offset: int) -> list[str]:
        """Messages from an offset on; waits for the first. RocketMQ: PullMessageProcessor, PullRequestHoldService."""
        with anyio.move_on_after(PULL_HOLD_S):
            while len(self.messages.get((topic, queue_id), ())) <= offset:
                await self._arrived.wait()
        return self.messages.get((topic, queue_id), [])[offset : offset + PULL_BATCH]
