"""The wire: frames of msgpack on TCP, and requests in both directions on one connection. RocketMQ: RemotingCommand.

    4 bytes: length | [code, opaque, kind, header]

`opaque` pairs an answer with its request. A one-way command has no answer.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import msgpack
from anyio.abc import SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

REQUEST, RESPONSE, ONEWAY = 0, 1, 2
Handler = Callable[["Connection", str, dict[str, Any]], Awaitable[Any]]


class Connection:
    """One TCP connection, with requests from both sides."""

    def __init__(self, stream: SocketStream, handler: Handler) -> None:
        self._stream = stream
        self._handler = handler
        self._sending = anyio.Lock()
        self._opaque = 0
        self._answers: dict[int, tuple[anyio.Event, list[Any]]] = {}
        self.is_open = True

    async def request(self, code: str, **header: Any) -> Any:
        """Send a request and wait for its answer. RocketMQ: invokeSync.

        Raises:
            ConnectionError: the connection was closed first.
        """
        self._opaque += 1
        answered, answer = anyio.Event(), list[Any]()
        self._answers[self._opaque] = answered, answer
        await self._send(code, self._opaque, REQUEST, header)
        await answered.wait()
        if not answer:
            raise ConnectionError(f"closed before the answer to {code}")
        return answer[0]

    async def invoke_oneway(self, code: str, **header: Any) -> None:
        """Send a command that has no answer; its loss is not noticed. RocketMQ: invokeOneway."""
        with contextlib.suppress(ConnectionError):
            await self._send(code, 0, ONEWAY, header)

    async def _send(self, code: str, opaque: int, kind: int, header: Any) -> None:
        if not self.is_open:
            raise ConnectionError("closed")
        frame = msgpack.packb([code, opaque, kind, header])
        try:
            async with self._sending:
                await self._stream.send(len(frame).to_bytes(4, "big") + frame)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            raise ConnectionError("closed") from error

    async def run(self) -> None:
        """Read frames until the other side closes. A handler may wait, so each request has a task of its own."""
        try:
            async with self._stream, anyio.create_task_group() as tasks:
                buffered = BufferedByteReceiveStream(self._stream)
                while True:
                    length = int.from_bytes(await buffered.receive_exactly(4), "big")
                    frame: Any = msgpack.unpackb(await buffered.receive_exactly(length))
                    code, opaque, kind, header = frame
                    if kind == RESPONSE:
                        answered, answer = self._answers.pop(opaque)
                        answer.append(header)
                        answered.set()
                    else:
                        tasks.start_soon(self._process_request, code, opaque, kind, header)
        except* (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError, ConnectionError):
            pass  # the other side closed
        finally:
            self.is_open = False
            for answered, _ in self._answers.values():
                answered.set()

    async def _process_request(self, code: str, opaque: int, kind: int, header: dict[str, Any]) -> None:
        answer = await self._handler(self, code, header)
        if kind == REQUEST:
            await self._send(code, opaque, RESPONSE, answer)
