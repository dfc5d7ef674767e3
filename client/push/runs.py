"""Runs: a worker calls a listener with one batch of a queue after the other, for as long as it returns without waiting.

While a listener does not wait, the event loop runs nothing else, so nobody can see what is noted of a message between
two batches. Hence dispatch, end and counts are noted once for a run and not once for a message. As soon as a listener
waits, or a batch fails, the run is over: its batches are finished up to there, this one is dispatched like any other,
and the rest of the run waits again, for any worker.

    run 5 6 7 8, batches of one      5 returns, 6 returns, 7 waits      5 and 6 finished, 7 dispatched, 8 waits

A run is in offset order, so it keeps the order of a queue and of each key, as long as no message before it is with
another worker: `can_run` of the process queue says so. With an order, each batch is of one lane: a queue's batches
always are, and batches by key if they are of one message.

A run is short, so that other queues and the event loop have their turns though no listener waits.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from client.listeners.listener import ConsumeResult, ListenerCall, Result
from client.pull.owned_queue import OwnedQueue
from model.limits import RUN_MESSAGES, RUN_S
from model.message import MessageExt

Awaited = Coroutine[Any, Any, Result]
Outcome = tuple[list[MessageExt], Result | Awaited]
"""A batch that ended a run: with its result, or with what to await for it."""

_SUCCESS = ConsumeResult.SUCCESS


def run_listener(
    call: ListenerCall,
    listen: Callable[[Sequence[MessageExt]], Awaited],
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
    process_queue, topic, start = owned.process_queue, owned.queue.topic, call.start
    run = process_queue.next_run(max(batch_size, RUN_MESSAGES // batch_size * batch_size))
    if not run:
        return None
    end = min(clock() + RUN_S, owned.lease_ends)
    finished = dispatched = 0
    try:
        while True:
            batch = run[finished : finished + batch_size]
            dispatched = len(batch)
            if batch[0].topic != topic:
                return batch, listen(batch)
            result = start(batch)
            if result is not _SUCCESS:
                return batch, result
            finished += dispatched
            dispatched = 0
            if finished == len(run) or clock() >= end or owned.paused:
                return None
    finally:
        process_queue.end_run(finished, dispatched)
        owned.dispatch_counts.add(run[: finished + dispatched], now_ms)
        if finished:
            owned.made_progress()
