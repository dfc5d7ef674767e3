"""The bare echo: the highest rate at which two Python processes can exchange the frames of a send.

Both sides are an `asyncio.Protocol` under uvloop; frames and their packing are those of a real send of a 256-byte body.

- The server splits its input into frames, unpacks each, packs the same fields as the response of its opaque, and
  writes all responses in one write. It checks nothing and keeps nothing.
- The client packs one frame for each request, returns a future, and writes the frames of one event-loop iteration
  together. It unpacks each response and completes the future of its opaque. It has no timeouts, limits or retries, and
  it makes the payload once instead of encoding a message for each request.

So the distance from it is the cost of everything else that a producer and a broker do: encode and check the message,
choose its queue, guard it with a timeout, check the header, store it, keep track of the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from struct import Struct
from typing import Any, cast

import msgpack

from model.message import Message, encode_payload
from process.output import print_json
from process.runtime import new_loop, wait_for_eof
from remoting.address import format_address, parse_address
from remoting.codec import LENGTH_BYTES, VERSION
from remoting.command import REQUEST, RESPONSE
from remoting.request_code import RequestCode

BODY = b"x" * 256
TOPIC = "bench"

_SEND = int(RequestCode.SEND_MESSAGE)
_length_at = Struct(">I").unpack_from
_pack = msgpack.Packer(autoreset=True).pack
_unpack = msgpack.unpackb


def split(data: bytes) -> tuple[list[bytes], bytes]:
    """Split a stream: the complete frames at its beginning, each with its length in front, and the rest."""
    frames: list[bytes] = []
    position, end = 0, len(data)
    while end - position >= LENGTH_BYTES:
        after = position + LENGTH_BYTES + _length_at(data, position)[0]
        if after > end:
            break
        frames.append(data[position:after])
        position = after
    return frames, data[position:]


def make_answer(frame: bytes) -> bytes:
    """The response that echoes a frame; both with their length in front."""
    fields: Any = _unpack(memoryview(frame)[LENGTH_BYTES:])
    _, _, code, opaque, header, body = fields
    packed: bytes = _pack((VERSION, RESPONSE, code, opaque, header, body))
    return len(packed).to_bytes(LENGTH_BYTES, "big") + packed


class EchoServer(asyncio.Protocol):
    """Answers every frame with a response of the same header and body."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        frames, self._rest = split(self._rest + data if self._rest else data)
        if frames and self._transport is not None:
            self._transport.write(b"".join([make_answer(frame) for frame in frames]))


class EchoClient(asyncio.Protocol):
    """Sends one frame for each request and completes its future when it comes back; made by `connect_echo`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._rest = b""
        self._out: list[bytes] = []
        self._waiting: dict[int, asyncio.Future[list[Any]]] = {}
        self._opaque = 0
        self._header = {"topic": TOPIC, "queue_id": 0, "tag_hash": 0}
        self._payload = encode_payload(Message(TOPIC, BODY), 1_700_000_000_000, f"{0:024x}")

    def request(self) -> asyncio.Future[list[Any]]:
        """Send one frame; the future gets the unpacked response."""
        future: asyncio.Future[list[Any]] = self._loop.create_future()
        self._opaque = opaque = self._opaque + 1
        self._waiting[opaque] = future
        frame: bytes = _pack((VERSION, REQUEST, _SEND, opaque, self._header, self._payload))
        frames = self._out
        frames.append(len(frame).to_bytes(LENGTH_BYTES, "big") + frame)
        if len(frames) == 1:
            self._loop.call_soon(self._flush)
        return future

    def _flush(self) -> None:
        if self._transport is not None:
            self._transport.write(b"".join(self._out))
        self._out.clear()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        frames, self._rest = split(self._rest + data if self._rest else data)
        for frame in frames:
            fields: Any = _unpack(memoryview(frame)[LENGTH_BYTES:])
            future = self._waiting.pop(fields[3])
            if not future.done():  # cancelled, when a benchmark is stopped
                future.set_result(fields)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop: pending requests fail, so that a benchmark does not hang."""
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(ConnectionError("the echo server went away"))

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()


@asynccontextmanager
async def echo_server() -> AsyncIterator[str]:
    """Run an echo server on loopback while the block runs; yields its address."""
    server = await asyncio.get_running_loop().create_server(EchoServer, "127.0.0.1", 0)
    try:
        yield format_address("127.0.0.1", server.sockets[0].getsockname()[1])
    finally:
        server.close()


@asynccontextmanager
async def connect_echo(address: str) -> AsyncIterator[EchoClient]:
    """Connect to an echo server while the block runs."""
    loop = asyncio.get_running_loop()
    host, port = parse_address(address)
    _, client = await loop.create_connection(lambda: EchoClient(loop), host, port)
    try:
        yield client
    finally:
        client.close()


async def _serve() -> None:
    async with echo_server() as address:
        print_json({"kind": "echo", "name": "echo", "address": address})
        await wait_for_eof()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(_serve())
