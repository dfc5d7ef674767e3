"""A cluster, its console and a browser for the walk and the measurement, and the tools that they need.

Nothing is skipped: what is missing is installed, and what cannot be is named with the command that installs it.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / ".venv" / "browser"
AXE = "axe-core@4.14.1"
RLAB = [sys.executable, "-m", "cli.main"]
READY_S = 40
GROUP, TOPIC = "billing", "orders"


def need(found: bool, what: str) -> None:
    """End with a line that says what is missing, or what is wrong.

    Raises:
        SystemExit: it is.
    """
    if not found:
        raise SystemExit(f"FAILED: {what}")


def chromium() -> str:
    """The path of a Chromium, installed by Debian's package manager if there is none."""
    names = ("chromium", "chromium-browser", "google-chrome")
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None and shutil.which("apt-get"):
        subprocess.run(["apt-get", "update", "-qq"], check=False)
        subprocess.run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", "chromium"], check=False)
        found = shutil.which("chromium")
    need(found is not None, "there is no Chromium: apt-get install chromium (as root), and try again")
    assert found is not None
    return found


def axe_script() -> str:
    """The text of axe-core, fetched by npm once."""
    file = TOOLS / "node_modules" / "axe-core" / "axe.min.js"
    if not file.is_file():
        need(
            shutil.which("npm") is not None, "there is no npm to get axe-core with: apt-get install npm, and try again"
        )
        TOOLS.mkdir(parents=True, exist_ok=True)
        subprocess.run(["npm", "install", "--silent", "--no-save", "--prefix", str(TOOLS), AXE], check=True)
    return file.read_text(encoding="utf-8")


def started(*arguments: str) -> tuple[subprocess.Popen[str], dict[str, Any]]:
    """Start a daemon of ours; returns it with what it announces."""
    command = [*RLAB, *arguments, "--json"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    need(bool(line), f"rlab {' '.join(arguments)} did not start")
    return process, json.loads(line)


def stop(process: subprocess.Popen[Any]) -> None:
    """Stop a process that was started here."""
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()


@contextmanager
def running(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """A daemon of ours while the block runs."""
    process, announced = started(*arguments)
    try:
        yield process, announced
    finally:
        stop(process)


class Relay:
    """Passes connections on to an address until they are cut: what a browser does offline is told by no fake."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        self._is_cut = False
        self._target = ("", 0)
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"

    def pass_on_to(self, address: str) -> None:
        """Begin to pass on."""
        host, _, port = address.rpartition(":")
        self._target = (host, int(port))
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            come, _ = self._listener.accept()
            if self._is_cut:
                come.close()
                continue
            try:
                gone = socket.create_connection(self._target)
            except OSError:  # the console has ended
                come.close()
                continue
            self._sockets += [come, gone]
            for source, sink in ((come, gone), (gone, come)):
                threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    @staticmethod
    def _pump(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        """Cut all connections, and refuse new ones."""
        self._is_cut = True
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        """Pass on again."""
        self._is_cut = False


@contextmanager
def consoled(queues: int) -> Iterator[tuple[str, str, Relay, int]]:
    """A cluster with a topic and a console; yields name server, console, a relay to it, and the console's pid."""
    relay = Relay()
    with ExitStack() as stack:
        made = ("--brokers", "2", "--port", "0", "--topic", TOPIC, "--queues", str(queues))
        _, cluster = stack.enter_context(running("cluster", *made))
        at = (
            "--namesrv",
            cluster["address"],
            "--listen",
            "127.0.0.1:0",
            "--allow-changes",
            "--allow-host",
            relay.address,
        )
        process, console = stack.enter_context(running("console", *at))
        relay.pass_on_to(console["address"])
        yield cluster["address"], console["address"], relay, process.pid


@contextmanager
def browsing() -> Iterator[Browser]:
    """A headless Chromium."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


def wait_for(what: str, condition: Any, timeout_s: float = READY_S) -> float:
    """Wait until a condition holds; returns how long that took.

    Raises:
        SystemExit: it did not hold in time.
    """
    began = time.perf_counter()
    while not condition():
        need(time.perf_counter() - began < timeout_s, f"{what}: not within {timeout_s:g} s")
    return time.perf_counter() - began
