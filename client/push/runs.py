"""Runs: a worker calls a listener with one batch of a queue after the other, for as long as it returns without waiting.

While a listener does not wait, the event loop runs nothing else, so no other code sees the state of a message between
two batches. Hence the dispatch, the end and the counts of messages are recorded once per run, not once per message. As
soon as a listener waits, or a batch fails, the run is over: the batches before that one are finished, that one is
dispatched like any other, and the later ones wait again, for any worker.

    run 5 6 7 8, batches of one      5 returns, 6 returns, 7 waits      5 and 6 finished, 7 dispatched, 8 waits

A run is in offset order, so it keeps the order of a queue and of each key, as long as no message before it is with
another worker: `can_run` of the process queue says so. For a listener with an order, all messages of a batch must be of
one lane (`client/pull/ordered_process_queue.py`): with order by queue they always are, with order by key if the batch
size is 1.

The calls of a run share one copy of the context of the subscription, as long as none of them changes it.

A run is short, so that other queues and the event loop have their turns though no listener waits.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, Literal

from client.listeners.listener import ConsumeResult, ListenerCall, Messages, Result
from client.pull.owned_queue import OwnedQueue
from model.limits import RUN_MESSAGES, RUN_S
from model.message import MessageExt

PendingCall = Coroutine[Any, Any, Result]
Outcome = tuple[Messages, Result | PendingCall]
"""A batch that ended a run: with its result, or with what to await for it."""

_SUCCESS = ConsumeResult.SUCCESS


def run_listener(
    call: ListenerCall,
    listen: Callable[[Messages], PendingCall],
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
    run = process_queue.next_run(max(batch_size, RUN_MESSAGES // batch_size * batch_size))
    if not run:
        return None
    end = min(clock() + RUN_S, owned.lease_ends)
    counts = [0, 0]
    try:
        while True:
            context = call.context.copy()
            outcome = context.run(_call_in_context, call, listen, owned, run, batch_size, clock, end, counts, context)
            if outcome is not False:
                return outcome
    finally:
        finished, dispatched = counts
        process_queue.end_run(finished, dispatched)
        owned.dispatch_counts.add(run[: finished + dispatched], now_ms)
        if finished:
            owned.notify_progress()


def _call_in_context(
    call: ListenerCall,
    listen: Callable[[Messages], PendingCall],
    owned: OwnedQueue,
    run: list[MessageExt],
    batch_size: int,
    clock: Callable[[], float],
    end: float,
    counts: list[int],
    context: Context,
) -> Outcome | Literal[False] | None:
    """Call the listener in a context, batch after batch, as long as it neither waits nor changes the context.

    Returns what `run_listener` is to return, or False if the run goes on in another context. `counts` has two numbers:
    the finished messages of the run, and the dispatched ones behind them.
    """
    topic, start, unchanged = owned.queue.topic, call.start, call.context
    finished, dispatched = counts
    try:
        while True:
            batch = (run[finished],) if batch_size == 1 else tuple(run[finished : finished + batch_size])
            dispatched = len(batch)
            if batch[0].topic != topic:
                return batch, listen(batch)
            result = start(batch, context)
            if result is not _SUCCESS:
                return batch, result
            finished += dispatched
            dispatched = 0
            if finished == len(run) or clock() >= end or owned.paused:
                return None
            if _differ(context, unchanged):
                return False
    finally:
        counts[:] = finished, dispatched


def _differ(context: Context, unchanged: Context) -> bool:
    """Whether a context may not be the same as the one that it was copied from.

    The comparison costs less than another copy of the context. If no variable was set, it ends at once.
    """
    try:
        return context != unchanged
    except Exception:  # the comparison calls `__eq__` of values, which may raise anything
        return True
