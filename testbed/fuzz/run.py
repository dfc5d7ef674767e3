"""One run of `rlab fuzz`: sends batches over several connections at once, and judges the answers.

Every batch has a number. Its frames depend only on the seed and this number, and not on the connection or the time. A
connection waits for all answers to a batch, so that a missing answer is reported with its request. The other
connections continue to send, which keeps a server busy while some of its requests are held.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from enum import Enum
from random import Random
from typing import TYPE_CHECKING, Any, cast

import anyio

from broker.store.disk.options import MIB, StoreOptions
from model.counted import plural
from model.errors import ConfigError, ConnectFailed, ConnectionLost, NotAuthenticated, RequestTimeout
from model.limits import LOOKUP_TIMEOUT_S
from model.response_code import ResponseCode
from remoting.address import parse_address
from remoting.client import RemotingClient
from remoting.codec import CODEC
from remoting.command import REQUEST, Command
from remoting.request_code import RequestCode
from remoting.security.login import ClientHandshake
from remoting.security.tls.trust import client_context
from rocketmq.grpc.lazy_dialect import is_installed as grpc_is_installed
from testbed.fuzz.frames import Frames, FuzzAnswer, FuzzDecoder, FuzzFrame
from testbed.simulation.checks.leaks import LeakDetector, Margin
from testbed.simulation.checks.process_usage import process_usage

if TYPE_CHECKING:
    from remoting.security.key import Key

_SILENCE_S = LOOKUP_TIMEOUT_S
"""A request without an answer within this time counts as lost: no client waits longer for any answer."""
MAX_FOUND = 20
_INTERNAL = "see the server's log"
_POLL_S = 1.0
"""Time between two samples of the server's process."""
_WARM_UP = 4
"""The first 1 / 4 of the samples does not count: tables and caches of a server fill first."""
_STORE = StoreOptions()
_MARGINS = {
    # Segments of a log are files. Caches of these sizes hold its newest records and parts of its indexes.
    "descriptors": Margin(1.2, 64, trend=False),
    "RSS MiB": Margin(1.2, (_STORE.tail_bytes + _STORE.index_cache_bytes) / MIB, trend=False),
}


class Protocol(Enum):
    """The protocol of the requests: ours, or one of RocketMQ's."""

    RLAB = "rlab"
    ROCKETMQ = "rocketmq"
    GRPC = "grpc"


@dataclass(frozen=True, slots=True, kw_only=True)
class FuzzPlan:
    """The batches to send, and the bounds of the run: it ends at the first bound of `seconds` and `commands`."""

    seed: int
    seconds: float = float("inf")
    commands: float = float("inf")  # rounded up to a whole batch
    skip: int = 0  # batches that are not sent
    connections: int = 16
    protocol: Protocol = Protocol.RLAB
    pid: int | None = None  # process of the server, to check its memory and descriptors; None for no check
    key: Key | None = None  # proved on each connection, except with RocketMQ's protocols


@dataclass(slots=True)
class FuzzReport:
    """Counts and findings of a run; `levels` is the usage of the server's process at the begin, middle and end."""

    seed: int
    commands: int = 0
    connections: int = 0
    codes: Counter[str] = field(default_factory=Counter)
    found: list[str] = field(default_factory=list)
    levels: dict[str, list[float]] = field(default_factory=dict)


async def fuzz_server(address: str, plan: FuzzPlan, report: FuzzReport | None = None) -> FuzzReport:
    """Fuzz one server. After the last batch, all requests that were sent still have to be answered.

    A given report is filled in during the run, and returned.

    Raises:
        ConnectFailed: the server does not listen, or stopped listening.
        RlabError: the server refuses the key.
        ConfigError: there is no process with the id of the plan, or its usage may not be read.

    Cancellation: harmless.
    """
    kind = await _kind_of(address, plan.key)
    frames = _frames_of(plan.protocol)(Random(), plan.seed, kind)
    run = _Run(address, plan, frames, report or FuzzReport(plan.seed))
    await run_lanes(plan, run.report, run.send_batches)
    await _kind_of(address, plan.key)
    return run.report


def _frames_of(protocol: Protocol) -> type[Frames]:
    """The frames of a protocol, imported here: a whole dialect, for which every command of `rlab` would start later."""
    if protocol is Protocol.ROCKETMQ:
        from testbed.fuzz.rocketmq import RocketmqFrames

        return RocketmqFrames
    if protocol is Protocol.GRPC:
        if not grpc_is_installed():
            raise ConfigError("--grpc needs the extra grpc: pip install 'rebalance-lab[grpc]'")
        from testbed.fuzz.grpc import GrpcFrames

        return GrpcFrames
    return Frames


