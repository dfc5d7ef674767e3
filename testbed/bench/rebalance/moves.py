"""moves-100: cost of ordinary handovers of queues in a group of a hundred consumers under load.

A group of 100 consumers, each a client with a connection of its own, owns the 400 queues of a topic and consumes a
steady stream of messages, 5 ms each. Others join and leave again, one after the other; with the default strategy each
of them moves the queues of every member that sorts after it. Measured are

- the gap of each queue that moves: from the drop by its old owner to the first pull of the new one;
- duplicates: messages that listeners processed again;
- the time in which two members owned a queue, or had messages of it dispatched, summed over the queues.

moves-overlapping is the same with the broker quirk OVERLAPPING_HANDOVER: as in RocketMQ, the new owner does not wait
for the old one.
"""

from __future__ import annotations

import gc
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count

import anyio

from client import ConsumeFrom, Message, MessageExt, MessageQueue, Producer, PushConsumer
from model.events import Event, EventKind
from model.quirks import Quirk
from remoting.tasks import background_tasks
from testbed.bench.kit.consumers import Listener, group_queues, make_consumer, running, targets
from testbed.bench.kit.convergence import ConvergenceWatch
from testbed.bench.kit.echo import TOPIC
from testbed.bench.kit.processes import cluster_processes
from testbed.bench.kit.report import Result
from testbed.bench.kit.rounds import Progress, Sizes, percentile

GROUP = "bench"
LISTENER_S = 0.005
PER_S = 400.0
_CONVERGE_S, _SETTLE_S = 120.0, 0.5


@dataclass(slots=True)
class Moves:
    """Records handovers and processed messages from the events and listeners of members."""

    clock: Callable[[], float]
    gaps_s: list[float] = field(default_factory=list)
    finished: Counter[tuple[MessageQueue, int]] = field(default_factory=Counter)  # how often each message was processed
    two_owners_s: float = 0.0
    _dropped: dict[MessageQueue, tuple[str, float]] = field(default_factory=dict)
    _holders: dict[MessageQueue, dict[str, int]] = field(default_factory=dict)
    _shared_since: dict[MessageQueue, float] = field(default_factory=dict)

    @property
    def duplicates(self) -> int:
        """Messages that were processed again."""
        return self.finished.total() - len(self.finished)

    def record(self, event: Event) -> None:
        """Record an event of a member."""
        if event.topic != TOPIC:
            return
        queue = MessageQueue(event.topic, event.broker, event.queue_id)
        if event.kind == EventKind.QUEUE_ACQUIRED:
            self._enter(event.client, queue)
        elif event.kind == EventKind.QUEUE_DROPPED:
            self._leave(event.client, queue)
            self._dropped[queue] = (event.client, self.clock())
        elif event.kind == EventKind.FIRST_PULL and queue in self._dropped:
            owner, dropped_at = self._dropped.pop(queue)
            if owner != event.client:
                self.gaps_s.append(self.clock() - dropped_at)

    def begins(self, member: str, queue: MessageQueue) -> None:
        """Record that a member's listener was called with messages of a queue."""
        self._enter(member, queue)

    def ends(self, member: str, queue: MessageQueue, messages: Sequence[MessageExt]) -> None:
        """Record that the listener has processed them."""
        self.finished.update((queue, message.offset) for message in messages)
        self._leave(member, queue)

    def _enter(self, member: str, queue: MessageQueue) -> None:
        holders = self._holders.setdefault(queue, {})
        holders[member] = holders.get(member, 0) + 1
        if len(holders) > 1:
            self._shared_since.setdefault(queue, self.clock())

    def _leave(self, member: str, queue: MessageQueue) -> None:
        holders = self._holders[queue]
        holders[member] -= 1
        if not holders[member]:
            del holders[member]
        if len(holders) == 1 and queue in self._shared_since:
            self.two_owners_s += self.clock() - self._shared_since.pop(queue)


