"""The threads that plain listeners run in: as many as a consumer has workers, and others in place of those that hang.

They are daemon threads: the end of the process does not wait for them. A consumer has waited before that, in its
shutdown, for up to `shutdown_grace_s`. The threads of `concurrent.futures` keep their process alive until the last of
them returns, so one listener that hangs would keep it alive for ever.

A thread may catch everything that a call raises, because it hands it on to the task that waits for the call.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any

import anyio

from client.instance.background import BackgroundTasks
from model.limits import MAX_HUNG_CALLS

logger = logging.getLogger(__name__)


class _Job(Future[Any]):
    """One call; cancelling it while it runs abandons its thread."""

    def __init__(self, threads: DaemonThreads, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        super().__init__()
        self.function = function
        self.arguments = arguments
        self.given_up = False
        self._threads = threads

    def cancel(self) -> bool:
        cancelled = super().cancel()
        if not cancelled:
            self._threads.replace_thread(self)
        return cancelled


class DaemonThreads(Executor):
    """Runs calls in daemon threads, at most `max_threads` at the same time, besides the abandoned ones.

    A running call is abandoned when its future is cancelled, which a task does that stops to wait for it. Its thread
    goes on until the call returns, and then ends; another thread takes its place at once.
    """

    def __init__(self, max_threads: int, name: str) -> None:
        self._max_threads = max_threads
        self._name = name
        self._lock = Lock()
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._threads = 0
        self._given_up = 0
        self._spare = 0  # threads that wait for a job, less the jobs that wait for a thread
        self._closed = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run a call without keyword arguments; returns its future. RuntimeError: after the shutdown."""
        assert not kwargs, "listeners are called with positions"
        job = _Job(self, fn, args)
        with self._lock:
            if self._closed:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._jobs.put(job)
            self._spare -= 1
            self._fill()
        return job

    def replace_thread(self, job: _Job) -> None:
        """Let another thread replace the thread of a call that runs and may never return."""
        with self._lock:
            if job.given_up or job.done():
                return
            if self._given_up >= MAX_HUNG_CALLS:
                logger.error(
                    "%s: %d calls hang, so there is no thread for more: start the process again",
                    self._name,
                    self._given_up,
                )
                return
            job.given_up = True
            self._given_up += 1
            self._fill()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more calls, cancel those that wait, and let each thread end after its own; never waits."""
        with self._lock:
            self._closed = True
            while not self._jobs.empty():
                job = self._jobs.get()
                if job is not None:
                    job.cancel()
            for _ in range(self._threads):
                self._jobs.put(None)

    def _fill(self) -> None:
        """Start a thread if a job waits and there may be one more. The lock is held."""
        if self._spare < 0 and self._threads - self._given_up < self._max_threads and not self._closed:
            self._threads += 1
            self._spare += 1
            Thread(target=self._run, name=f"{self._name} {self._threads}", daemon=True).start()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            if job.set_running_or_notify_cancel():
                try:
                    result = job.function(*job.arguments)
                except BaseException as error:  # as the standard library's pool: who waits gets it, the thread goes on
                    job.set_exception(error)
                else:
                    job.set_result(result)
                    del result
            with self._lock:
                if job.given_up:
                    self._given_up -= 1
                    self._threads -= 1
                    return
                self._spare += 1
            del job


class ListenerThreads:
    """The threads of one consumer's plain listeners: as many as it has workers, and used by nothing else.

    asyncio's own pool has a few more threads than the machine has cores, for the whole process. Listeners that block
    would get no more than that, whatever their consumer's workers; a few that hang would stop every other consumer, and
    the file access of a broker in the same process.

    Threads are made when a plain listener is first called, and released when the consumer ends. Its end waits for no
    thread, as that would stop the loop. A listener that still runs then goes on until it returns or the process ends;
    its result is ignored, so its messages are redelivered to another member.
    """

    def __init__(self, max_workers: int, background: BackgroundTasks) -> None:
        self._max_workers = max_workers
        self._background = background
        self._executor: DaemonThreads | None = None

    @property
    def executor(self) -> DaemonThreads:
        """Runs the listeners."""
        if self._executor is None:
            self._executor = DaemonThreads(self._max_workers, "rlab listener")
            if self._background.running:  # else the consumer ends right now, and its threads with this object
                self._background.start_soon(self._hold, self._executor)
        return self._executor

    async def _hold(self, executor: DaemonThreads) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            executor.shutdown()
