"""ClientEdge: one connection of our client to a server of RocketMQ; the client sees only our commands.

It is the codec of one connection, as `rocketmq/edge.py` is for a server. One of our requests may take several of
RocketMQ's, one after another or together: a lease needs the committed offset, and without one the end of the queue. So
each request is a generator (`queues.py`), which yields the calls to make and receives their answers. It returns the
answer that the client waits for.

    LOCK_BATCH_MQ [["t", 0]]   ->   14 QUERY_CONSUMER_OFFSET   <-  22, there is none
                                    30 GET_MAX_OFFSET          <-  offset 7
                               <-   granted: [["t", 0, token, 7]]

An unreadable answer is distinguished from a refusal: the client gets an error with that reason, and the connection is
closed only for bytes that are not frames.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from model.errors import RequestCodeNotSupported, RlabError
from model.limits import MAX_IN_FLIGHT_REQUESTS, MAX_ROCKETMQ_BROKERS, MAX_ROCKETMQ_HANDLES
from model.response_code import ResponseCode
from model.subscription import SubscriptionData
from remoting.codec import Peer
from remoting.command import ONE_WAY, RESPONSE, Command
from remoting.request_code import RequestCode
from rocketmq.fields import header_text
from rocketmq.frame import ONE_WAY_BIT, RESPONSE_BIT, Frame, FrameReader, encode_frame

_KNOWN_CODES = frozenset(map(int, ResponseCode))
_MAX_OPAQUE = 2**31
_UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, struct.error)
"""The errors of reading a malformed answer: a hostile server chooses every byte of it."""


class StockCall(NamedTuple):
    """One request to a server of RocketMQ."""

    code: int
    fields: Mapping[str, object] = {}
    body: bytes | None = None


class TranslatedAnswer(NamedTuple):
    """The answer that our client gets."""

    header: dict[str, Any]
    body: bytes | None = None
    code: int = 0


T = TypeVar("T")
Calls = Generator[list[StockCall], list[Frame], T]
"""Yields calls that are made together; receives their answers in the same order."""
Steps = Calls[TranslatedAnswer]


class Cluster:
    """The knowledge that the connections of one client share, also after one of them was lost."""

    def __init__(self) -> None:
        self._topics: dict[str, dict[str, int]] = {}  # topic -> broker name -> queues that can be read
        self._names: dict[str, str] = {}  # address of a broker -> its name
        self._handles: dict[int, tuple[str, ...]] = {}
        self._n_handles = 0
        self._commits: dict[str, dict[tuple[str, str, int], int]] = {}  # by address; group, topic, queue id -> offset

    def keep(self, handle: tuple[str, ...]) -> int:
        """Keep the words of a POP receipt handle; returns the number under which they are kept."""
        self._n_handles += 1
        self._handles[self._n_handles] = handle
        if len(self._handles) > MAX_ROCKETMQ_HANDLES:
            del self._handles[next(iter(self._handles))]  # its invisible time ended long ago
        return self._n_handles

    def handle(self, number: int) -> tuple[str, ...] | None:
        """The words of a receipt handle; None if they are no longer kept."""
        return self._handles.get(number)

    def record_names(self, names: Mapping[str, str]) -> None:
        """Record the names of brokers by address. Each route repeats them, so a full table is cleared."""
        if len(self._names) > MAX_ROCKETMQ_BROKERS:
            self._names.clear()
        self._names.update(names)

    def record_topic(self, topic: str, queues: Mapping[str, int]) -> None:
        """Record how many queues of a topic can be read at each broker, by broker name."""
        if len(self._topics) > MAX_ROCKETMQ_BROKERS:
            self._topics.clear()
        self._topics[topic] = dict(queues)

    def queues_of(self, address: str, topic: str) -> int:
        """Number of read queues of a topic at the broker of an address, by the last route."""
        return self._topics[topic].get(self.name_of(address), 0)

    def name_of(self, address: str) -> str:
        """The name of the broker at an address; a route has named it before the first request to that broker."""
        return self._names[address]

    def record_commit(self, address: str, queue: tuple[str, str, int], offset: int, *, is_reset: bool = False) -> None:
        """Record the offset of one of this client's queues that is sent to its broker."""
        offsets = self._commits.setdefault(address, {})
        offsets[queue] = offset if is_reset else max(offset, offsets.get(queue, 0))

    def committed(self, address: str, *queue: *tuple[str, str, int]) -> int:
        """The offset that this client sent last for one of its queues; 0 before the first."""
        return self._commits.get(address, {}).get(queue, 0)

    def forget(self, address: str, *queue: *tuple[str, str, int]) -> None:
        """Forget the offset of a queue that this client has released."""
        self._commits.get(address, {}).pop(queue, None)


