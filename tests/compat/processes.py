"""Processes of an earlier commit and of this one in one cluster: `make compat`.

Each run is a name server, two brokers and a swarm whose members join and leave, as real `rlab` processes. The swarm
says whether messages were lost and whether the group was balanced. A line for each run, and exit code 1 unless all
passed.

    servers             swarm   mode
    this commit         old     pull, pop
    old                 this    pull, pop
    old name server, one broker of each commit: a cluster that is half upgraded
                        both    pull
    this commit, a broker of which has two copies, and is handed over in the middle
                        old     pull, pop
    name servers of each commit, such a broker and an old one
                        both    pull

In addition, the directory of an old broker becomes that of a set, and the old commit has to refuse it then.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from tests.compat.checkout import ROOT, checked_out, environment
from tests.compat.recording import COMMIT

STOP_S = 20.0
HANDOVER_AT_S = 4.0
FOUND_S = 45.0
"""Duration of a swarm at a set, if its clients or a name server are old. An old client does not know NOT_MASTER, and
finds the next master when it asks for routes again, every 30 s. So does a new client that starts during the handover
and asks an old name server, which notifies no client of a changed route."""
COMMAND_S = 60.0
LISTEN = ("--listen", "127.0.0.1:0")


class Run(NamedTuple):
    """Which of its processes are of the earlier commit."""

    name: str
    name_server_is_old: bool
    brokers_are_old: tuple[bool, bool]
    swarm_is_old: bool
    mode: str
    has_set: bool = False  # broker-a is a set of two replicas


RUNS = (
    Run("old swarm, new cluster", False, (False, False), True, "pull"),
    Run("old swarm, new cluster", False, (False, False), True, "pop"),
    Run("new swarm, old cluster", True, (True, True), False, "pull"),
    Run("new swarm, old cluster", True, (True, True), False, "pop"),
    Run("old swarm, a broker of each", True, (True, False), True, "pull"),
    Run("new swarm, a broker of each", True, (True, False), False, "pull"),
    Run("old swarm, a new set", False, (False, False), True, "pull", has_set=True),
    Run("old swarm, a new set", False, (False, False), True, "pop", has_set=True),
    Run("old swarm, a new set, an old broker", True, (False, True), True, "pull", has_set=True),
    Run("new swarm, a new set, an old broker", True, (False, True), False, "pull", has_set=True),
)


def rlab(*arguments: str) -> list[str]:
    """The command line of `rlab`; the working directory decides whose it is."""
    return [sys.executable, "-m", "cli.main", *arguments, "--json"]


@contextmanager
def daemon(tree: Path, *arguments: str) -> Iterator[str]:
    """Run a server while the block runs; gives its address, which its first line has."""
    process = subprocess.Popen(rlab(*arguments), cwd=tree, env=environment(tree), stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise SystemExit(f"rlab {' '.join(arguments)} in {tree} ended before it listened; see above")
        yield str(json.loads(line)["address"])
    finally:
        process.terminate()
        process.wait(STOP_S)


def carry_out(run: Run, old: Path, seconds: float) -> tuple[bool, str]:
    """Carry out a run; returns whether it passed, and what there is to say about it."""
    trees = {True: old, False: ROOT}
    if run.has_set and (run.swarm_is_old or run.name_server_is_old):
        seconds = max(seconds, FOUND_S)
    with ExitStack() as stack:
        data = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rlab-compat-")))
        name_server = stack.enter_context(daemon(trees[run.name_server_is_old], "namesrv", *LISTEN))
        if run.has_set:
            keeper = stack.enter_context(daemon(ROOT, "namesrv", *LISTEN, "--elections", str(data / "elections")))
            name_server = f"{name_server},{keeper}"
        for name, is_old in zip("ab", run.brokers_are_old, strict=True):
            options = ("--name", f"broker-{name}", "--namesrv", name_server, "--data", str(data / name))
            copies = ("--copies", "2") if run.has_set and name == "a" else ()
            stack.enter_context(daemon(trees[is_old], "broker", *LISTEN, *options, *copies))
        if run.has_set:
            joins = ("--replica-of", "broker-a", "--namesrv", name_server, "--data", str(data / "copy"))
            stack.enter_context(daemon(ROOT, "broker", *LISTEN, *joins))
            wait_in_sync(name_server)
            # Old clients do not wait for name servers that have just started and do not know yet that it is new.
            ask("topic", "create", "swarm", "--queues", "8", "--namesrv", name_server)
        members = ("--consumers", "6", "--producers", "2", "--rate", "300", "--churn", "1")
        swarm = ("swarm", "--namesrv", name_server, "--mode", run.mode, "--duration", f"{seconds:g}", *members)
        try:
            with started(trees[run.swarm_is_old], *swarm) as running:
                if run.has_set:
                    with suppress(subprocess.TimeoutExpired):
                        running.wait(HANDOVER_AT_S)
                    ask("broker", "handover", "broker-a", "--namesrv", name_server)
                stdout, stderr = running.communicate(timeout=seconds + 60)
        except subprocess.TimeoutExpired:
            return False, "the swarm did not end"
    passed = running.returncode == 0
    return passed, _summary(stdout) if passed else f"exit code {running.returncode}\n{stdout}{stderr}"


@contextmanager
def started(tree: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A command that runs while the block runs; it is killed at the end if it has not ended."""
    running = subprocess.Popen(
        rlab(*arguments),
        cwd=tree,
        env=environment(tree),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with running:
        try:
            yield running
        finally:
            running.kill()


def ask(*arguments: str, tree: Path = ROOT, text: str = "") -> Any:
    """The document of a command, which has to succeed."""
    done = command(*arguments, tree=tree, text=text)
    if done.returncode:
        raise SystemExit(f"rlab {' '.join(arguments)} failed: {done.stderr}")
    return json.loads(done.stdout)


def command(*arguments: str, tree: Path = ROOT, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command of a tree to its end."""
    return subprocess.run(
        rlab(*arguments),
        cwd=tree,
        env=environment(tree),
        check=False,
        capture_output=True,
        text=True,
        input=text,
        timeout=COMMAND_S,
    )


def wait_in_sync(name_server: str) -> None:
    """Wait until broker-a has two replicas in sync."""
    deadline = time.perf_counter() + COMMAND_S
    while True:
        found = command("broker", "replicas", "broker-a", "--namesrv", name_server)
        if not found.returncode and [each["in_sync"] for each in json.loads(found.stdout)["replicas"]] == [True] * 2:
            return
        if time.perf_counter() > deadline:
            raise SystemExit(f"broker-a has no two replicas in sync: {found.stdout}{found.stderr}")


def carry_out_directory(old: Path) -> tuple[bool, str]:
    """Make a set of the directory of an old broker, lose that machine, and give the directory to the old commit again.

    Returns whether it passed: the set has each message of the old broker, also after its first directory is lost, old
    clients read them, and the old commit refuses both directories and leaves them as they are.
    """
    with tempfile.TemporaryDirectory(prefix="rlab-compat-") as folder, ExitStack() as stack:
        data = Path(folder)
        keeper = stack.enter_context(daemon(ROOT, "namesrv", *LISTEN, "--elections", str(data / "elections")))
        at = ("--namesrv", keeper)
        lines = sorted(f"m{n}" for n in range(200))
        of_old = ("broker", "--data", str(data / "one"), *at, *LISTEN)
        with daemon(old, *of_old):
            ask("topic", "create", "orders", *at)
            ask("produce", "orders", *at, tree=old, text="\n".join(lines))
        with daemon(ROOT, *of_old, "--copies", "2"):
            joins = ("broker", "--replica-of", "broker-a", "--data", str(data / "two"), *at, *LISTEN)
            stack.enter_context(daemon(ROOT, *joins))
            wait_in_sync(keeper)
        options = ("--group", "g", "--from", "earliest", "--count", str(len(lines)), "--timeout", "30")
        read = command("consume", "orders", *options, *at, tree=old)
        bodies = sorted(json.loads(line)["body"] for line in read.stdout.splitlines())
        stack.close()
        with daemon(old, "namesrv", *LISTEN) as lone:
            refused = [
                command("broker", "--data", str(data / name), "--namesrv", lone, *LISTEN, tree=old)
                for name in ("one", "two")
            ]
    if bodies != lines:
        return False, f"{len(bodies)} of {len(lines)} messages were read: {read.stderr}"
    if any(not each.returncode or "is in store format" not in each.stderr for each in refused):
        return False, "\n".join(f"exit code {each.returncode}: {each.stdout}{each.stderr}" for each in refused)
    return True, f"{len(lines)} messages, and refused by the old commit: {refused[0].stderr.strip()}"


def _summary(output: str) -> str:
    report: dict[str, Any] = json.loads(output.strip().splitlines()[-1])
    return ", ".join(f"{key} {report[key]}" for key in ("sent", "received", "lost", "duplicates") if key in report)


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry all runs out."""
    parser = argparse.ArgumentParser(description="Processes of an earlier commit with those of this one.")
    parser.add_argument("--commit", default=COMMIT, help="the earlier commit (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=8.0, help="duration of each swarm (default: %(default)s)")
    options = parser.parse_args(arguments)
    failed = 0
    with checked_out(options.commit) as old:
        for run in RUNS:
            passed, text = carry_out(run, old, options.seconds)
            failed += not passed
            say(f"{'passed' if passed else 'FAILED'}  {run.name:36} {run.mode:5} {text}")
        passed, text = carry_out_directory(old)
        failed += not passed
        say(f"{'passed' if passed else 'FAILED'}  {'an old directory becomes a set':36}       {text}")
    n = len(RUNS) + 1
    say(f"{'FAILED' if failed else 'PASSED'}: {n - failed} of {n} runs with commit {options.commit}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
