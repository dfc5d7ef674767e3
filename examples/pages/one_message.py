"""One message byte by byte: sent, stored, pulled and committed.

    python examples/pages/one_message.py

A broker, a producer and a consumer run in virtual time; a wiretap between the broker and the others forwards every byte
and keeps the frames. The example prints the bytes on the wire and in the broker's file. `docs/one-message.md` explains
them.

    python examples/pages/one_message.py docs      updates that page
"""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import anyio
import msgpack

from rlab.client import Message
from rlab.model.record import HEADER, HEADER_BYTES
from rlab.remoting.codec import CODEC
from rlab.remoting.command import RESPONSE, Command
from rlab.remoting.request_code import RequestCode
from rlab.remoting.wire.docs import byte_rows
from rlab.testbed.simulation.cluster.cluster import BROKER_PORT, SimulatedCluster
from rlab.testbed.simulation.kernel.run import Simulation, run_simulation

PAGE = Path(__file__).resolve().parents[2] / "docs" / "one-message.md"
RECORD_FIELDS = (
    "length",
    "crc",
    "topic_id",
    "queue_id",
    "queue_offset",
    "stored_ms",
    "tag_hash",
    "flags",
    "times_delivered",
)
PAYLOAD_FIELDS = ("topic", "body", "tags", "keys", "properties", "born_ms", "message_id")
Rows = list[tuple[bytes, str]]


class Wiretap:
    """Forwards bytes between clients and a broker, and keeps every frame in the order of arrival."""

    def __init__(self) -> None:
        self.frames: list[tuple[bool, Command]] = []  # (sent by a client, frame)

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection of a client."""
        broker_reader, broker_writer = await asyncio.open_connection("broker-a", BROKER_PORT)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._copy, reader, broker_writer, True)
            tasks.start_soon(self._copy, broker_reader, writer, False)

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, by_client: bool) -> None:
        decoder = CODEC.decoder()
        while data := await reader.read(65536):
            self.frames += [(by_client, frame) for frame in decoder.feed(data)]
            writer.write(data)
        writer.close()

    def request(self, code: RequestCode) -> Command:
        """The newest request of a client with this code."""
        return [frame for by_client, frame in self.frames if by_client and frame.code == code][-1]

    def response(self, request: Command) -> Command:
        """The response to a request: the first one with its opaque after it."""
        frames = [frame for _, frame in self.frames]
        after = frames[next(n for n, frame in enumerate(frames) if frame is request) :]
        return next(frame for frame in after if frame.flags == RESPONSE and frame.opaque == request.opaque)


async def follow(simulation: Simulation, data_dir: Path) -> dict[str, Rows]:
    """Send a message and record each step; returns the bytes of each step with their meaning."""
    tap = Wiretap()
    with simulation.on_host("wiretap"):
        await asyncio.start_server(tap.connected, "0.0.0.0", BROKER_PORT)
    async with SimulatedCluster(simulation, data_dir, brokers=1, advertise=f"wiretap:{BROKER_PORT}") as cluster:
        await cluster.create_topic("orders", queues=1)
        consumer = await cluster.start_consumer("billing", "orders")
        await cluster.wait_converged(1)
        producer = await cluster.start_producer()
        message = Message("orders", b"a book", keys=["42"], tags="new")
        with simulation.on_host(producer.host):
            await producer.producer.send(message)
        send = tap.request(RequestCode.SEND_MESSAGE)
        await anyio.sleep(0.1)
        pull = next(frame for by_client, frame in tap.frames if by_client and _is_pull(frame, 0))
        assert consumer.bodies == [b"a book"]
        await anyio.sleep(0.5)
        commit = tap.request(RequestCode.UPDATE_CONSUMER_OFFSET)
        record = tap.response(pull).body or b""
        assert record in b"".join(path.read_bytes() for path in sorted((data_dir / "broker-a").rglob("*.log")))
        assert record[HEADER_BYTES:] == send.body, "the broker stores the producer's bytes unchanged"
        return {
            "send": list(_frame(send)),
            "sent": list(_frame(tap.response(send))),
            "record": list(_record(record)),
            "pull": list(_frame(pull)),
            "pulled": list(_frame(tap.response(pull))),
            "commit": list(_frame(commit)),
            "committed": list(_frame(tap.response(commit))),
        }


def _is_pull(frame: Command, offset: int) -> bool:
    if frame.code != RequestCode.PULL_MESSAGE:
        return False
    return (frame.header["topic"], frame.header["offset"]) == ("orders", offset)


def _frame(frame: Command) -> Iterator[tuple[bytes, str]]:
    """The rows of a frame, without the bytes of its body, which are shown elsewhere or are rows of queues."""
    *rows, (body, meaning) = byte_rows(frame)
    yield from rows
    if frame.body is None:
        yield body, meaning
    else:
        head = body[: len(body) - len(frame.body)]
        meaning = f"body: {len(frame.body)} bytes"
        if frame.code == RequestCode.UPDATE_CONSUMER_OFFSET:
            meaning += f", {msgpack.unpackb(frame.body)}"
        yield head, meaning


def _record(record: bytes) -> Iterator[tuple[bytes, str]]:
    """The rows of a stored record: its header, then the producer's payload."""
    values, position = HEADER.unpack_from(record), 0
    for name, value, code in zip(RECORD_FIELDS, values, HEADER.format.lstrip(">"), strict=True):
        size = {"I": 4, "i": 4, "Q": 8, "H": 2}[code]
        yield record[position : position + size], f"{name} {value}"
        position += size
    yield record[position : position + 1], "payload: msgpack array of 7"
    payload = cast(list[Any], msgpack.unpackb(record[position:]))
    for name, value in zip(PAYLOAD_FIELDS, payload, strict=True):
        yield msgpack.packb(value), f"{name} {value!r}"


def render(rows: Rows) -> str:
    """Rows as text: offset, bytes, meaning."""
    lines, offset = [], 0
    for part, meaning in rows:
        for start in range(0, len(part), 8):
            hexadecimal = part[start : start + 8].hex(" ")
            lines.append(f"{offset + start:4}  {hexadecimal:24} {'' if start else meaning}".rstrip())
        offset += len(part)
    return "\n".join(lines)


def steps() -> dict[str, str]:
    """Every step as text, by its name."""
    with tempfile.TemporaryDirectory() as directory:

        async def main(simulation: Simulation) -> dict[str, Rows]:
            return await follow(simulation, Path(directory))

        return {name: render(rows) for name, rows in run_simulation(main).items()}


def filled(page: str) -> str:
    """The page with each step in its place, which `<!-- bytes: NAME -->` marks."""
    texts = steps()
    return re.sub(
        r"(<!-- bytes: (\w+) -->\n)```text\n.*?```",
        lambda match: f"{match[1]}```text\n{texts[match[2]]}\n```",
        page,
        flags=re.DOTALL,
    )


if __name__ == "__main__":
    if sys.argv[1:] == ["docs"]:
        PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        for name, text in steps().items():
            print(f"{name}\n{text}\n")
    print("offset 1 is committed")
