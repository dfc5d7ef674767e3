"""Users of our servers with access control, as gRPC clients: what each client reports of a refusal.

A cell is `ok` if the error of the client has the kind of the refusal and its reason. The clients for Python and Node.js
lose both when a route is refused, and have them in their logs.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

from tests.interop.grpc.run import Command
from tests.interop.rights import guarded_cluster, secret_of

TOPIC, POLL_S, TIMEOUT_S = "orders", 2, 60
IN_LOG = "in its log only"
"""A cell whose client does report the refusal, in another place."""
_GROUP = f'groups = ["{TOPIC}-g"]\n'
_RIGHTS = {
    "alice": f'produce = ["{TOPIC}"]\nconsume = ["{TOPIC}"]\n{_GROUP}',
    "reader": f'consume = ["{TOPIC}"]\n{_GROUP}',
    "writer": f'produce = ["{TOPIC}"]\n{_GROUP}',
    "guest": f'consume = ["{TOPIC}"]\n',
}
_UNAUTHORIZED, _FORBIDDEN = ("UNAUTHORIZED", "40100"), ("FORBIDDEN", "40300")
_WRONG = "access key and signature are wrong"


def users_over_grpc(program: Command) -> dict[str, str]:
    """Run a client as each kind of user; scene -> `ok`, or what the client reported."""
    with guarded_cluster(_RIGHTS, {TOPIC: 2}) as (server, _):
        command = [*_program_of_users(program, server), str(POLL_S)]
        return {
            "access: every right": _report([*command, "alice", secret_of("alice"), "receive", "send"])[0],
            "access: wrong secret": _refusal([*command, "alice", "guessed", "send"], _UNAUTHORIZED, _WRONG),
            "access: unknown user": _refusal([*command, "mallory", "guessed", "send"], _UNAUTHORIZED, _WRONG),
            "access: no right to send": _refusal(
                [*command, "reader", secret_of("reader"), "send"], _FORBIDDEN, f"produce '{TOPIC}'"
            ),
            "access: no right to receive": _refusal(
                [*command, "writer", secret_of("writer"), "receive"], _FORBIDDEN, f"consume '{TOPIC}'"
            ),
            "access: no right to the group": _refusal(
                [*command, "guest", secret_of("guest"), "receive"], _FORBIDDEN, f"groups '{TOPIC}-g'"
            ),
        }


def _refusal(command: Command, codes: tuple[str, ...], reason: str) -> str:
    """`ok` if a client reports one of the codes, by number or by name, and the reason."""
    report, log = _report(command)
    for text, cell in ((report, "ok"), (log, IN_LOG)):
        if any(code in text for code in codes) and reason in text:
            return cell
    return report[:200]


def _report(command: Command) -> tuple[str, str]:
    """Run a client; return the last line that it reports, and its log."""
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "HOME": home}
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, cwd=home, env=environment
            )
            report = (done.stdout.strip().splitlines() or [done.stderr.strip()[-200:]])[-1]
        except subprocess.TimeoutExpired:
            report = f"no report within {TIMEOUT_S} s"
        log = "\n".join(path.read_text(errors="replace") for path in Path(home).rglob("*.log"))
    return report, log


def _program_of_users(program: Command, server: str) -> Command:
    """The program beside that of the features."""
    last = program[-1]
    if last == "Features":
        return [*program[:-1], "Users", server, TOPIC]
    if last.endswith((".py", ".js")):
        return [*program[:-1], str(Path(last).with_name(f"users{Path(last).suffix}")), server, TOPIC]
    return [*program, server, TOPIC, "--user"]
