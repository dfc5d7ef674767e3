"""The choice of the queue of the next message. Pure.

Round robin per topic, from a random start so that many producers do not begin at the same queue; around the broker that
the last try failed on; and, with `avoid_slow_brokers`, around brokers that answered slowly of late:

    latency of a send     brokers avoided for        15 s or more -> 30 s      1.8 s -> 5 s
                                                      5 s         -> 10 s      0.55 s -> 2 s
    a failed send         counts as 10 s              3 s         ->  6 s      less   -> not at all

After a refusal that concerns one topic (no permission, no such topic or queue) the broker is avoided for that topic
alone: the broker works, and other topics still need it. A refusal that concerns the message has no effect here.

Invariant: a queue is always picked. Avoiding is a preference, in this order: a broker that is neither avoided nor the
one that just failed; one that is avoided because it was slow, but answered; any except the one that just failed; any.

RocketMQ: MQFaultStrategy and LatencyFaultToleranceImpl with the latencies of 5.x, TopicPublishInfo,
SelectMessageQueueByHash.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING
from zlib import crc32

from model.arguments import short_repr
from model.errors import InvalidParameter, NetworkError, NotAuthenticated, RlabError, ServerError
from model.message_queue import MessageQueue, check_queue
from model.response_code import ResponseCode

if TYPE_CHECKING:
    from random import Random

PENALTIES_S = ((15.0, 30.0), (5.0, 10.0), (3.0, 6.0), (1.8, 5.0), (0.55, 2.0))
"""(latency from which, seconds avoided), slowest first."""
FAILURE_LATENCY_S = 10.0
"""The latency that a failed send counts as."""

ELSEWHERE = frozenset(
    {
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.NO_PERMISSION,
        ResponseCode.INVALID_PARAMETER,
        ResponseCode.STORAGE_FULL,
        ResponseCode.NOT_MASTER,
        ResponseCode.NOT_ENOUGH_REPLICAS,
    }
)
"""Refusals after which another broker may have the topic, or be able to write. RocketMQ: retryResponseCodes."""

_MAX_START = 1 << 31


@dataclass(slots=True)
class _Penalty:
    """A broker is avoided before `until`; `failed`: its last send got no answer."""

    until: float
    failed: bool


_Penalties = dict[str, _Penalty]
"""By the name of the broker."""


class QueuePicker:
    """Picks queues for one producer. Times are monotonic seconds."""

    def __init__(self, random: Random, *, avoid_slow_brokers: bool = True) -> None:
        """Make a picker without history. RocketMQ: sendLatencyFaultEnable, there off by default."""
        self._random = random
        self._avoid_slow_brokers = avoid_slow_brokers
        self._positions: dict[str, int] = {}
        self._penalties: _Penalties = {}
        self._of_topics: dict[str, _Penalties] = {}  # of one topic each; empty ones are dropped

    def pick(
        self, topic: str, queues: Sequence[MessageQueue], avoid_broker: str | None = None, *, now: float
    ) -> MessageQueue:
        """Pick the queue of the next message, of the writable queues of its topic, sorted.

        Each topic has its own round; `avoid_broker` is the broker that the last try of this message failed on.
        """
        position = self._positions.get(topic)
        if position is None:
            position = self._random.randrange(_MAX_START)
        if avoid_broker is None and not self._penalties and topic not in self._of_topics:
            self._positions[topic] = position + 1
            return queues[position % len(queues)]
        if avoid_broker is not None and self._avoid_slow_brokers:
            # Retries of all producers come at the same moment, when a broker fails. Without a fresh position those
            # that started together would all go on to the same next broker.
            position = self._random.randrange(_MAX_START)
        position = self._preferred(topic, queues, position, avoid_broker, now)
        self._positions[topic] = position + 1
        return queues[position % len(queues)]

    def record(self, broker_name: str, latency_s: float, now: float, failed: bool = False) -> None:
        """Record the latency of a send, in seconds; the latency of a failed one is ignored."""
        if self._avoid_slow_brokers and (failed or latency_s >= PENALTIES_S[-1][0] or broker_name in self._penalties):
            _punish(self._penalties, broker_name, FAILURE_LATENCY_S if failed else latency_s, now, failed)

    def record_failure(self, queue: MessageQueue, error: RlabError, now: float) -> None:
        """Record a failed send, if the broker or its part of the topic is to blame."""
        if isinstance(error, NetworkError | ServerError | NotAuthenticated):
            self.record(queue.broker_name, 0.0, now, failed=True)
        elif error.code in ELSEWHERE and self._avoid_slow_brokers:
            _punish(self._of_topics.setdefault(queue.topic, {}), queue.broker_name, FAILURE_LATENCY_S, now, failed=True)

    def _preferred(
        self, topic: str, queues: Sequence[MessageQueue], position: int, avoid_broker: str | None, now: float
    ) -> int:
        """The first position from `position` on that satisfies the strictest preference that any satisfies."""
        of_all, of_topic = self._penalties, self._of_topics.get(topic, {})
        _end_penalties(of_all, now)
        _end_penalties(of_topic, now)
        if not of_topic:
            self._of_topics.pop(topic, None)
        failed = {name for table in (of_all, of_topic) for name, penalty in table.items() if penalty.failed}
        preferences: tuple[Callable[[str], bool], ...] = (
            lambda name: name != avoid_broker and name not in of_all and name not in of_topic,
            lambda name: name != avoid_broker and name not in failed,
            lambda name: name != avoid_broker,
        )
        start = position % len(queues)
        runs = _runs(queues, start)
        for accepts in preferences:
            for offset, name in runs:
                if accepts(name):
                    return position + offset
        return position


def _punish(penalties: _Penalties, broker_name: str, latency_s: float, now: float, failed: bool) -> None:
    running = penalties.get(broker_name)
    until = now + next((penalty_s for from_s, penalty_s in PENALTIES_S if latency_s >= from_s), 0.0)
    # A shorter penalty never shortens a running one: one quick answer does not make a slow broker fast.
    penalties[broker_name] = _Penalty(max(until, running.until) if running else until, failed)


def _end_penalties(penalties: _Penalties, now: float) -> None:
    for broker_name in [name for name, penalty in penalties.items() if penalty.until <= now]:
        del penalties[broker_name]


def other_brokers(queues: Sequence[MessageQueue], *names: str) -> bool:
    """Whether any of these queues, sorted, is on a broker of none of these names."""
    return any(name not in names for _, name in _runs(queues, 0))


def _runs(queues: Sequence[MessageQueue], start: int) -> list[tuple[int, str]]:
    """The brokers of sorted queues from a place on and once around: how many queues away each is first met, its name.

    By bisection: a topic may have thousands of queues, and each send to it comes here while a broker is slow.
    """
    count, runs, position = len(queues), [], start
    while position < start + count:
        name = queues[position % count].broker_name
        runs.append((position - start, name))
        end = bisect_right(queues, name, lo=position % count, key=attrgetter("broker_name"))
        position += end - position % count
    return runs


def check_queue_of(topic: str, queue: MessageQueue) -> MessageQueue:
    """Check the queue that a user has chosen for a message of a topic, and return it.

    Raises:
        InvalidParameter: it is not a queue, or belongs to another topic. RocketMQ: "message's topic not equal mq's
            topic".
    """
    if check_queue(queue).topic != topic:
        raise InvalidParameter(f"a message of topic {topic!r} cannot be sent to queue {queue} of another topic")
    return queue


def select_by_key(queues: Sequence[MessageQueue], key: str) -> MessageQueue:
    """The queue of a key: messages with equal keys go to one queue as long as the topic has the same writable queues.

    CRC-32 of the UTF-8 bytes, because it is the same in every process (Python's own hash is not), runs in C, and
    spreads keys that differ in one digit. RocketMQ's SelectMessageQueueByHash takes Java's `hashCode`; no other client
    has to agree, and in Python that is a loop over the characters.

    Raises:
        InvalidParameter: the key is not a string.
    """
    try:
        encoded = key.encode("utf-8", "surrogatepass")
    except AttributeError:
        raise InvalidParameter(f"key must be a string, got {short_repr(key)}") from None
    return queues[crc32(encoded) % len(queues)]