@dataclass(slots=True)
class Server:
    """The state of a connection: of the server from its answers, of our client from its requests.

    Attributes:
        cluster: the state that all connections of the client share.
        address: of the server, as routes have it.
        version: of the server, from its answers; 0 before the first one.
        subscribed: group -> topic -> subscription, of the last heartbeat.
        starts: group -> its start without a committed offset, and the time of that start in ms.
        client_id: of the last heartbeat.
        producer_group: of the last heartbeat.
        leases: number of granted leases.
        locked: for each group that consumes in order, the queues whose locks it has.
        held: for each group, the queues that the client consumes.
    """

    cluster: Cluster
    address: str
    version: int = 0
    subscribed: dict[str, dict[str, SubscriptionData]] = field(default_factory=dict)
    starts: dict[str, tuple[str, int]] = field(default_factory=dict)
    client_id: str = ""
    producer_group: str = "DEFAULT_PRODUCER"
    leases: int = 0
    locked: dict[str, dict[tuple[str, int], None]] = field(default_factory=dict)
    held: dict[str, dict[tuple[str, int], None]] = field(default_factory=dict)


OutwardTranslator = Callable[[Server, dict[str, Any], bytes], Steps]
Listener = Callable[[Server, Frame], tuple[int, dict[str, Any], bytes | None]]
"""Translates a notification of a server: our code, its header and its body."""
ForwardedHandler = Callable[[Server, Frame], bytes]
"""Answers a request that a server forwards to our client, for instance from a tool: the body."""


class RefusedByServer(Exception):
    """A server has answered with an error code."""

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame.remark or f"code {frame.code}")
        self.code = frame.code if frame.code in _KNOWN_CODES else int(ResponseCode.SYSTEM_ERROR)


class _Pending:
    """An outstanding request of our client; `missing` is the number of answers that its last calls still lack."""

    __slots__ = ("answers", "asked", "missing", "steps")

    def __init__(self, request_key: tuple[int, int], steps: Steps) -> None:
        self.asked = request_key  # code and opaque of the client's request
        self.steps = steps
        self.answers: list[Frame | None] = []
        self.missing = 0