async def bench_moves(sizes: Sizes, progress: Progress) -> list[Result]:
    """Measure moves, and then the same under the quirk."""
    sound = await _in_cluster(sizes, progress)
    overlapping = await _in_cluster(sizes, progress, "--quirk", Quirk.OVERLAPPING_HANDOVER.value)
    note = f"{len(sound.gaps_s)} moves"
    return [
        Result(name="moves-100-gap-p50", value=percentile(sound.gaps_s, 0.5) * 1000, unit="ms", note=note),
        Result(name="moves-100-gap-p99", value=percentile(sound.gaps_s, 0.99) * 1000, unit="ms", note=note),
        Result(name="moves-100-duplicates", value=sound.duplicates, unit="messages"),
        Result(name="moves-100-two-owners", value=sound.two_owners_s * 1000, unit="ms"),
        Result(name="moves-overlapping-duplicates", value=overlapping.duplicates, unit="messages"),
        Result(name="moves-overlapping-two-owners", value=overlapping.two_owners_s * 1000, unit="ms"),
    ]


async def _in_cluster(sizes: Sizes, progress: Progress, *options: str) -> Moves:
    async with cluster_processes({TOPIC: sizes.queues}, *options) as cluster:
        return await measure_moves(cluster.name_server, sizes, progress, time.perf_counter)


async def measure_moves(name_server: str, sizes: Sizes, progress: Progress, clock: Callable[[], float]) -> Moves:
    """Measure joins and leaves in a cluster that has `TOPIC`; `clock` gives seconds."""
    moves, watch = Moves(clock), ConvergenceWatch()
    # Odd numbers, so that a joining one can come between any two of them.
    members = [_member(name_server, 2 * number + 1, moves, watch) for number in range(sizes.members)]
    progress(f"starting {sizes.members} consumers")
    async with running(members, partial(_listener, moves)), _load(name_server):
        ids = [member.client_id for member in members]
        queues = await group_queues(name_server, GROUP)
        old_targets = targets(GROUP, ids, queues)
        watch.expect(old_targets)
        await watch.wait_converged(_CONVERGE_S)
        await anyio.sleep(_SETTLE_S)
        moves.gaps_s.clear()
        with _frozen():
            for number in range(sizes.moves):
                progress(f"join and leave {number + 1} of {sizes.moves}")
                position = round(number * sizes.members / max(1, sizes.moves - 1))
                async with _member(name_server, 2 * position, moves, watch) as joiner:
                    watch.expect(targets(GROUP, [*ids, joiner.client_id], queues))
                    await joiner.subscribe(TOPIC, _listener(moves, joiner))
                    await watch.wait_converged(_CONVERGE_S)
                    await anyio.sleep(_SETTLE_S)
                    watch.expect(old_targets)
                await watch.wait_converged(_CONVERGE_S)
                await anyio.sleep(_SETTLE_S)
        # A copy: the moves of the shutdown below are not counted.
        return Moves(clock, list(moves.gaps_s), Counter(moves.finished), moves.two_owners_s)


@contextmanager
def _frozen() -> Iterator[None]:
    """Exclude all present objects from garbage collections.

    A collection over a hundred clients stops all of them for 50 to 100 ms; in reality each has a process of its own.
    """
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _member(name_server: str, number: int, moves: Moves, watch: ConvergenceWatch) -> PushConsumer:
    def note(event: Event) -> None:
        watch.record(event)
        moves.record(event)

    return make_consumer(name_server, GROUP, number, note, trace=False, consume_from=ConsumeFrom.FIRST_OFFSET)


def _listener(moves: Moves, member: PushConsumer) -> Listener:
    async def on_messages(messages: Sequence[MessageExt]) -> None:
        queue = messages[0].queue
        moves.begins(member.client_id, queue)
        await anyio.sleep(LISTENER_S)
        moves.ends(member.client_id, queue, messages)

    return on_messages


@asynccontextmanager
async def _load(name_server: str) -> AsyncIterator[None]:
    """Send messages at `PER_S` while the block runs."""

    async def send_all(producer: Producer) -> None:
        for number in count():
            await producer.send(Message(TOPIC, b"%d" % number))
            await anyio.sleep(1 / PER_S)

    async with Producer(name_server, trace=False) as producer, background_tasks() as tasks:
        tasks.start_soon(send_all, producer)
        yield
