"""Runs: a worker calls a listener with one batch of a queue after the other, for as long as it returns without waiting.

While a listener does not wait, the event loop runs nothing else, so nobody can see what is noted of a message between
two batches. Hence dispatch, end and counts are noted once for a run and not once for a message. As soon as a listener
waits, or a batch fails, the run is over: its batches are finished up to there, this one is dispatched like any other,
and the rest of the run waits again, for any worker.

    run 5 6 7 8, batches of one      5 returns, 6 returns, 7 waits      5 and 6 finished, 7 dispatched, 8 waits

A run is in offset order, so it keeps the order of a queue and of each key, as long as no message before it is with
another worker: `can_run` of the process queue says so. With an order, each batch is of one lane: a queue's batches
always are, and batches by key if they are of one message.

The calls of a run share one copy of the context of the subscription, as long as none of them changes it.

A run is short, so that other queues and the event loop have their turns though no listener waits.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any

from client.listeners.listener import ConsumeResult, ListenerCall, Messages, Result
from client.pull.owned_queue import OwnedQueue
from model.limits import RUN_MESSAGES, RUN_S

Awaited = Coroutine[Any, Any, Result]
Outcome = tuple[Messages, Result | Awaited]
"""A batch that ended a run: with its result, or with what to await for it."""

_SUCCESS = ConsumeResult.SUCCESS


class _Run:
    """One run; `run_listener` has its parameters."""

    __slots__ = ("_batch_size", "_clock", "_end", "_listen", "_messages", "_owned", "_start", "dispatched", "finished")

    def __init__(
        self,
        call: ListenerCall,
        listen: Callable[[Messages], Awaited],
        owned: OwnedQueue,
        batch_size: int,
        clock: Callable[[], float],
        messages: Messages,
    ) -> None:
        self._start = call.start
        self._listen = listen
        self._owned = owned
        self._batch_size = batch_size
        self._clock = clock
        self._messages = messages
        self._end = min(clock() + RUN_S, owned.lease_ends)
        self.finished = 0
        self.dispatched = 0

    def go_on(self, context: Context, unchanged: Context) -> Outcome | bool:
        """Call the listener in a context as long as it does not wait, and leaves the context unchanged.

        Returns the batch that ended the run, or whether the run is over.
        """
        messages, size, owned, start, clock = self._messages, self._batch_size, self._owned, self._start, self._clock
        topic, end, finished, n = owned.queue.topic, self._end, self.finished, len(self._messages)
        try:
            while True:
                batch = messages[finished : finished + size]
                self.dispatched = len(batch)
                if batch[0].topic != topic:
                    return batch, self._listen(batch)
                result = start(batch, context)
                if result is not _SUCCESS:
                    return batch, result
                finished += len(batch)
                self.dispatched = 0
                if finished == n or clock() >= end or owned.paused:
                    return True
                if _differ(context, unchanged):
                    return False
        finally:
            self.finished = finished


def _differ(context: Context, unchanged: Context) -> bool:
    """Whether a context may not be the same as the one that it was copied from.

    The comparison costs less than a copy, and than to call a listener in it. It looks no further if nothing was set.
    """
    try:
        return context != unchanged
    except Exception:  # of the values, which compare themselves
        return True


def run_listener(
    call: ListenerCall,
    listen: Callable[[Messages], Awaited],
    owned: OwnedQueue,
    batch_size: int,
    clock: Callable[[], float],
    now_ms: float,
) -> Outcome | None:
    """Call an async listener with the next batches of a queue whose lease is valid, as long as it does not wait.

    Returns the batch that ended the run, which stays dispatched; None if all that were dispatched are finished.
    `call` is the listener of the queue's topic; `listen` calls that of any message, also of one that was sent to
    another topic and is in a retry or DLQ topic now. `clock` is the loop time in seconds, `now_ms` the wall clock.
    """
    process_queue = owned.process_queue
    messages = tuple(process_queue.next_run(max(batch_size, RUN_MESSAGES // batch_size * batch_size)))
    if not messages:
        return None
    run = _Run(call, listen, owned, batch_size, clock, messages)
    try:
        while True:
            context = call.context.copy()
            outcome = context.run(run.go_on, context, call.context)
            if not isinstance(outcome, bool):
                return outcome
            if outcome:
                return None
    finally:
        process_queue.end_run(run.finished, run.dispatched)
        owned.dispatch_counts.add(messages[: run.finished + run.dispatched], now_ms)
        if run.finished:
            owned.made_progress()
