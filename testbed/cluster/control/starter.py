"""Starts the servers of a test cluster as forks of one process that has imported them once.

A new Python takes 0.6 s of CPU until it is a broker, and a fork a twentieth of that: so the first test of a
project does not wait, and a broker that a test has killed is back at once. Only `rlab cluster --control` does it: a
fork has the command line of its parent, by which people tell the brokers of a plain `rlab cluster` apart.

    with starter() as start:                      before a loop runs and before there is any thread: both end in a fork
        process = await start([*MODULE, "rlab", "broker", ...])     as `spawn` of `process/children.py`

The starter is a process between us and its forks, in which no loop ever runs. With each request it gets the
descriptors of the fork: of its standard input and output, and of a pipe into which the starter writes its process id,
and its exit code when it ends. It ends when we do, and a fork when its standard input is closed, as any other child.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import select
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import NoReturn

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, Process, UNIXSocketStream

from process.children import MODULE, Start, spawn

_SERVERS = ("broker.broker", "broker.groups.faults", "namesrv.server")
"""What forks find imported."""
_MAX_REQUEST_BYTES = 16_384
_NUMBER_BYTES = 10
"""Each number in that pipe has so many: the exit code may follow the process id at once."""
_LOST = -1
"""The exit code of a fork whose starter has ended, so that nobody knows."""


@contextmanager
def starter() -> Iterator[Start]:
    """Run a starter while the block runs; yields what starts a process in the place of `spawn`.

    Where the system has no packets between processes, which macOS lacks, that is `spawn` itself.
    """
    if not sys.platform.startswith("linux"):
        yield spawn
        return
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        ours.close()
        try:
            _serve(its)
        finally:  # whatever happened: this process must not go on as a second `rlab cluster`
            os._exit(1)
    its.close()

    async def start(command: Sequence[str]) -> Process:
        return await _Fork.start(ours, command[len(MODULE) :])

    with ours:
        yield start
    os.waitpid(pid, 0)


class _Fork(Process):
    """A process that a starter has forked."""

    def __init__(self, stream: UNIXSocketStream, told: int, pid: int) -> None:
        self._stream = stream
        self._told = told  # the reading end of the pipe into which its exit code comes
        self._pid = pid
        self._code: int | None = None

    @classmethod
    async def start(cls, starter: socket.socket, module_and_arguments: Sequence[str]) -> _Fork:
        """Ask a starter for a fork. Cancellation: it ends, as its standard input is closed."""
        ours, its = socket.socketpair()
        told, tells = os.pipe()
        with its:
            request = json.dumps(module_and_arguments).encode()
            socket.send_fds(starter, [request], [its.fileno(), tells])
        os.close(tells)
        os.set_blocking(told, False)
        try:
            await anyio.wait_readable(told)
            pid = int(os.read(told, _NUMBER_BYTES))
        except BaseException:  # a cancellation too: nobody else knows of the pipe and the socket
            os.close(told)
            ours.close()
            raise
        return cls(await UNIXSocketStream.from_socket(ours), told, pid)

    async def wait(self) -> int:
        """Wait until it has ended. Cancellation: harmless."""
        while (code := self.returncode) is None:
            await anyio.wait_readable(self._told)
        return code

    async def aclose(self) -> None:
        """Close its standard input and output, by which it ends, and wait for that. Cancellation: it is killed."""
        await self._stream.aclose()
        try:
            await self.wait()
        except BaseException:  # a cancellation: whoever waits no longer leaves no process behind
            self.kill()
            raise
        finally:
            if self._told >= 0:
                os.close(self._told)
                self._told = -1

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def send_signal(self, signal: signal.Signals) -> None:
        if self.returncode is None:
            os.kill(self._pid, signal)

    @property
    def pid(self) -> int:
        return self._pid

    @property
    def returncode(self) -> int | None:
        """Its exit code, and the number of a signal below 0; None while it runs."""
        if self._code is None and self._told >= 0:
            try:
                self._code = int(os.read(self._told, _NUMBER_BYTES) or _LOST)
            except BlockingIOError:
                return None
        return self._code

    @property
    def stdin(self) -> ByteSendStream | None:
        return self._stream

    @property
    def stdout(self) -> ByteReceiveStream | None:
        return self._stream

    @property
    def stderr(self) -> ByteReceiveStream | None:
        return None


# --- in the starter --------------------------------------------------------------------------------------------------


def _serve(control: socket.socket) -> NoReturn:
    """Fork for each request, until the other end is closed."""
    os.setsid()  # a signal from the terminal is for the cluster, which stops the forks in the right order
    ended, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for module in _SERVERS:
        import_module(module)
    gc.collect()
    gc.freeze()  # what is there now stays: no collection of a fork looks at it, or copies its pages by that
    tellers: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([control.fileno(), ended], [], [])
        if ended in ready:
            os.read(ended, 4096)
            _tell_ends(tellers)
        if control.fileno() not in ready:
            continue
        request, descriptors, _, _ = socket.recv_fds(control, _MAX_REQUEST_BYTES, 2)
        if not request:
            break
        stream, tells = descriptors
        pid = os.fork()
        if not pid:
            control.close()
            for descriptor in (ended, wake, tells, *tellers.values()):
                os.close(descriptor)
            _become(json.loads(request), stream)
        os.close(stream)
        _tell(tells, pid)
        tellers[pid] = tells
    while tellers:  # they end as well, and somebody has to wait for them
        tellers.pop(os.wait()[0])
    os._exit(0)


def _tell_ends(tellers: dict[int, int]) -> None:
    while tellers:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        tells = tellers.pop(pid)
        with suppress(BrokenPipeError):  # nobody wants to know any more
            _tell(tells, os.waitstatus_to_exitcode(status))
        os.close(tells)


def _tell(tells: int, number: int) -> None:
    os.write(tells, str(number).rjust(_NUMBER_BYTES).encode())


def _become(arguments: list[str], stream: int) -> NoReturn:
    """Be the programme that a new Python would be; its standard error is that of the cluster."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    os.dup2(stream, 0)
    os.dup2(stream, 1)
    os.close(stream)
    sys.argv = arguments
    code: object = 1
    try:
        module = import_module(arguments[0])
        if hasattr(module, "__path__"):  # a package runs as `python -m` does it
            module = import_module(f"{arguments[0]}.__main__")
        module.main()
        code = 0
    except SystemExit as end:
        code = end.code
    except BaseException:  # told here, because _exit below ends the fork before Python tells
        sys.excepthook(*sys.exc_info())
        raise
    finally:
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 0 if code is None else 1)