async def run_lanes(plan: FuzzPlan, report: FuzzReport, send: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a sender for each connection of the plan until all senders end, and sample the server's process.

    Raises:
        ConnectFailed: a sender cannot connect.
        ConfigError: there is no process with the id of the plan, or its usage may not be read.

    Cancellation: harmless.
    """
    usage = None if plan.pid is None else _Usage(plan.pid)
    try:
        async with anyio.create_task_group() as watch:
            if usage is not None:
                watch.start_soon(usage.keep_sampling)
            async with anyio.create_task_group() as lanes:
                for _ in range(plan.connections):
                    lanes.start_soon(send)
            watch.cancel_scope.cancel()
    except ExceptionGroup as group:
        error: Exception = group
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]  # all connections fail when a server ends; the first error has the time
        raise error from None
    if usage is not None:
        report.levels = usage.levels()
        report.found += usage.grown()


async def _kind_of(address: str, key: Key | None) -> str:
    """The kind of the server, a broker or a name server; "" if it does not answer without a key. Raises RlabError."""
    async with RemotingClient(key=key) as client:
        try:
            state = await client.request(address, RequestCode.GET_SERVER_STATE)
        except NotAuthenticated:
            if key is not None:
                raise
            return ""
        return str(state.header.get("kind", ""))


class _Run:
    """One run: its connections share the numbers of batches, the report, and the bounds."""

    def __init__(self, address: str, plan: FuzzPlan, frames: Frames, report: FuzzReport) -> None:
        self._address = address
        self._plan = plan
        self._frames = frames
        self._numbers = itertools.count(plan.skip)
        self._ends_at = asyncio.get_running_loop().time() + plan.seconds
        self.report = report

    def _should_continue(self) -> bool:
        report, now = self.report, asyncio.get_running_loop().time()
        return len(report.found) < MAX_FOUND and report.commands < self._plan.commands and now < self._ends_at

    async def send_batches(self) -> None:
        """Send over one connection after the other until a bound is reached."""
        while self._should_continue():
            attacker = await self._connect()
            try:
                while self._should_continue():
                    number = next(self._numbers)
                    whole, broken = self._frames.batch(number)
                    self.report.commands += len(whole)
                    if not await attacker.exchange(number, whole):
                        break
                    if broken is not None:
                        self.report.commands += 1
                        attacker.send(broken.data)
                        break
                await attacker.part()
            finally:
                attacker.transport.abort()

    async def _connect(self) -> _Attacker:
        loop, address, plan = asyncio.get_running_loop(), self._address, self._plan
        attacker = _Attacker(self.report, self._frames)
        host, port = parse_address(address)
        tls = client_context()
        secured: dict[str, Any] = {} if tls is None else {"ssl": tls}
        try:
            await loop.create_connection(lambda: attacker, host, port, **secured)
        except OSError as error:
            text: Any = error.strerror or error
            raise ConnectFailed(
                f"cannot connect to {address} ({text}) after {plural(self.report.commands, 'command')}"
            ) from error
        self.report.connections += 1
        attacker.send(self._frames.opening)
        if plan.key is not None and plan.protocol is Protocol.RLAB:
            await attacker.log_in(plan.key)
        return attacker


class _Attacker(asyncio.Protocol):
    """One connection of the fuzzer."""

    def __init__(self, report: FuzzReport, frames: Frames) -> None:
        self._report = report
        self._answer_of = frames.answer_of
        self._decoder: FuzzDecoder = frames.decoder()
        self._sign: Callable[[bytes], bytes] | None = None
        self._greeting: asyncio.Future[Command] | None = None
        self._batch = 0
        self._waiting: dict[int, FuzzFrame] = {}
        self._refusal = ""
        self._progress = anyio.Event()
        self.transport: asyncio.Transport
        self.closed = False
        self._parting = False

    # --- asyncio.Protocol --------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        for frame in self._decoder.feed(data):
            if self._greeting is not None:
                self._greeting.set_result(frame)
                self._greeting = None
            else:
                self._check_answer(self._answer_of(frame))
        if self._decoder.error is not None and not self.transport.is_closing():
            self._found(f"the server's data cannot be decoded: {self._decoder.error}")
            self.transport.abort()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop."""
        self.closed = True
        if self._greeting is not None:
            self._greeting.set_exception(ConnectionLost("the server closed the connection and did not accept the key"))
            self._greeting = None
        self._wake()

    def _wake(self) -> None:
        self._progress.set()
        self._progress = anyio.Event()

    # --- sending -----------------------------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """Send data, unless it is empty or the connection is closed."""
        if data and not self.transport.is_closing() and not self._parting:
            self.transport.write(data if self._sign is None else self._sign(data))

    async def log_in(self, key: Key) -> None:
        """Prove a key; all later data is signed."""
        handshake = ClientHandshake(key)
        answer = await self._ask(RequestCode.GET_CHALLENGE, handshake.challenge)
        answer = await self._ask(RequestCode.AUTHENTICATE, handshake.proof(answer))
        signer, self._decoder = handshake.finish(answer)
        self._sign = signer.sign

    async def _ask(self, code: RequestCode, header: dict[str, str]) -> Command:
        greeting: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        self._greeting = greeting
        self.send(CODEC.encode(REQUEST, code, 1, header, None))
        with anyio.move_on_after(_SILENCE_S):
            return await greeting
        raise RequestTimeout("the server did not answer the proof of the key")

    async def exchange(self, number: int, whole: list[FuzzFrame]) -> bool:
        """Send the requests of a batch and wait for all answers; returns whether the connection can be used further.

        It also finds a connection that the server has closed since the last batch.
        """
        self._batch, self._refusal = number, ""
        self._waiting = {frame.opaque: frame for frame in whole if frame.opaque is not None}
        self.send(b"".join(frame.data for frame in whole))
        with anyio.move_on_after(_SILENCE_S) as scope:
            while self._waiting and not self.closed:
                await self._progress.wait()
        if not self._waiting and not self.closed:
            return True
        first = next((frame.text for frame in self._waiting.values()), "anything more")
        if scope.cancelled_caught:
            self._found(f"{plural(len(self._waiting), 'request', 'is', 'are')} not answered, the first: {first}")
            self.transport.abort()
        else:
            self._found(f"the connection was closed ({self._refusal}) instead of an answer to: {first}")
        self._waiting = {}
        return False

    async def part(self) -> None:
        """End the connection, and wait until the server has ended it, too: it must not keep an unused connection."""
        self._batch, self._parting = -1, True
        if self.transport.is_closing() or not self.transport.can_write_eof():
            await anyio.sleep(0.001)  # TLS cannot end only one direction
            return
        self.transport.write_eof()
        with anyio.move_on_after(_SILENCE_S) as scope:
            while not self.closed:
                await self._progress.wait()
        if scope.cancelled_caught:
            self._found("the server keeps a connection that its client has ended")

    # --- judging -----------------------------------------------------------------------------------------------------

    def _check_answer(self, answer: FuzzAnswer) -> None:
        if answer.reply is not None:
            self.send(answer.reply)
            return
        sent = self._waiting.pop(answer.opaque, None)
        text = "a broken frame" if sent is None else sent.text
        self._report.codes[str(answer.code)] += 1
        if answer.code == ResponseCode.SYSTEM_ERROR and _INTERNAL in answer.remark:
            self._found(f"internal error ({answer.remark}): {text}")
        elif sent is None and answer.opaque and self._batch >= 0:
            self._found(f"an answer without a request: {answer!r}")
        elif sent is None:
            self._refusal = answer.remark

    def _found(self, text: str) -> None:
        where = f"batch {self._batch}: " if self._batch >= 0 else ""
        self._report.found.append(where + text)


class _Usage:
    """Memory and descriptors of the server's process over a run."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._samples: list[dict[str, float]] = []
        self._sample()

    def _sample(self) -> None:
        try:
            usage = process_usage(self._pid)
        except OSError as error:
            if self._samples:
                return  # the process has ended: the connections report it
            raise ConfigError(f"--pid {self._pid}: cannot read the usage of this process ({error})") from error
        self._samples.append({"RSS MiB": round(usage.rss_bytes / 2**20, 1), "descriptors": usage.fds})

    async def keep_sampling(self) -> None:
        """Take a sample every `_POLL_S`, until cancelled."""
        while True:
            await anyio.sleep(_POLL_S)
            self._sample()

    def levels(self) -> dict[str, list[float]]:
        """Begin, middle and end of each figure."""
        self._sample()
        rows = (self._samples[0], self._samples[len(self._samples) // 2], self._samples[-1])
        return {name: [row[name] for row in rows] for name in rows[0]}

    def grown(self) -> list[str]:
        """A line for each figure that has grown during the whole run; [] after a run that was too short for this."""
        detector = LeakDetector(warm_up=len(self._samples) // _WARM_UP, margins=_MARGINS)
        for sample in self._samples:
            detector.add_sample(sample)
        return detector.grown()
