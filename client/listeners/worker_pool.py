"""The workers of one consumer: dispatch messages of all its queues to listeners, some batches at a time.

Workers are started when there is work for them and none is idle, up to the limit, and then stay. Queues take turns, one
batch each, so that a queue with a lag does not starve the others.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from anyio.lowlevel import checkpoint

from client.instance.background import BackgroundTasks
from model.limits import RUN_S
from model.message import MessageExt
from remoting.deadline_driver import DeadlineDriver

Consume = Callable[[Any, tuple[MessageExt, ...]], Awaitable[None]]
"""Called with the queue as it was offered, and a batch of its messages: a tuple, as listeners get it."""
Run = Callable[[Any, float], Awaitable[None] | None]
"""Dispatches messages of a queue, at a loop time, until a listener waits; returns what to await for it."""


class Messages(Protocol):
    """The messages of a queue; see `ProcessQueue`."""

    def next_batch(self, max_messages: int, now: float) -> list[MessageExt]:
        """Dispatch messages."""
        ...

    def next_retry_deadline(self) -> float | None:
        """The loop time in seconds at which requeued messages may be dispatched; None if there are none."""
        ...


class Dispatchable(Protocol):
    """A queue whose messages wait for workers: an owned one (`OwnedQueue`), or popped messages (`PopProcessQueue`)."""

    offered: bool
    """Whether it is in the line."""

    @property
    def process_queue(self) -> Messages:
        """The unfinished messages of the queue."""
        ...

    def ready(self, now: float) -> bool:
        """Whether it has messages to dispatch, and a valid lease, at a loop time in seconds."""
        ...

    def lease_valid(self, now: float) -> bool:
        """Whether the lease is certainly valid."""
        ...


class WorkerPool:
    """Concurrent consumption. RocketMQ: ConsumeMessageConcurrentlyService.

    `consume` gets a batch; with `run`, only batches of queues in which messages wait for a retry.
    """

    def __init__(self, consume: Consume, *, max_workers: int, batch_size: int, run: Run | None = None) -> None:
        self._consume = consume
        self._run = run
        self._max_workers = max_workers
        self._batch_size = batch_size
        self._loop = asyncio.get_running_loop()
        self._background: BackgroundTasks | None = None
        self._ready: deque[Dispatchable] = deque()
        self._idle: deque[asyncio.Future[None]] = deque()
        self._workers = 0
        self._suspended = False
        self._tasks: dict[asyncio.Task[Any] | None, None] = {}
        # Queues with requeued messages, which wait for their time.
        self._retrying: dict[Dispatchable, None] = {}
        self._driver = DeadlineDriver(self._next_retry, self._retry)

    def start(self, background: BackgroundTasks) -> None:
        """Run workers in this background."""
        self._background = background
        background.start_soon(self._driver.run)

    def offer(self, owned: Dispatchable) -> None:
        """Put a queue into the line for workers if it has messages to dispatch."""
        if owned.offered:
            return
        now = self._loop.time()
        if owned.ready(now):
            owned.offered = True
            self._ready.append(owned)
            self._wake_worker()
        elif owned in self._retrying and owned.lease_valid(now):
            self._driver.wake_by(now)  # its lease may be valid again, and `_next_retry` counts it then

    def retry_at(self, owned: Dispatchable, deadline: float) -> None:
        """Record a queue with requeued messages, which may be dispatched again at a loop time."""
        self._retrying[owned] = None
        self._driver.wake_by(deadline)

    def set_suspended(self, suspended: bool) -> None:
        """Dispatch nothing more, or go on. Queues keep their place in the line, and listeners their messages."""
        self._suspended = suspended
        if self._ready:
            self._wake_worker()

    def _next_retry(self) -> float | None:
        # A queue in the line waits for a worker and not for the clock: its deadline, long over, would make the driver
        # spin until one is free. So would one whose lease may have ended; it is offered again when that is confirmed.
        now = self._loop.time()
        waiting = [
            owned.process_queue.next_retry_deadline()
            for owned in self._retrying
            if not owned.offered and owned.lease_valid(now)
        ]
        return min((deadline for deadline in waiting if deadline is not None), default=None)

    def _retry(self, now: float) -> None:
        for owned in list(self._retrying):
            deadline = owned.process_queue.next_retry_deadline()
            if deadline is None:
                del self._retrying[owned]
            elif deadline <= now:
                self.offer(owned)

    def _wake_worker(self) -> None:
        while self._idle:
            idle = self._idle.popleft()
            if not idle.done():
                idle.set_result(None)
                return
        if self._workers < self._max_workers and self._background is not None and self._background.running:
            self._workers += 1
            self._background.start_soon(self._work)

    def runs_current_task(self) -> bool:
        """Whether the caller is a listener of this pool: it must not wait until the pool has ended."""
        return asyncio.current_task() in self._tasks

    async def _work(self) -> None:
        clock = self._loop.time
        self._tasks[asyncio.current_task()] = None
        turn_ends = clock() + RUN_S
        while True:
            owned = self._next_queue()
            if owned is None:
                idle = self._loop.create_future()
                self._idle.append(idle)
                await idle
                turn_ends = clock() + RUN_S
                continue
            waiting = self._start(owned)
            self.offer_again(owned)
            if waiting is not None:
                if self._ready:
                    self._wake_worker()
                await waiting
                self.offer_again(owned)  # in order, only the end of a batch makes the next one ready
            if clock() >= turn_ends:
                await checkpoint()  # listeners that never wait would keep the loop until there is no message left
                turn_ends = clock() + RUN_S

    def _next_queue(self) -> Dispatchable | None:
        if not self._ready or self._suspended:
            return None
        owned = self._ready.popleft()
        owned.offered = False
        if owned in self._retrying:
            self._driver.wake_by(self._loop.time())
        return owned

    def _start(self, owned: Dispatchable) -> Awaitable[None] | None:
        """Dispatch messages of a queue; returns what to await for them, if anything."""
        now = self._loop.time()
        if not owned.lease_valid(now):
            return None
        if self._run is not None and owned not in self._retrying:
            return self._run(owned, now)
        messages = tuple(owned.process_queue.next_batch(self._batch_size, now))
        return self._consume(owned, messages) if messages else None

    def offer_again(self, owned: Dispatchable) -> None:
        """Put a queue at the end of the line if it has more messages. Wakes no worker: the caller is a worker."""
        if not owned.offered and owned.ready(self._loop.time()):
            owned.offered = True
            self._ready.append(owned)
