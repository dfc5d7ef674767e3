"""The faults and barriers of a test cluster, by their names in docs/testing.md, for real and simulated clusters.

`remote.py` sends them to the control plane of a real cluster, `virtual.py` calls the control plane of a simulated one.
On both, a coroutine awaits each of them: the consumers of a test run in the same event loop, which a call that blocks
would stop. A synchronous test has the same names on `cluster.blocking`. The pytest plugin imports this module in every
run of pytest, so it imports no other module of the project.
"""

from __future__ import annotations

import threading
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Generator
from typing import Any, Generic, NoReturn, Protocol, TypeVar

FaultHandle = TypeVar("FaultHandle")
"""A fault: `FaultToBegin`, which is awaited, or `BlockingFault`."""
BarrierResult = TypeVar("BarrierResult")
"""The result of a barrier: the seconds that it took, or an awaitable of them."""


_LOOK_EVERY_S = 0.05
_NOT_HIT = "fault {} has hit {} times instead of {} within {:g} s"


class NotReached(AssertionError):
    """A barrier was not reached in time; the text lists the conditions that were not met."""


class FaultVerbs(ABC, Generic[FaultHandle]):
    """FaultRequests of connections, by the names and with the columns of docs/testing.md."""

    @abstractmethod
    def fault(self, do: str, **columns: Any) -> FaultHandle:
        """Begin a fault, with the columns of docs/testing.md; it ends with the block of `with`, or by `heal`."""

    def drop(self, code: str = "", **columns: Any) -> FaultHandle:
        """Lose the requests of a code, or everything."""
        return self.fault("drop", code=code, **columns)

    def delay(self, by_s: float, code: str = "", **columns: Any) -> FaultHandle:
        """Delay the requests of a code, or everything."""
        return self.fault("delay", by_s=by_s, code=code, **columns)

    def duplicate(self, code: str = "", **columns: Any) -> FaultHandle:
        """Send or handle the requests of a code twice, or everything."""
        return self.fault("duplicate", code=code, **columns)

    def cut(self, code: str = "", **columns: Any) -> FaultHandle:
        """Reset connections now, or whenever a request of a code passes."""
        return self.fault("cut", code=code, **columns)

    def refuse(self, **columns: Any) -> FaultHandle:
        """Reset connections, and each new one."""
        return self.fault("refuse", **columns)

    def freeze(self, client: str, **columns: Any) -> FaultHandle:
        """Read nothing from a client and send it nothing, as if it hung."""
        return self.fault("pause", client=client, **columns)

    def half_open(self, **columns: Any) -> FaultHandle:
        """End connections at one end; the other end does not notice."""
        return self.fault("half_open", **columns)

    def slow_reader(self, rate: float, **columns: Any) -> FaultHandle:
        """Send at most `rate` bytes a second."""
        return self.fault("slow_reader", rate=rate, **columns)


class Barriers(ABC, Generic[BarrierResult]):
    """Each waits for a condition of a group, and its result is the seconds that it took.

    Raises:
        NotReached: the condition was not met in time; the text lists the parts that were not met.
    """

    @abstractmethod
    def _wait(self, group: str, barrier: str, timeout_s: float, parameters: dict[str, Any]) -> BarrierResult:
        """Wait for a barrier."""

    def balanced(self, group: str, *, members: int | None = None, timeout_s: float = 10.0) -> BarrierResult:
        """Wait until every queue has the owner that it should have, and the group this number of members."""
        return self._wait(group, "stable", timeout_s, {} if members is None else {"members": members})

    def owns(self, group: str, client: str, queues: int | None = None, *, timeout_s: float = 10.0) -> BarrierResult:
        """Wait until a member owns this number of queues; at least one by default."""
        chosen = {} if queues is None else {"queues": queues}
        return self._wait(group, "owns", timeout_s, {"client": client, **chosen})

    def consumed(self, group: str, *, timeout_s: float = 10.0) -> BarrierResult:
        """Wait until a group has committed all messages that are stored now."""
        return self._wait(group, "consumed", timeout_s, {})

    def gone(self, group: str, client: str, *, timeout_s: float = 30.0) -> BarrierResult:
        """Wait until a client is no longer a member, and owns nothing."""
        return self._wait(group, "gone", timeout_s, {"client": client})

    def passes(self, group: str, n: int = 1, *, timeout_s: float = 30.0) -> BarrierResult:
        """Wait until each member that makes passes has made `n`."""
        return self._wait(group, "passes", timeout_s, {"n": n})


def took_s(answer: dict[str, Any], group: str, barrier: str, timeout_s: float) -> float:
    """The seconds that a barrier took, from the answer to its request.

    Raises:
        NotReached: the barrier was not reached.
    """
    if not answer["ok"]:
        lines = "".join(f"\n  {each}" for each in answer["missing"])
        raise NotReached(f"{barrier} of {group} was not reached within {timeout_s:g} s:{lines}")
    return float(answer["took_s"])


