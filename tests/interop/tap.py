"""A tap between clients and servers of RocketMQ: it forwards every byte, and keeps a few frames of each kind.

`make interop RECORD=1` writes them to `tests/unit/rocketmq/outward/recorded/frames.jsonl`, which `make test` decodes,
encodes again and translates. A line is one frame: the client that took part, whether it was the sender, the code of the
request, and the bytes in base64.
"""

from __future__ import annotations

import base64
import json
import socket
import threading
from pathlib import Path

from rocketmq.frame import RESPONSE_BIT, Frame, decode_header

RECORDED = Path(__file__).parents[1] / "unit" / "rocketmq" / "outward" / "recorded" / "frames.jsonl"
MAX_BYTES = 2_000
"""A longer frame is not kept."""

Kind = tuple[str, bool, int, int]


class Recorder:
    """Keeps the first frame of each kind: client, direction, code of the request, code of the answer."""

    def __init__(self) -> None:
        self.client = ""
        self.frames: dict[Kind, bytes] = {}
        self._lock = threading.Lock()

    def keep(self, frame: Frame, data: bytes, requests: dict[int, int], *, by_client: bool) -> None:
        """Look at one frame; `requests` are those under way on its connection, by their opaque number."""
        is_answer = bool(frame.flag & RESPONSE_BIT)
        if not is_answer:
            requests[frame.opaque] = frame.code
        code = requests.pop(frame.opaque, None) if is_answer else frame.code
        if code is None or len(data) > MAX_BYTES:
            return
        with self._lock:
            self.frames.setdefault((self.client, by_client, code, frame.code if is_answer else -1), data)

    def write(self) -> None:
        """Write all of them, those of clients that were not run now as they were before."""
        kept = [line for line in RECORDED.read_text().splitlines()] if RECORDED.exists() else []
        clients = {client for client, *_ in self.frames}
        lines = [line for line in kept if json.loads(line)["client"] not in clients]
        for (client, by_client, code, _), data in sorted(self.frames.items()):
            frame = base64.b64encode(data).decode()
            lines.append(json.dumps({"client": client, "by_client": by_client, "code": code, "frame": frame}))
        RECORDED.write_text("\n".join(sorted(lines)) + "\n")


class Tap:
    """Takes connections at `address` and forwards them to `target`, both `(host, port)`."""

    def __init__(self, address: tuple[str, int], target: tuple[str, int], recorder: Recorder) -> None:
        self._target = target
        self._recorder = recorder
        self._listening = socket.create_server(address)
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Take no more connections."""
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            server = socket.create_connection(self._target)
            asked: tuple[dict[int, int], dict[int, int]] = {}, {}
            for by_client in (True, False):
                ends = (client, server) if by_client else (server, client)
                threading.Thread(target=self._forward, args=(*ends, asked, by_client), daemon=True).start()

    def _forward(
        self, source: socket.socket, sink: socket.socket, asked: tuple[dict[int, int], dict[int, int]], by_client: bool
    ) -> None:
        """Forward one direction. A request of one side is answered by the other."""
        buffer = bytearray()
        try:
            while data := source.recv(1 << 16):
                sink.sendall(data)
                buffer += data
                while len(buffer) >= 4 and len(buffer) >= 4 + (length := int.from_bytes(buffer[:4])):
                    frame, buffer = bytes(buffer[: 4 + length]), buffer[4 + length :]
                    read = frame_of(frame)
                    of_client = by_client != bool(read.flag & RESPONSE_BIT)
                    self._recorder.keep(read, frame, asked[of_client], by_client=by_client)
        except OSError:
            pass
        finally:
            for end in (source, sink):
                end.close()


def frame_of(data: bytes) -> Frame:
    """Decode one whole frame."""
    mark = int.from_bytes(data[4:8])
    header = 8 + (mark & 0xFFFFFF)
    return decode_header(data[8:header], data[header:] or None, binary=mark >> 24 == 1)
