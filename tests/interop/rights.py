"""RocketMQ's own client for Java on servers with access control: what a user may not do there, and no longer.

commit   a user commits an offset of its own group on a topic of another user, and is refused
right    one of two members of a group loses the right to the topic: the other one gets every message
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, Queue
from threading import Thread

import anyio

from client import Admin
from remoting.security.key import SECRET_BYTES, Key
from tests.interop.servers import Daemons, pause

Rights = dict[str, str]
"""User -> the lines of its table in the access file."""
TOPICS = {"orders": 4, "bobs": 1}
MESSAGES, WAIT_S = 40, 60
_RIGHTS: Rights = {
    "alice": 'produce = ["orders"]\nconsume = ["orders"]\ngroups = ["billing", "p"]\n',
    "bob": 'consume = ["orders"]\ngroups = ["billing"]\n',
    "eve": 'consume = ["bobs"]\ngroups = ["eves"]\n',
}
_SERVER = 'brokers = ["broker-a"]\nadmin = true\n'


def rights_of(program: list[str]) -> dict[str, str]:
    """Play both scenes with a client of Java; "ok", or what was wrong, by scene."""
    found: dict[str, str] = {}
    with guarded_cluster(_RIGHTS, TOPICS) as (server, access):
        for name, scene in {"commit": _commit, "right": _right}.items():
            try:
                scene([*program, "Rights", server], server, access)
                found[name] = "ok"
            except (AssertionError, TimeoutError) as error:
                found[name] = str(error)
    return found


def _commit(program: list[str], server: str, access: AccessFile) -> None:
    with _client([*program, "eve", "commit", "eves", "bobs", "orders"]) as eve:
        said = eve.line_with(("refused", "committed"))
    assert said.startswith("refused"), said
    assert "consume 'orders'" in said, said
    progress = anyio.run(_committed, server, "eves")
    assert not [topic for topic, offset in progress if topic == "orders" and offset >= 0], progress


def _right(program: list[str], server: str, access: AccessFile) -> None:
    with (
        _client([*program, "alice", "member", "billing", "orders"]) as alice,
        _client([*program, "bob", "member", "billing", "orders"]) as bob,
    ):
        alice.line_with(("ready",))
        bob.line_with(("ready",))
        _send(program)
        both = alice.messages(MESSAGES, of=bob)
        assert bob.got, f"bob got none of {both} messages"
        access.write({**_RIGHTS, "bob": ""})
        pause(5)  # 2 s for the file, and the rest for a client that rebalances when it is notified
        alice.got, bob.got = 0, 0
        _send(program)
        alice.messages(MESSAGES)
        assert not bob.drained(), f"bob got {bob.got} messages without the right"


def _send(program: list[str]) -> None:
    with _client([*program, "alice", "send", "orders", str(MESSAGES)]) as sender:
        sender.line_with(("sent",))


async def _committed(server: str, group: str) -> list[tuple[str, int]]:
    async with Admin(server) as admin:
        rows = await admin.progress(group)
        return [(row.queue.topic, -1 if row.committed is None else row.committed) for row in rows]


def secret_of(user: str) -> str:
    """The secret of a user for RocketMQ's clients."""
    return f"secret-of-{user}"


class AccessFile:
    """The access file of a cluster, which its servers read again when it is written."""

    def __init__(self, path: Path, key: Key, rights: Rights) -> None:
        self._path = path
        self._server = f'[users.server]\nkey = "{key.hash()}"\n{_SERVER}'
        self.write(rights)

    def write(self, rights: Rights) -> None:
        """Give the users these rights."""
        users = (f'[users.{name}]\nrocketmq_secret = "{secret_of(name)}"\n{lines}' for name, lines in rights.items())
        self._path.write_text("\n".join((self._server, *users)), encoding="utf-8")


@contextmanager
def guarded_cluster(rights: Rights, topics: dict[str, int]) -> Iterator[tuple[str, AccessFile]]:
    """Run a name server and a broker with access control; this process is an administrator as long as they run."""
    with tempfile.TemporaryDirectory() as folder:
        key, file = Key("server", os.urandom(SECRET_BYTES)), Path(folder) / "server.key"
        file.touch(mode=0o600)
        file.write_text(key.text(), encoding="utf-8")
        access = AccessFile(Path(folder) / "access.toml", key, rights)
        os.environ["RLAB_KEY_FILE"] = str(file)
        daemons = Daemons(Path(folder), 1, "--access", str(Path(folder) / "access.toml"))
        try:
            anyio.run(_create_topics, daemons.name_server, topics)
            yield daemons.name_server, access
        finally:
            daemons.stop()
            del os.environ["RLAB_KEY_FILE"]


async def _create_topics(server: str, topics: dict[str, int]) -> None:
    async with Admin(server) as admin:
        for topic, queues in topics.items():
            await admin.create_topic(topic, queues=queues)


class _Client:
    """A program of Java that runs, and the lines that it has printed."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.got = 0
        self._lines: Queue[str] = Queue()
        Thread(target=self._read, args=(process,), daemon=True).start()

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self._lines.put(line.strip())

    def line_with(self, beginnings: tuple[str, ...]) -> str:
        """The next line that begins so."""
        while True:
            try:
                line = self._lines.get(timeout=WAIT_S)
            except Empty:
                raise TimeoutError(f"no line with {beginnings} within {WAIT_S} s") from None
            if line.startswith(beginnings):
                return line

    def drained(self) -> int:
        """How many messages it has got, by its lines so far."""
        while not self._lines.empty():
            self.got += self._lines.get().startswith("m ")
        return self.got

    def messages(self, n: int, of: _Client | None = None) -> int:
        """Wait until it, together with another one, has got so many messages."""
        got = 0
        for _ in range(WAIT_S * 10):
            got = self.drained() + (of.drained() if of is not None else 0)
            if got >= n:
                return got
            pause(0.1)
        raise TimeoutError(f"{got} of {n} messages within {WAIT_S} s")


@contextmanager
def _client(command: list[str]) -> Iterator[_Client]:
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield _Client(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