class FaultRequests(Protocol):
    """The requests of a fault to a cluster, for coroutines."""

    async def begin(self, document: dict[str, Any]) -> dict[str, Any]:
        """Begin a fault; returns its id, its cause, and the number of connections that it hit at once."""

    async def end(self, fault: int) -> None:
        """End one fault. Idempotent."""

    async def faults(self) -> list[dict[str, Any]]:
        """The active faults."""


class BegunFault:
    """A fault of a test that is a coroutine, which has begun.

    Attributes:
        cause: its id in the trace.
        at_once: the number of connections that it hit when it began.
    """

    def __init__(self, cluster: FaultRequests, answer: dict[str, Any]) -> None:
        self._cluster = cluster
        self._id = answer["id"]
        self.cause: str = answer["cause"]
        self.at_once: int = answer["done"]

    async def heal(self) -> None:
        """End it. Idempotent. Cancellation: it may be active; it ends after the test."""
        await self._cluster.end(self._id)

    async def is_active(self) -> bool:
        """Whether it has not ended; a fault with `n` or `for_s` ends by itself. Cancellation: harmless."""
        return any(each["id"] == self._id for each in await self._cluster.faults())

    async def done(self) -> int:
        """How often it has hit a connection or a request; 0 once it has ended. Cancellation: harmless."""
        return next((each["done"] for each in await self._cluster.faults() if each["id"] == self._id), 0)

    async def hit(self, times: int = 1, *, timeout_s: float = 10.0) -> None:
        """Wait until it has hit a connection or a request this often. It must not end before, as one with `n` may.

        Raises:
            NotReached: it did not in time.

        Cancellation: harmless.
        """
        import anyio  # late: most runs of pytest wait for no fault

        end = anyio.current_time() + timeout_s
        while (done := await self.done()) < times:
            if anyio.current_time() >= end:
                raise NotReached(_NOT_HIT.format(self._id, done, times, timeout_s))
            await anyio.sleep(_LOOK_EVERY_S)


class FaultToBegin:
    """A fault that begins when it is awaited; with `async with` it begins before the block, and ends with it."""

    def __init__(self, cluster: FaultRequests, document: dict[str, Any]) -> None:
        self._cluster = cluster
        self._document = document
        self._fault: BegunFault | None = None

    async def _begin(self) -> BegunFault:
        self._fault = BegunFault(self._cluster, await self._cluster.begin(self._document))
        return self._fault

    def __await__(self) -> Generator[Any, Any, BegunFault]:
        return self._begin().__await__()

    async def __aenter__(self) -> BegunFault:
        return await self._begin()

    async def __aexit__(self, *_error: object) -> None:
        if self._fault is not None:
            await self._fault.heal()

    def __enter__(self) -> NoReturn:
        raise TypeError(
            f"use `async with` for the fault {self._document['do']}; a test that is not a coroutine has "
            "the same on rlab_cluster.blocking"
        )

    def __exit__(self, *_error: object) -> None:
        """Never called."""

    def __del__(self) -> None:
        if self._fault is None:  # else a test that forgot it would pass without a fault
            text = f"the fault {self._document} did not begin: await it, or use async with"
            warnings.warn(text, RuntimeWarning, stacklevel=2)


class BlockingFaultRequests(Protocol):
    """The requests of a fault to a cluster, which block."""

    def begin(self, document: dict[str, Any]) -> dict[str, Any]:
        """Begin a fault; returns its id, its cause, and the number of connections that it hit at once."""

    def end(self, fault: int) -> None:
        """End one fault. Idempotent."""

    def faults(self) -> list[dict[str, Any]]:
        """The active faults."""


class BlockingFault:
    """A fault of a synchronous test, which has begun; used as a context manager, it is healed at the end of the block.

    Attributes:
        cause: its id in the trace.
        at_once: the number of connections that it hit when it began.
    """

    def __init__(self, cluster: BlockingFaultRequests, document: dict[str, Any]) -> None:
        self._cluster = cluster
        answer = cluster.begin(document)
        self._id = answer["id"]
        self.cause: str = answer["cause"]
        self.at_once: int = answer["done"]

    def __enter__(self) -> BlockingFault:
        return self

    def __exit__(self, *_error: object) -> None:
        self.heal()

    def heal(self) -> None:
        """End it. Idempotent."""
        self._cluster.end(self._id)

    def is_active(self) -> bool:
        """Whether it has not ended; a fault with `n` or `for_s` ends by itself."""
        return any(each["id"] == self._id for each in self._cluster.faults())

    def done(self) -> int:
        """How often it has hit a connection or a request; 0 once it has ended."""
        return next((each["done"] for each in self._cluster.faults() if each["id"] == self._id), 0)

    def hit(self, times: int = 1, *, timeout_s: float = 10.0) -> None:
        """Wait until it has hit a connection or a request this often; see `BegunFault.hit`. Raises: NotReached."""
        end = time.perf_counter() + timeout_s
        while (done := self.done()) < times:
            if time.perf_counter() >= end:
                raise NotReached(_NOT_HIT.format(self._id, done, times, timeout_s))
            threading.Event().wait(_LOOK_EVERY_S)
