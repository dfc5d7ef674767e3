"""What a broker of one commit leaves on its disk for the broker of a later one.

`python -m tests.compat.stored FILE`, with the tree of a commit and then this one on PYTHONPATH, runs a cluster of that
commit, stops it, and writes the files of its broker as msgpack.

    topic orders, 2 queues -> m0 to m7, consumed by billing -> one dead-letter message of failing -> m8 to m11, which
    nobody has consumed -> poppers pop three messages and acknowledge one -> one message for a minute later -> the end
"""

from __future__ import annotations

import gzip
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import msgpack

from client import Admin, ConsumeFrom, Message, MessageExt, PopConsumer, Producer, PushConsumer
from tests.compat.scenario import NAME_SERVERS, Scenario, until
from tests.compat.taps import run_on_a_broker

FILE = Path(__file__).parent / "7f40804.stored.msgpack.gz"
BROKER = "broker-a"
LATER_S = 60.0


class Stored(Scenario):
    """The part of the earlier commit."""

    async def _run_all(self) -> None:
        admin = Admin(NAME_SERVERS)
        await admin.start()
        await admin.create_topic("orders", queues=2)
        await admin.shutdown()
        await self._consumed()
        await self._fail()
        producer = await self._start(self._client(Producer))
        for n in range(8, 12):
            await producer.send(Message("orders", b"m%d" % n, (f"k{n}",)), key=str(n))
        await self._popped()
        await producer.send(Message("orders", b"later"), delay_ms=int(LATER_S * 1000))
        await producer.shutdown()

    async def _consumed(self) -> None:
        got: list[bytes] = []

        async def listener(messages: Sequence[MessageExt]) -> None:
            got.extend(message.body for message in messages)

        consumer = self._client(PushConsumer, "billing", consume_from=ConsumeFrom.FIRST_OFFSET)
        await consumer.subscribe("orders", listener)
        await self._start(consumer)
        producer = await self._start(self._client(Producer))
        for n in range(8):
            await producer.send(Message("orders", b"m%d" % n, (f"k{n}",)), key=str(n))
        await until(lambda: len(got) >= 8)
        await consumer.shutdown()
        await producer.shutdown()

    async def _popped(self) -> None:
        popper = self._client(PopConsumer, "poppers", consume_from=ConsumeFrom.FIRST_OFFSET)
        await popper.subscribe("orders")
        await self._start(popper)
        messages: list[Any] = []
        with anyio.fail_after(30):
            while len(messages) < 3:
                messages += await popper.receive(3 - len(messages), invisible_s=20, wait_s=5)
        await popper.ack(messages[0])
        self.seen["acknowledged"] = messages[0].body
        await popper.shutdown()


def record() -> dict[str, Any]:
    """Run it with the code that is on the path; returns the message that was acknowledged, and the broker's files."""

    async def main(simulation: Any) -> dict[str, Any]:
        return await Stored(simulation).run()

    with tempfile.TemporaryDirectory() as folder:
        seen: dict[str, Any] = run_on_a_broker(main, Path(folder))
        data = Path(folder, BROKER)
        files = {path.relative_to(data).as_posix(): path.read_bytes() for path in data.rglob("*") if path.is_file()}
    return {"acknowledged": seen["acknowledged"], "files": dict(sorted(files.items()))}


def unpack(folder: Path) -> bytes:
    """Write the recorded files below a folder; returns the message that `poppers` had acknowledged."""
    recorded: Any = msgpack.unpackb(gzip.decompress(FILE.read_bytes()))
    for name, content in recorded["files"].items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    acknowledged: bytes = recorded["acknowledged"]
    return acknowledged


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(msgpack.packb(record()))
