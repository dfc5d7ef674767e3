"""Users of our servers with access control, as gRPC clients: what each client reports of a refusal.

A cell is `ok` if the client reports the kind of the refusal and its reason, else what it reports instead.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.interop.grpc.run import Command
from tests.interop.rights import guarded_cluster, secret_of

TOPIC, POLL_S, TIMEOUT_S = "orders", 2, 120
_RIGHTS = {
    "alice": f'produce = ["{TOPIC}"]\nconsume = ["{TOPIC}"]\ngroups = ["{TOPIC}-g"]\n',
    "reader": f'consume = ["{TOPIC}"]\ngroups = ["{TOPIC}-g"]\n',
    "writer": f'produce = ["{TOPIC}"]\n',
}
_UNAUTHORIZED, _FORBIDDEN = ("UNAUTHORIZED", "40100"), ("FORBIDDEN", "40300")
_WRONG = "access key and signature are wrong"


def users_over_grpc(program: Command) -> dict[str, str]:
    """Run a client as each kind of user; scene -> `ok`, or what the client reported."""
    with guarded_cluster(_RIGHTS, {TOPIC: 2}) as (server, _):

        def report(name: str, secret: str, *acts: str) -> str:
            command = [*_program_of_users(program, server), str(POLL_S), name, secret, *acts]
            directory = Path(program[-1]).parent if program[0] != "java" else None
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, cwd=directory
            )
            return (done.stdout.strip().splitlines() or [done.stderr.strip()[-200:]])[-1]

        return {
            "user with every right": report("alice", secret_of("alice"), "receive", "send"),
            "wrong secret": _refused(report("alice", "guessed", "send"), _UNAUTHORIZED, _WRONG),
            "unknown user": _refused(report("mallory", "guessed", "send"), _UNAUTHORIZED, _WRONG),
            "no right to send": _refused(report("reader", secret_of("reader"), "send"), _FORBIDDEN, "produce"),
            "no right to receive": _refused(report("writer", secret_of("writer"), "receive"), _FORBIDDEN, "consume"),
        }


def _refused(report: str, codes: tuple[str, ...], reason: str) -> str:
    """`ok` if a client reports one of the codes, by number or by name, and the reason."""
    return "ok" if any(code in report for code in codes) and reason in report else report[:200]


def _program_of_users(program: Command, server: str) -> Command:
    """The program beside that of the features."""
    last = program[-1]
    if last == "Features":
        return [*program[:-1], "Users", server, TOPIC]
    if last.endswith((".py", ".js")):
        return [*program[:-1], str(Path(last).with_name(f"users{Path(last).suffix}")), server, TOPIC]
    return [*program, server, TOPIC, "--user"]
