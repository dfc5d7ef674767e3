"""What the tests of producers look at: the brokers' logs, and the requests on the wire."""

from __future__ import annotations

from remoting.request_code import RequestCode
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.wire import WireTap


def stored(cluster: SimulatedCluster, topic: str = "t") -> int:
    """How many messages of a topic all brokers have."""
    brokers = [server.running.broker for server in cluster.brokers.values() if server.process]
    topics = [(broker, broker.topics.table.existing(topic)) for broker in brokers]
    return sum(
        broker.store.max_offset(entry.topic_id, queue_id)
        for broker, entry in topics
        for queue_id in range(entry.config.write_queue_nums)
    )


def sends(wire: WireTap) -> list[str]:
    """The brokers that a send was written to, in order; a connection that was refused is not among them."""
    return [sent.target for sent in wire.sent if sent.code is RequestCode.SEND_MESSAGE]
