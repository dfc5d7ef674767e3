"""Starts the servers of a test cluster as forks of one process that has imported them once.

A new Python takes 0.6 s of CPU until it is a broker, a fork a twentieth of that. So the first test of a project does
not wait, and a killed broker is back at once. Only `rlab cluster --control` uses a starter: all forks have the command
line of their parent, and people distinguish the brokers of a plain `rlab cluster` by their command lines.

    with starter() as start:                      before a loop runs and before there is any thread: a fork has neither
        process = await start([*MODULE, "rlab", "broker", ...])     as `spawn` of `process/children.py`

The starter is a process between us and its forks; no loop ever runs in it. Each request carries two descriptors: the
standard input and output of the fork, and the *report*, a pipe into which the starter writes the process id of the
fork, and its exit code when it ends. The starter ends when we end. A fork ends when its standard input is closed, as
any other child.
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
"""Modules that the starter imports before it forks."""
_MAX_REQUEST_BYTES = 16_384
_NUMBER_BYTES = 10
"""Length of each number in a report: the exit code may follow the process id at once."""
_LOST = -1
"""Stands for the exit code of a fork whose starter has ended, because it is unknown then."""


@contextmanager
def starter() -> Iterator[Start]:
    """Run a starter while the block runs; yields a function that starts a process, to be used in place of `spawn`.

    On systems without packets between processes, as macOS, it yields `spawn` itself.
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
        finally:  # after any error too: this process must not continue as a second `rlab cluster`
            os._exit(1)
    its.close()

    async def start(command: Sequence[str]) -> Process:
        return await _Fork.start(ours, command[len(MODULE) :])

    with ours:
        yield start
    os.waitpid(pid, 0)


class _Fork(Process):
    """A process that a starter has forked."""

    def __init__(self, stream: UNIXSocketStream, report: int, pid: int) -> None:
        self._stream = stream
        self._report = report  # the reading end of the pipe
        self._pid = pid
        self._code: int | None = None

    @classmethod
    async def start(cls, starter: socket.socket, module_and_arguments: Sequence[str]) -> _Fork:
        """Request a fork from a starter. Cancellation: the fork ends, because its standard input is closed."""
        ours, its = socket.socketpair()
        report, writing_end = os.pipe()
        with its:
            request = json.dumps(module_and_arguments).encode()
            socket.send_fds(starter, [request], [its.fileno(), writing_end])
        os.close(writing_end)
        os.set_blocking(report, False)
        try:
            await anyio.wait_readable(report)
            pid = int(os.read(report, _NUMBER_BYTES))
        except BaseException:  # a cancellation too: only this call can close the pipe and the socket
            os.close(report)
            ours.close()
            raise
        return cls(await UNIXSocketStream.from_socket(ours), report, pid)

    async def wait(self) -> int:
        """Wait until it has ended. Cancellation: harmless."""
        while (code := self.returncode) is None:
            await anyio.wait_readable(self._report)
        return code

    async def aclose(self) -> None:
        """Close its standard input and output, and wait until it has ended for that. Cancellation: it is killed."""
        await self._stream.aclose()
        try:
            await self.wait()
        except BaseException:  # a cancellation: do not leave a process behind
            self.kill()
            raise
        finally:
            if self._report >= 0:
                os.close(self._report)
                self._report = -1

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
        """The exit code, negative for a signal; None while it runs."""
        if self._code is None and self._report >= 0:
            try:
                self._code = int(os.read(self._report, _NUMBER_BYTES) or _LOST)
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
    os.setsid()  # signals from the terminal reach only the cluster, which stops the forks in the right order
    ended_pipe, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for module in _SERVERS:
        import_module(module)
    gc.collect()
    gc.freeze()  # a collection in a fork skips the present objects, so it does not copy their pages
    reports: dict[int, int] = {}  # process id of a fork -> the writing end of its report
    while True:
        ready, _, _ = select.select([control.fileno(), ended_pipe], [], [])
        if ended_pipe in ready:
            os.read(ended_pipe, 4096)
            _report_ends(reports)
        if control.fileno() not in ready:
            continue
        request, descriptors, _, _ = socket.recv_fds(control, _MAX_REQUEST_BYTES, 2)
        if not request:
            break
        stream, report = descriptors
        pid = os.fork()
        if not pid:
            control.close()
            for descriptor in (ended_pipe, wake, report, *reports.values()):
                os.close(descriptor)
            _become(json.loads(request), stream)
        os.close(stream)
        _write_number(report, pid)
        reports[pid] = report
    while reports:  # the forks end as well, and their parent has to wait for them
        reports.pop(os.wait()[0])
    os._exit(0)


def _report_ends(reports: dict[int, int]) -> None:
    while reports:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        report = reports.pop(pid)
        with suppress(BrokenPipeError):  # the reading end is closed: the exit code is not needed
            _write_number(report, os.waitstatus_to_exitcode(status))
        os.close(report)


def _write_number(report: int, number: int) -> None:
    os.write(report, str(number).rjust(_NUMBER_BYTES).encode())


def _become(arguments: list[str], stream: int) -> NoReturn:
    """Run the programme in this fork, as a new Python would; its standard error is the one of the cluster."""
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
    except BaseException:  # printed here, because _exit below ends the fork before Python prints it
        sys.excepthook(*sys.exc_info())
        raise
    finally:
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 0 if code is None else 1)
