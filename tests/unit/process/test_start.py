"""Signals and closed descriptors in the first moments of a process, by which nothing of a command is imported yet."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from process.start import interruptible, open_closed_descriptors, was_stopped
from tests.tcp.rlab_process import ROOT, TIMEOUT_S, environment

pytestmark = pytest.mark.process

# Sends itself the signals when the import of the commands begins: what comes next is the command as it would run.
STOPPED_EARLY = """
import os, signal, sys
sys.path.insert(0, os.getcwd())
number, count = int(sys.argv.pop(1)), int(sys.argv.pop(1))

class Stop:
    def find_spec(self, name, path=None, target=None):
        if name == "cli.main":
            for _ in range(count):
                os.kill(os.getpid(), number)

sys.meta_path.insert(0, Stop())
from rlab.__main__ import main
main()
"""


def stopped_early(number: int, count: int, *arguments: str) -> tuple[int, str, str]:
    command = [sys.executable, "-c", STOPPED_EARLY, str(int(number)), str(count), *arguments]
    done = subprocess.run(
        command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_daemon_that_is_stopped_in_its_first_moments_ends_as_one_that_was_stopped(
    tmp_path: Path, number: int
) -> None:
    found = stopped_early(number, 1, "broker", "--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0")
    assert found == (0, "", "")
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("arguments", [("topic", "list"), ("broker", "verify", "nowhere")])
def test_a_command_that_is_stopped_in_its_first_moments_fails_with_one_line(
    number: int, arguments: tuple[str, ...]
) -> None:
    assert stopped_early(number, 1, *arguments) == (1, "", "error: stopped before it was finished\n")


def test_a_second_signal_in_the_first_moments_ends_the_process_at_once() -> None:
    assert stopped_early(signal.SIGTERM, 2, "broker") == (128 + signal.SIGTERM, "", "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_both_signals_interrupt_a_command_without_an_event_loop_and_mean_afterwards_what_they_did(number: int) -> None:
    def wait() -> None:
        with interruptible():
            os.kill(os.getpid(), number)
            signal.pause()

    # A shell starts its background jobs with SIGINT ignored, which a command keeps; here the signal has to arrive.
    before = signal.signal(number, signal.SIG_DFL)
    try:
        with pytest.raises(KeyboardInterrupt):
            wait()
        assert signal.getsignal(number) == signal.SIG_DFL
        assert not was_stopped()
    finally:
        signal.signal(number, before)


def with_closed(redirection: str, *arguments: str) -> tuple[int, str, str]:
    """Run a command behind a shell that has closed a descriptor of it."""
    script = f'exec "$0" -m rlab "$@" {redirection}'
    done = subprocess.run(
        ["/bin/sh", "-c", script, sys.executable, *arguments],
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


CLOSED = "error: standard input or output is closed, and this command needs it: give it a file, or /dev/null\n"


def test_a_result_that_cannot_be_printed_because_stdout_is_closed_is_one_error(tmp_path: Path) -> None:
    assert with_closed(">&-", "key", "new", "ann", "--file", str(tmp_path / "key")) == (1, "", CLOSED)
    assert with_closed(">&-", "--version") == (1, "", CLOSED)
    assert with_closed(">&-", "namesrv", "--listen", "127.0.0.1:0") == (1, "", CLOSED)


def test_a_command_works_without_stderr_and_stdin_and_writes_no_line_into_another_file(tmp_path: Path) -> None:
    code, out, _ = with_closed("2>&- <&-", "key", "new", "ann", "--file", str(tmp_path / "key"))
    assert code == 0
    assert out.startswith("[users.")
    assert (tmp_path / "key").read_text().startswith("ann:")
    assert with_closed("2>&-", "broker", "verify", str(tmp_path))[0] == 2


def test_descriptors_that_are_open_stay_as_they_are() -> None:
    before = [os.fstat(fd) for fd in range(3)], sys.stdin, sys.stdout, sys.stderr
    open_closed_descriptors()
    assert ([os.fstat(fd) for fd in range(3)], sys.stdin, sys.stdout, sys.stderr) == before
