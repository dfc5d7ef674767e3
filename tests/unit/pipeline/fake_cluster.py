"""A cluster in memory that answers the blocking client: queues are lists, and what goes wrong is switched on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgpack

from model.absent_broker import AbsentBroker
from model.errors import ConnectFailed, ConnectionLost
from model.message import Message, encode_payload, tag_hash
from model.message_queue import MessageQueue
from model.record import encode_record
from model.response_code import ResponseCode
from model.topic_route import BrokerData, Perm, QueueData, TopicRoute
from pipeline.wire import WireClient, WireConnection
from remoting.command import RESPONSE, Command
from remoting.request_code import RequestCode

NAME_SERVER = "names:1"
_WRITES = (
    RequestCode.SEND_MESSAGE,
    RequestCode.SEND_BATCH_MESSAGE,
    RequestCode.SINK_STAGE,
    RequestCode.SINK_COMMIT,
    RequestCode.SINK_ABORT,
    RequestCode.SINK_SPREAD,
)


@dataclass
class FakeQueue:
    """Messages of one queue; `begin` is the offset of the first that is left."""

    begin: int = 0
    messages: list[Message] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.begin + len(self.messages)


class FakeCluster:
    """Brokers by name, each with queues; a message's stored time is its offset in seconds.

    Attributes:
        queues: what there is.
        deleted: topics that brokers have deleted and name servers do not know of yet.
        moved: broker -> port of its master, of which the name server does not know yet: the replica at the listed
            address names it.
        down: brokers that nobody can connect to, and that the name server does not know.
        absent: brokers that the name server remembers as absent; None for one of an earlier version.
        failures: answers that are lost on the way before the next one arrives.
        written: broker, code, header and unpacked body of each request of a sink, in order, also of those whose answer
            was lost.
        damaged: queues and offsets whose records a broker leaves out of its answers.
        refusals: what to answer the next requests of sinks with.
        broker_sets: broker -> among which brokers it was first told that a batch is spread.
        asked: code and header of each request, in order.
        waits: seconds that clients waited.
        committed: offsets by group and queue.
        topic_id: number of every topic in its broker; None in brokers of earlier versions.
    """

    def __init__(self, *names: str, queues: int = 2, topic: str = "t") -> None:
        self.queues = {
            MessageQueue(topic, name, number): FakeQueue() for name in names or ("a",) for number in range(queues)
        }
        self.brokers = list(names or ("a",))
        self.deleted: set[str] = set()
        self.moved: dict[str, int] = {}
        self.down: set[str] = set()
        self.absent: list[AbsentBroker] | None = []
        self.failures = 0
        self.asked: list[tuple[RequestCode, dict[str, Any]]] = []
        self.written: list[tuple[str, RequestCode, dict[str, Any], Any]] = []
        self.damaged: set[tuple[MessageQueue, int]] = set()
        self.refusals: list[ResponseCode] = []
        self.broker_sets: dict[str, list[str]] = {}
        self.waits: list[float] = []
        self.connected: list[str] = []
        self.topic_id: int | None = 1
        self.committed: dict[tuple[str, MessageQueue], int] = {}

    def put(self, queue: MessageQueue, *messages: Message) -> None:
        self.queues[queue].messages.extend(messages)

    def fill(self, count: int, tag: str = "") -> None:
        """Put so many messages into each queue, with their place as body."""
        for queue, held in self.queues.items():
            self.put(
                queue,
                *(Message(queue.topic, f"{queue.queue_id}:{held.end + n}".encode(), tags=tag) for n in range(count)),
            )

    def trim(self, queue: MessageQueue, begin: int) -> None:
        held = self.queues[queue]
        del held.messages[: begin - held.begin]
        held.begin = begin

    def client(self, retries: int = 3) -> FakeClient:
        return FakeClient(self, retries)

    def pulls(self) -> list[dict[str, Any]]:
        return [header for code, header in self.asked if code == RequestCode.PULL_MESSAGE]

    def write(
        self, broker: str, code: RequestCode, header: Mapping[str, Any], body: bytes
    ) -> tuple[int, dict[str, Any], bytes]:
        self.written.append((broker, code, dict(header), msgpack.unpackb(body, use_list=False) if body else None))
        if code == RequestCode.SINK_SPREAD:
            brokers = self.broker_sets.setdefault(broker, list(self.written.pop()[3]))
            return 0, {"brokers": brokers}, b""
        return (int(self.refusals.pop(0)), {"remark": "refused"}, b"") if self.refusals else (0, {}, b"")

    def not_master(self, broker: str) -> tuple[int, dict[str, Any], bytes]:
        """The refusal of a replica of a broker."""
        header = {"remark": "no", "master_address": f"{broker}:{self.moved[broker]}", "epoch": self.moved[broker]}
        return int(ResponseCode.NOT_MASTER), header, b""

    # --- what servers answer -----------------------------------------------------------------------------------------

    def answer(self, address: str, code: RequestCode, header: Mapping[str, Any]) -> tuple[int, dict[str, Any], bytes]:
        up = [name for name in self.brokers if name not in self.down]
        if address == NAME_SERVER:
            if code == RequestCode.GET_BROKER_CLUSTER_INFO:
                return 0, {}, msgpack.packb([["c", name, [[0, f"{name}:1"]]] for name in up])
            if code == RequestCode.GET_ABSENT_BROKERS:
                if self.absent is None:
                    return int(ResponseCode.REQUEST_CODE_NOT_SUPPORTED), {"remark": "too old"}, b""
                topic = header.get("topic")
                rows = [each.to_wire() for each in self.absent if topic is None or each.topic(topic) is not None]
                return 0, {"uptime_s": 60.0}, msgpack.packb(rows)
            names = sorted({queue.topic for queue in self.queues if queue.broker_name in up})
            if code == RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER:
                return 0, {}, msgpack.packb(names)
            return self._route(header["topic"], up)
        broker = address.partition(":")[0]
        queue = MessageQueue(header["topic"], broker, header["queue_id"])
        held = self.queues.get(queue)
        if held is None or queue.topic in self.deleted:
            return int(ResponseCode.TOPIC_NOT_EXIST), {"remark": f"no topic {queue.topic}"}, b""
        if code == RequestCode.PULL_MESSAGE:
            return self._pull(queue, held, header)
        if code == RequestCode.SEARCH_OFFSET_BY_TIMESTAMP:
            return 0, {"offset": min(held.end, max(held.begin, header["timestamp_ms"] // 1000))}, b""
        if code == RequestCode.QUERY_CONSUMER_OFFSET:
            offset = self.committed.get((header["group"], queue))
            if offset is None:
                return int(ResponseCode.QUERY_NOT_FOUND), {"remark": "none"}, b""
            return 0, {"offset": offset}, b""
        if code == RequestCode.GET_MIN_OFFSET:
            return 0, {"offset": held.begin}, b""
        reported = {} if self.topic_id is None else {"topic_id": self.topic_id}
        return 0, {"offset": held.end, **reported}, b""

    def _route(self, topic: str, up: list[str]) -> tuple[int, dict[str, Any], bytes]:
        counts = {name: sum(queue.topic == topic and queue.broker_name == name for queue in self.queues) for name in up}
        serving = [name for name, count in sorted(counts.items()) if count]
        if not serving:
            return int(ResponseCode.TOPIC_NOT_EXIST), {"remark": "nobody serves it"}, b""
        both = Perm.READ | Perm.WRITE
        route = TopicRoute(
            topic=topic,
            queues=tuple(
                QueueData(broker_name=name, read_queue_nums=counts[name], write_queue_nums=counts[name], perm=both)
                for name in serving
            ),
            brokers=tuple(BrokerData(cluster="c", broker_name=name, addresses={0: f"{name}:1"}) for name in serving),
        )
        return 0, {}, msgpack.packb(route.to_wire())

    def _pull(
        self, queue: MessageQueue, held: FakeQueue, header: Mapping[str, Any]
    ) -> tuple[int, dict[str, Any], bytes]:
        offset, places = header["offset"], {"min_offset": held.begin, "max_offset": held.end}
        if not held.begin <= offset <= held.end:
            moved = held.begin if offset < held.begin else held.end
            return int(ResponseCode.PULL_OFFSET_MOVED), {**places, "next_offset": moved}, b""
        if offset == held.end:
            return int(ResponseCode.PULL_NOT_FOUND), {**places, "next_offset": offset}, b""
        # As a broker does: the count is of messages that match, so with tags a pull may reach far.
        wanted, body, found = header.get("tag_hashes"), b"", 0
        while offset < held.end and found < header["max_n"]:
            message = held.messages[offset - held.begin]
            if (queue, offset) in self.damaged:
                found += 1
            elif wanted is None or tag_hash(message.tags) in wanted:
                body += record(queue, offset, message)
                found += 1
            offset += 1
        code = 0 if body else int(ResponseCode.PULL_RETRY_IMMEDIATELY)
        return code, {**places, "next_offset": offset}, body


def record(queue: MessageQueue, offset: int, message: Message) -> bytes:
    """A message as it is stored; born at its offset in milliseconds, stored at its offset in seconds."""
    payload = encode_payload(message, offset, f"id-{offset}")
    return encode_record(1, queue.queue_id, offset, offset * 1000, tag_hash(message.tags), 0, 3, payload)


class FakeConnection(WireConnection):
    """A connection to a server of the fake cluster."""

    def __init__(self, cluster: FakeCluster, address: str) -> None:  # no socket, so not the constructor of the real one
        self.address = address
        self._cluster = cluster
        self._sent: dict[int, tuple[RequestCode, dict[str, Any]]] = {}
        self._count = 0
        self._bodies: dict[int, bytes] = {}

    def send(self, code: int, header: Mapping[str, Any], body: bytes | None = None) -> int:
        self._count += 1
        self._sent[self._count] = RequestCode(code), dict(header)
        self._bodies[self._count] = body or b""
        self._cluster.asked.append(self._sent[self._count])
        return self._count

    def receive(self, opaque: int) -> Command:
        cluster = self._cluster
        code, header = self._sent.pop(opaque)
        if self.address.removesuffix(":1") in cluster.down:
            raise ConnectionLost(f"{self.address} is gone")
        answer = None
        name, _, port = self.address.partition(":")
        if self.address != NAME_SERVER and int(port) != cluster.moved.get(name, 1):
            answer = cluster.not_master(name)
        elif code in _WRITES:
            answer = cluster.write(name, code, header, self._bodies.pop(opaque))
        if self.address != NAME_SERVER and cluster.failures:
            cluster.failures -= 1
            raise ConnectionLost("it broke")
        answer_code, answer_header, body = answer or cluster.answer(self.address, code, header)
        return Command(RESPONSE, answer_code, opaque, answer_header, body)

    def close(self) -> None:
        pass


class FakeClient(WireClient):
    """The real client, on connections of the fake cluster."""

    def __init__(self, cluster: FakeCluster, retries: int) -> None:
        super().__init__(NAME_SERVER, retries=retries, wait=cluster.waits.append)
        self._cluster = cluster

    def connect(self, address: str) -> WireConnection:
        if address.removesuffix(":1") in self._cluster.down:
            raise ConnectFailed(f"cannot connect to {address}")
        if address not in self._connections:
            self._cluster.connected.append(address)
            self._connections[address] = FakeConnection(self._cluster, address)
        return self._connections[address]
