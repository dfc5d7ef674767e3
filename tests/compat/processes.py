"""Processes of an earlier commit and of this one in one cluster: `make compat`.

Each run is a name server, two brokers and a swarm whose members join and leave, as real `rlab` processes. The swarm
says whether messages were lost and whether the group was balanced. A line for each run, and exit code 1 unless all
passed.

    servers             swarm   mode
    this commit         old     pull, pop
    old                 this    pull, pop
    old name server, one broker of each commit: a cluster that is half upgraded
                        both    pull
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.compat.checkout import ROOT, checked_out, environment
from tests.compat.recording import COMMIT

STOP_S = 20.0


class Run(NamedTuple):
    """Which of its processes are of the earlier commit."""

    name: str
    name_server_is_old: bool
    brokers_are_old: tuple[bool, bool]
    swarm_is_old: bool
    mode: str


RUNS = (
    Run("old swarm, new cluster", False, (False, False), True, "pull"),
    Run("old swarm, new cluster", False, (False, False), True, "pop"),
    Run("new swarm, old cluster", True, (True, True), False, "pull"),
    Run("new swarm, old cluster", True, (True, True), False, "pop"),
    Run("old swarm, a broker of each", True, (True, False), True, "pull"),
    Run("new swarm, a broker of each", True, (True, False), False, "pull"),
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
    with ExitStack() as stack:
        data = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rlab-compat-")))
        listen = ("--listen", "127.0.0.1:0")
        name_server = stack.enter_context(daemon(trees[run.name_server_is_old], "namesrv", *listen))
        for name, is_old in zip("ab", run.brokers_are_old, strict=True):
            options = ("--name", f"broker-{name}", "--namesrv", name_server, "--data", str(data / name))
            stack.enter_context(daemon(trees[is_old], "broker", *listen, *options))
        members = ("--consumers", "6", "--producers", "2", "--rate", "300", "--churn", "1")
        swarm = ("swarm", "--namesrv", name_server, "--mode", run.mode, "--duration", f"{seconds:g}", *members)
        tree = trees[run.swarm_is_old]
        try:
            done = subprocess.run(
                rlab(*swarm),
                cwd=tree,
                env=environment(tree),
                timeout=seconds + 60,
                check=False,
                capture_output=True,
                text=True,
            )
        except subprocess.TimeoutExpired:
            return False, "the swarm did not end"
    passed = done.returncode == 0
    return passed, _summary(done.stdout) if passed else f"exit code {done.returncode}\n{done.stdout}{done.stderr}"


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
            say(f"{'passed' if passed else 'FAILED'}  {run.name:28} {run.mode:5} {text}")
    say(f"{'FAILED' if failed else 'PASSED'}: {len(RUNS) - failed} of {len(RUNS)} runs with commit {options.commit}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
