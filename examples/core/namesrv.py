"""The name server: which broker has which topic, and how many queues of it. RocketMQ: RouteInfoManager.

Brokers register, clients poll. It sends no notifications: a client sees a new queue at its next poll, after 30 s in
RocketMQ.
"""

from __future__ import annotations

from typing import Any

from examples.core.remoting import Connection


class NameServer:
    """RocketMQ: RouteInfoManager, with its topicQueueTable and brokerAddrTable."""

    def __init__(self) -> None:
        self.topic_queue_table: dict[str, dict[str, int]] = {}  # topic -> broker name -> number of queues
        self.broker_addr_table: dict[str, int] = {}  # broker name -> port

    async def process_request(self, connection: Connection, code: str, header: dict[str, Any]) -> Any:
        """RocketMQ: DefaultRequestProcessor.processRequest."""
        match code:
            case "REGISTER_BROKER":
                self.register_broker(header["name"], header["port"], header["topics"])
            case "GET_ROUTEINFO_BY_TOPIC":
                return self.pickup_topic_route_data(header["topic"])

    def register_broker(self, name: str, port: int, topics: dict[str, int]) -> None:
        """RocketMQ: RouteInfoManager.registerBroker."""
        self.broker_addr_table[name] = port
        for topic, queues in topics.items():
            self.topic_queue_table.setdefault(topic, {})[name] = queues

    def pickup_topic_route_data(self, topic: str) -> dict[str, Any]:
        """The queues and the addresses of their brokers. RocketMQ: TopicRouteData, with QueueData and BrokerData."""
        return {"queue_datas": self.topic_queue_table.get(topic, {}), "broker_datas": self.broker_addr_table}
