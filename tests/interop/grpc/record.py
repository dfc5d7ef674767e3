"""Records the bytes that gRPC clients send to a broker of this project: `make interop RECORD=1 INTEROP_ARGS=grpc`.

`make test` sends them again, at the same times, to a simulated broker (tests/simulation/test_grpc_recorded.py). A
line is one write of a client: the milliseconds since the start, the number of its connection, and the bytes in base64.
"""

from __future__ import annotations

import base64
import json
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from tests.interop.grpc.run import TIMEOUT_S, Command, Endpoint, create_here
from tests.interop.servers import RLAB, Daemons, free_port, pause, say

RECORDED = Path(__file__).parent / "recorded"
FEATURES = ("send, and properties", "simple: longer invisible", "push: retry", "push: FIFO in order")
PREFIX = "rec"


class ByteTap:
    """Takes connections at a port of this machine and forwards them to another; keeps what the clients write."""

    def __init__(self, port: int, target: int) -> None:
        self.lines: list[tuple[int, int, str]] = []
        self._target, self._began, self._connections = target, time.time(), 0
        self._listening = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Take no more connections."""
        self._listening.close()

    def of_grpc(self) -> list[tuple[int, int, str]]:
        """The lines of connections of HTTP/2; the command line speaks another protocol over the same port."""
        first = {connection: data for _, connection, data in reversed(self.lines)}
        return [line for line in self.lines if base64.b64decode(first[line[1]]).startswith(b"PRI")]

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._target))
            self._connections += 1
            for ends in ((client, server, self._connections), (server, client, 0)):
                threading.Thread(target=self._forward, args=ends, daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket, connection: int) -> None:
        """Forward one direction; that of a client has the number of its connection."""
        try:
            while data := source.recv(1 << 16):
                if connection:
                    at_ms = int(1000 * (time.time() - self._began))
                    self.lines.append((at_ms, connection, base64.b64encode(data).decode()))
                sink.sendall(data)
        except OSError:
            pass
        finally:
            for end in (source, sink):
                end.close()


def record(name: str, program: Command) -> None:
    """Write the bytes of a client that runs a few features."""
    with tempfile.TemporaryDirectory() as directory:
        daemons = Daemons(Path(directory), 0)
        port, tapped = free_port(), free_port()
        start = [*RLAB, "broker", "--name", "broker-a", "--listen", f"127.0.0.1:{port}", "--namesrv"]
        start += [daemons.name_server, "--advertise", f"127.0.0.1:{tapped}", "--data", f"{directory}/a", "--json"]
        broker = subprocess.Popen(start, stdout=subprocess.PIPE)
        daemons.processes.append(broker)
        assert broker.stdout is not None
        broker.stdout.readline()
        tap = ByteTap(tapped, port)
        try:
            endpoint = Endpoint(f"127.0.0.1:{tapped}", create_here(daemons.name_server))
            listed = subprocess.run([*program, "x:1", PREFIX, "--list"], capture_output=True, text=True, check=True)
            for line in listed.stdout.splitlines():
                endpoint.create(*line.split("\t"))
            pause(2)
            arguments = [endpoint.address, PREFIX, str(endpoint.poll_s), str(endpoint.retry_s), *FEATURES]
            cwd = Path(program[-1]).parent
            done = subprocess.run(
                [*program, *arguments], capture_output=True, text=True, timeout=TIMEOUT_S, cwd=cwd, check=True
            )
            say(done.stdout)
        finally:
            tap.close()
            daemons.stop()
    lines = tap.of_grpc()
    if not lines:
        say(f"{name} is not recorded: its bytes are encrypted")
        return
    RECORDED.mkdir(exist_ok=True)
    (RECORDED / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