class ClientEdge(FrameReader):
    """The codec of one connection; see the module header. It decodes as well."""

    def __init__(
        self,
        translators: Mapping[int, OutwardTranslator],
        pushes: Mapping[int, Listener],
        forwarded_handlers: Mapping[int, ForwardedHandler],
        peer: Peer,
        server: Server,
    ) -> None:
        self._translators = translators
        self._pushes = pushes
        self._forwarded_handlers = forwarded_handlers
        self._peer = peer
        self._server = server
        super().__init__()
        self._opaque = 0
        self._waiting: dict[int, tuple[_Pending, int]] = {}  # opaque of a call -> its request, place among its calls

    # --- encoding ----------------------------------------------------------------------------------------------------

    def encode(self, flags: int, code: int, opaque: int, header: Mapping[str, Any], body: bytes | None) -> bytes:
        """See `remoting.codec.Codec`.

        Raises:
            RequestCodeNotSupported: RocketMQ's servers have no request like it.
            MessageIllegal: they cannot store such a message.
        """
        if flags == RESPONSE:
            return b""  # the edge itself answers all requests of servers
        translator = self._translators.get(code)
        if translator is None:
            raise RequestCodeNotSupported(f"servers of RocketMQ have no request like {RequestCode(code).name}")
        pending = _Pending((code, opaque), translator(self._server, dict(header), body or b""))
        return self._calls(pending, next(pending.steps))

    def _calls(self, pending: _Pending, calls: list[StockCall]) -> bytes:
        pending.answers, pending.missing = [None] * len(calls), len(calls)
        frames: list[bytes] = []
        for index, call in enumerate(calls):
            self._opaque = self._opaque % (_MAX_OPAQUE - 1) + 1
            if len(self._waiting) >= MAX_IN_FLIGHT_REQUESTS:
                del self._waiting[next(iter(self._waiting))]  # its client stopped waiting long ago
            self._waiting[self._opaque] = pending, index
            fields = {name: header_text(value) for name, value in call.fields.items()}
            frames.append(encode_frame(Frame(call.code, 0, self._opaque, fields, call.body, language="PYTHON")))
        return b"".join(frames)

    # --- decoding ----------------------------------------------------------------------------------------------------

    def decoder(self) -> ClientEdge:
        """See `remoting.codec.Codec`."""
        return self

    def feed(self, data: bytes) -> list[Command]:
        """See `remoting.codec.Decoder`."""
        commands: list[Command] = []
        for frame in self._frames.feed(data):
            command = self._answered(frame) if frame.flag & RESPONSE_BIT else self._pushed(frame)
            if command is not None:
                commands.append(command)
        return commands

    def _answered(self, frame: Frame) -> Command | None:
        self._server.version = frame.version or self._server.version
        pending, index = self._waiting.pop(frame.opaque, (None, 0))
        if pending is None or pending.answers[index] is not None:
            return None  # an answer to an unknown request, or one whose client no longer waits
        pending.answers[index] = frame
        pending.missing -= 1
        if pending.missing:
            return None
        code, opaque = pending.asked
        try:
            calls = pending.steps.send([each for each in pending.answers if each is not None])
        except StopIteration as end:
            result: TranslatedAnswer = end.value
        except RefusedByServer as refused:
            result = TranslatedAnswer({"remark": str(refused)}, None, refused.code)
        except RlabError as error:
            result = TranslatedAnswer({"remark": str(error)}, None, error.code or ResponseCode.SYSTEM_ERROR)
        except _UNREADABLE as error:
            remark = (
                f"the answer of RocketMQ to {RequestCode(code).name} cannot be read ({type(error).__name__}: {error})"
            )
            result = TranslatedAnswer({"remark": remark[:500]}, None, ResponseCode.SYSTEM_ERROR)
        else:
            self._peer.send_frame(self._calls(pending, calls))
            return None
        return Command(RESPONSE, result.code, opaque, result.header, result.body)

    def _pushed(self, frame: Frame) -> Command | None:
        translator = self._pushes.get(frame.code)
        if translator is not None:
            try:
                code, header, body = translator(self._server, frame)
            except (RlabError, *_UNREADABLE):
                return None
            return Command(ONE_WAY, code, 0, header, body)
        if frame.flag & ONE_WAY_BIT:
            return None
        forwarded_handler = self._forwarded_handlers.get(frame.code)
        answer = Frame(
            ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
            RESPONSE_BIT,
            frame.opaque,
            {},
            None,
            f" request type {frame.code} not supported",
            binary=frame.binary,
            language="PYTHON",
        )
        if forwarded_handler is not None:
            try:
                answer = answer._replace(
                    code=ResponseCode.SUCCESS, body=forwarded_handler(self._server, frame), remark=None
                )
            except (RlabError, *_UNREADABLE) as error:
                answer = answer._replace(code=ResponseCode.SYSTEM_ERROR, remark=str(error))
        self._peer.send_frame(encode_frame(answer))
        return None
