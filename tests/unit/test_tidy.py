"""The style that no linter knows, as tests: what CONTRIBUTING.md asks for is checked here, on every run.

Invariant: a rule is a function from one parsed file to its problems, so each is tried on a file that breaks it
(`test_a_rule_sees_...`) as well as on the tree. Exceptions to a rule stand in this file's tables, each with its reason.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.unit.source_tree import PACKAGES, PURE_MODULES, PYPROJECT, ROOT, Source, parse, shipped, sources, texts

BANNED: dict[str, dict[str, str]] = PYPROJECT["tool"]["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"]

MAX_FILE_LINES = 400
MAX_LONG_FILE_LINES = 600

# Files over MAX_FILE_LINES, each with the reason why it reads better whole. None may pass MAX_LONG_FILE_LINES.
LONG_FILES: dict[str, str] = {
    "client/admin/admin.py": "the public API of administration in one place; most of it is what each call refuses",
    "client/rebalance/member.py": "the life of a member: its start, subscriptions, failure and end share one state",
    "model/limits.py": "one table: each limit with its reason",
    "pipeline/wire.py": "one blocking client: its connections, its requests, and what it recalls",
    "remoting/connection.py": "one asyncio.Protocol: all of its callbacks share the state of one socket",
    "pipeline/replay/replay.py": "one state machine: each step of a replay schedules others",
}

MAX_FUNCTION_LINES = 60
MAX_LONG_FUNCTION_LINES = 80
LONG_FUNCTIONS = {
    "cli/servers/cluster.py cluster": "each option of a cluster is a parameter, and used once",
    "cli/servers/daemons.py broker": "each option of a broker is a parameter, and used once",
}

# The only places that may catch everything: each runs somebody else's code (a handler, a listener, a check), logs its
# traceback and must outlive it.
SUPERVISORS = {
    "remoting/server.py",
    "metrics/http.py",
    "client/instance/background.py",  # any end of a task but a shutdown ends the client, and is reported
    "client/instance/user_code.py",
    "client/listeners/listener.py",
    "client/listeners/threads.py",
    "client/push/runs.py",  # values of context variables compare themselves
    "client/rebalance/plan.py",  # strategies
    "client/transactions/checks.py",
    "model/arguments.py",  # values print themselves
    "tests/conftest.py",  # imports test files before pytest does, which reports what is wrong with one
}

# The one place that makes a task outside a group, to hold a group open from a start() to a shutdown().
TASK_HOLDER = "client/instance/background.py"

# Packages that run in the simulation, and the calls in them whose results no seed decides. All other code gets a clock,
# a generator or a file layer as an argument, so that equal seeds give equal histories.
SIMULATED = ("model", "remoting", "rocketmq", "namesrv", "broker", "client", "replica")
REAL_WORLD = {
    "broker/broker.py shutil.disk_usage": "a figure that the broker shows, and decides nothing by",
    "broker/config.py random.SystemRandom": "the default of an option",
    "broker/config.py time.time": "the default of an option",
    "broker/store/disk/files.py os.getpid": "the file layer, which a simulated broker replaces",
    "broker/store/upkeep/verify.py time.time": "a command on a data directory that no broker uses",
    "client/config.py time.time": "the default of an option",
    "client/instance/instance.py os.getpid": "the default of an option",
    "client/instance/registry.py os.getpid": "compared alone: a forked process has instances of its own",
    "namesrv/config.py random.SystemRandom": "the default of an option",
    "remoting/security/gate.py secrets.token_bytes": "compared alone, and of one length",
    "remoting/security/gate.py secrets.token_hex": "compared alone, and of one length",
    "remoting/security/login.py secrets.token_hex": "compared alone, and of one length",
    "remoting/tasks.py os.getpid": "compared alone, to refuse a client in a forked process",
}
_UNSEEDED = re.compile(
    r"os\.(getpid|getppid|urandom|times|getloadavg)|secrets\.\w+|uuid\.uuid\w+|time\.(time|monotonic|perf_counter)(_ns)?"
    r"|datetime\.\w+\.(now|utcnow|today)|random\.(?!Random$)\w+|shutil\.disk_usage|os\.f?statvfs|socket\.gethostname"
    r"|platform\.node"
)

# Source files without a test file of their own, each with what covers it instead.
COVERED_ELSEWHERE: dict[str, str] = {
    "broker/groups/outcomes.py": "records alone: tests/unit/broker/groups/test_table.py",
    "client/rebalance/ownership_acts.py": "records alone: tests/unit/client/rebalance/test_ownership_table.py",
    "client/rebalance/ownership_events.py": "records alone: tests/unit/client/rebalance/test_ownership_table.py",
    "broker/messages/refused.py": "it needs access control: tests/simulation/test_rights.py",
    "broker/store/upkeep/verify.py": "by its command: tests/unit/cli/servers/upkeep/test_verify.py",
    "cli/servers/upkeep/backup.py": "with what it calls: tests/unit/broker/store/upkeep/test_backup.py",
    "broker/durability/replicator.py": "an interface: tests/unit/broker/durability/test_replication.py",
    "broker/durability/background_sync.py": "it needs a broker: tests/unit/broker/durability/test_sync_flush.py",
    "model/access_limits.py": "numbers alone; each is tried where it holds, in tests/unit/remoting/security",
    **dict.fromkeys(("model/grpc_limits.py", "model/replica_limits.py"), "numbers alone; each is tried where it holds"),
    "replica/stream/applying.py": "the half of a replica: tests/unit/replica/stream/test_follower.py",
    "replica/stream/greeting.py": "it lets a replica in: tests/unit/replica/stream/test_follower.py",
    "replica/stream/fetching.py": "it needs a master: tests/unit/replica/stream/test_follower.py",
    "replica/stream/segments.py": "it serves a replica: tests/unit/replica/stream/test_sender.py",
    "replica/stream/session.py": "it needs a replica: tests/unit/replica/stream/test_sender.py",
    "replica/stream/sessions.py": "it needs replicas: tests/unit/replica/stream/test_sender.py",
    "replica/stream/set_keeper.py": "it needs a register: tests/unit/replica/stream/test_sender.py",
    "replica/host.py": "a replica in all its roles: tests/simulation/test_replicas.py",
    "replica/follower_role.py": "it needs a master: tests/simulation/test_replicas.py",
    "replica/master_role.py": "it needs a set: tests/simulation/test_replicas.py",
    "testbed/bench/profile/profiled.py": "by its command: tests/unit/testbed/bench/profile/test_measure.py",
    "remoting/security/tls/arrivals.py": "it needs real sockets: tests/tcp/test_tls.py",
    "remoting/security/gate.py": "it needs connections: tests/simulation/test_access.py",
    "remoting/security/tls/certificates.py": "it needs real sockets: tests/tcp/test_tls.py",
    "remoting/security/tls/trust.py": "it needs real sockets: tests/tcp/test_tls.py",
    "testbed/simulation/cluster/access.py": "keys alone: tests/simulation/test_access.py",
    "testbed/cluster/control/http.py": "one table over plane.py: test_plane.py, tests/process/test_pytest_rlab.py",
    "testbed/cluster/control/remote.py": "it asks a cluster: tests/process/test_pytest_rlab.py",
    "testbed/cluster/control/verbs.py": "with a cluster of its own: test_virtual.py, tests/process/test_pytest_rlab.py",
    "process/orders.py": "what a broker answers: tests/unit/testbed/cluster/control/test_plane.py",
    "broker/groups/faults.py": "it joins two things: tests/simulation/test_connection_faults.py",
    "testbed/simulation/kernel/duplicate.py": "half-open connections: tests/simulation/test_connection_faults.py",
    "remoting/faults/connection.py": "each verb in a cluster: tests/simulation/test_connection_faults.py",
    "remoting/faults/hook.py": "each verb in a cluster: tests/simulation/test_connection_faults.py",
    "testbed/bench/peers/systems/aiokafka_peer.py": "a Kafka broker takes 10 s: rlab bench --peers kafka",
    "testbed/bench/peers/systems/confluent_peer.py": "a Kafka broker takes 10 s: rlab bench --peers kafka",
    "testbed/bench/peers/systems/kafka_server.py": "a Kafka broker takes 10 s: rlab bench --peers kafka",
    "testbed/bench/peers/latency.py": "it only runs processes; their work is in test_side.py",
    "testbed/bench/peers/systems/protocol.py": "a protocol: each system has its test",
    "cli/testbed/fuzz.py": "it attacks a server: tests/tcp/test_attacks.py",
    "testbed/fuzz/frames.py": "it makes what a server is attacked with: tests/tcp/test_attacks.py",
    "testbed/attack/run.py": "it measures a machine for minutes: make attack",
    "testbed/cluster/rotation.py": "servers read the files again: tests/process/test_soak.py",
    "testbed/soak/run.py": "it starts a cluster: tests/process/test_soak.py",
    "testbed/soak/strangers.py": "they need servers: tests/process/test_soak.py",
    "testbed/soak/verdict.py": "its document: tests/process/test_soak.py",
    "testbed/cluster/registered.py": "it waits for brokers that start: tests/unit/testbed/demo/test_cluster.py",
    "namesrv/faults.py": "faults of a name server: tests/unit/testbed/cluster/control/test_plane.py",
    "cli/servers/doctor.py": "a thin shell of metrics/doctor: tests/tcp/test_metrics.py",
    "cli/servers/exporter.py": "a thin shell of metrics/exporter.py: tests/tcp/test_metrics.py",
    "cli/servers/watched.py": "it starts servers on real ports: tests/tcp/test_metrics.py",
    "testbed/cluster/bed_consumer.py": "a process of its own: tests/tcp/test_console.py",
    "console/changes.py": "it asks a cluster: tests/tcp/test_console.py",
    "console/lookup.py": "it asks a cluster: tests/tcp/test_console.py",
    "console/server.py": "it needs a cluster: tests/tcp/test_console.py",
    "console/testbed.py": "a protocol",
    "console/watcher.py": "it needs a cluster: tests/tcp/test_console.py",
    "metrics/broker.py": "it reads a whole broker: tests/tcp/test_metrics.py",
    "metrics/client.py": "it needs a consumer: tests/tcp/test_metrics.py",
    "metrics/doctor/snapshot.py": "records alone: tests/unit/metrics/doctor/test_rules.py",
    "metrics/doctor/problems.py": "each is planted: tests/unit/metrics/doctor/test_rules.py",
    "metrics/exporter.py": "it needs a cluster: tests/tcp/test_metrics.py",
    "metrics/name_server.py": "it reads a whole name server: tests/tcp/test_metrics.py",
    "metrics/page.py": "with the list that it prints: tests/unit/metrics/test_families.py",
    "metrics/trace_counts.py": "it needs the events of a run: tests/simulation/test_metrics.py",
    "pipeline/report/job.py": "Spark runs it: tests/spark/test_report.py",
    "pipeline/trace/chains.py": "Spark runs all of it: tests/spark/test_chains.py",
    "pipeline/trace/clocks.py": "Spark runs all of it: tests/spark/test_right_times.py",
    **{
        f"pipeline/trace/{name}.py": "Spark runs all of it: tests/spark/test_trace_tables.py"
        for name in ("events_table", "group_figures", "parts", "source", "tables")
    },
}

INSTALLERS = {".ci/run", "Dockerfile", "Makefile", "constraints.txt", "pyproject.toml"}

# Put together from halves, so that this file passes its own rules.
MARKERS = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"]) + r")\b")
MACHINE_PATHS = re.compile(r"(?<![\w.])/(work|root|home|Users)" + "/")
INDEX_OPTIONS = re.compile("--(" + "|".join(["index-" + "url", "extra-index-" + "url", "find-" + "links"]) + ")")


# ------------------------------------------------------------------------------------------------- rules on one file


def too_long(source: Source) -> Iterator[str]:
    lines, most = source.text.count("\n"), MAX_LONG_FILE_LINES if source.path in LONG_FILES else MAX_FILE_LINES
    if lines > most:
        yield f"{source.path} has {lines} lines, over {most}: split it by decision, or give LONG_FILES a reason"
    for node in source.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
            lines = node.end_lineno - node.lineno + 1
            most = MAX_LONG_FUNCTION_LINES if f"{source.path} {node.name}" in LONG_FUNCTIONS else MAX_FUNCTION_LINES
            if lines > most:
                yield f"{source.path}:{node.lineno} {node.name} has {lines} lines, over {most}"


def without_header(source: Source) -> Iterator[str]:
    if not source.path.startswith("tests/") and not ast.get_docstring(source.tree):
        yield f"{source.path} does not begin with a docstring that says what it is for"


def banned_calls(source: Source) -> Iterator[str]:
    """Uses of a banned name, however it was imported, and tasks that are made on a loop."""
    for line, name in uses(source):
        if name in BANNED:
            yield f"{source.path}:{line} {name}: {BANNED[name]['msg']}"
    for node in source.nodes:
        if source.path == TASK_HOLDER:
            continue
        if isinstance(node, ast.Attribute) and node.attr == "create_task" and "loop" in ast.unparse(node.value):
            yield f"{source.path}:{node.lineno} {ast.unparse(node)}: {BANNED['asyncio.create_task']['msg']}"


def unseeded(source: Source) -> Iterator[str]:
    """Calls whose results no seed decides, in packages that run in the simulation."""
    if source.path.startswith(tuple(f"{package}/" for package in SIMULATED)):
        for line, name in uses(source):
            if _UNSEEDED.fullmatch(name) and f"{source.path} {name}" not in REAL_WORLD:
                yield f"{source.path}:{line} {name}: no seed decides it: take an argument, or give REAL_WORLD a reason"


def blind_excepts(source: Source) -> Iterator[str]:
    """Handlers and suppressions of every exception, except in supervisors and where it is raised on, maybe renamed."""
    if source.path in SUPERVISORS:
        return
    for node in source.nodes:
        match node:
            case ast.ExceptHandler(type=kind, body=[*_, ast.Raise(exc=None)]) if catches_everything(kind):
                continue
            case ast.ExceptHandler(type=kind, name=name, body=[*_, ast.Raise(cause=ast.Name(id=cause))]) if (
                kind is not None and ast.unparse(kind) == "Exception" and cause == name
            ):
                continue
            case ast.ExceptHandler(type=kind) if catches_everything(kind):
                yield f"{source.path}:{node.lineno} catches everything: name the errors that are expected here"
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=kinds) if name.endswith("suppress"):
                if any(catches_everything(kind) for kind in kinds):
                    yield f"{source.path}:{node.lineno} suppresses everything: name the errors that are expected here"


def real_sleeps(source: Source) -> Iterator[str]:
    """Tests that wait in real time; what the simulation runs may sleep, for its clock jumps."""
    if not source.path.startswith("tests/") or source.path.startswith(("tests/tcp/", "tests/simulation/")):
        return
    aliases = imported_names(source)
    if any(name.startswith("testbed.simulation.") for name in aliases.values()):
        return
    for node in source.nodes:
        if not isinstance(node, ast.Call) or resolve(node.func, aliases) not in ("anyio.sleep", "anyio.sleep_until"):
            continue
        if not (node.args and isinstance(node.args[0], ast.Constant) and node.args[0].value == 0):
            yield f"{source.path}:{node.lineno} sleeps in real time: wait for a condition, or use the simulation"


def imported_names(source: Source) -> dict[str, str]:
    """What each imported local name stands for, e.g. {"aio": "asyncio", "nap": "time.sleep"}."""
    names: dict[str, str] = {}
    for node in source.nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                names[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.update({alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names})
    return names


def resolve(node: ast.expr, aliases: dict[str, str]) -> str:
    """The dotted name that an expression stands for; "" when it is not a plain dotted name."""
    if isinstance(node, ast.Name):
        return aliases.get(node.id, "")
    if isinstance(node, ast.Attribute):
        owner = resolve(node.value, aliases)
        return f"{owner}.{node.attr}" if owner else ""
    return ""


def uses(source: Source) -> Iterator[tuple[int, str]]:
    aliases = imported_names(source)
    for node in source.nodes:
        if isinstance(node, ast.Name | ast.Attribute) and (name := resolve(node, aliases)):
            yield node.lineno, name


def catches_everything(kind: ast.expr | None) -> bool:
    if kind is None:
        return True
    kinds = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    return any(ast.unparse(each) in ("Exception", "BaseException") for each in kinds)


Rule = Callable[[Source], Iterator[str]]
RULES: list[Rule] = [too_long, without_header, banned_calls, unseeded, blind_excepts, real_sleeps]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_file_keeps_the_rule(rule: Rule) -> None:
    problems = [problem for source in sources() for problem in rule(source)]
    assert not problems, "\n" + "\n".join(problems)


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (too_long, "\n" * (MAX_FILE_LINES + 1)),
        (too_long, "def f():\n" + "    pass\n" * MAX_FUNCTION_LINES),
        (without_header, "x = 1\n"),
        (banned_calls, "import time\ntime.monotonic()"),
        (banned_calls, "from time import sleep as nap\nnap(1)"),
        (banned_calls, "import asyncio as aio\naio.create_task(f())"),
        (banned_calls, "import asyncio\nasyncio.get_running_loop().create_task(f())"),
        (banned_calls, "self._loop.create_task(f())"),
        (unseeded, "import os\nos.getpid()"),
        (unseeded, "from random import random\nrandom()"),
        (blind_excepts, "try:\n    f()\nexcept Exception:\n    pass"),
        (blind_excepts, "try:\n    f()\nexcept (OSError, BaseException) as error:\n    raise OSError from error"),
        (blind_excepts, "try:\n    f()\nexcept:\n    pass"),
        (blind_excepts, "with contextlib.suppress(Exception):\n    f()"),
        (real_sleeps, "import anyio\nawait anyio.sleep(0.1)"),
        (real_sleeps, "from anyio import sleep\nawait sleep(pause_s)"),
    ],
)
def test_a_rule_sees_what_it_forbids(rule: Rule, text: str) -> None:
    path = "tests/unit/example.py" if rule is real_sleeps else "client/example.py"
    assert len(list(rule(parse(path, text)))) == 1


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (too_long, "def f():\n" + "    pass\n" * (MAX_FUNCTION_LINES - 1)),
        (banned_calls, "import time\nimport anyio\ntime.perf_counter()\nanyio.sleep(1)\ngroup.create_task(f())"),
        (blind_excepts, "try:\n    f()\nexcept BaseException:\n    undo()\n    raise"),
        (blind_excepts, "try:\n    f()\nexcept OSError:\n    pass"),
        (real_sleeps, "import anyio\nawait anyio.sleep(0)"),
        (real_sleeps, "import anyio\nfrom testbed.simulation.kernel.run import run_simulation\nawait anyio.sleep(60)"),
    ],
)
def test_a_rule_lets_pass_what_is_sound(rule: Rule, text: str) -> None:
    assert list(rule(parse("tests/unit/example.py", text))) == []


# ------------------------------------------------------------------------------------------------- rules on the tree


def test_no_file_holds_a_leftover_marker_a_path_of_one_machine_or_a_package_index() -> None:
    problems = [
        f"{path}:{number} {line.strip()}"
        for path, text in texts().items()
        for number, line in enumerate(text.splitlines(), 1)
        if MARKERS.search(line)
        or MACHINE_PATHS.search(line)
        or INDEX_OPTIONS.search(line)
        or (path in INSTALLERS and "://" in line)
    ]
    assert not problems, "\n" + "\n".join(problems)


@pytest.mark.parametrize(
    "line", ["see /" + "home/me/x", "(/" + "work/main)", "# TO" + "DO: later", "pip --index-" + "url x"]
)
def test_a_line_that_belongs_to_one_machine_or_is_unfinished_is_seen(line: str) -> None:
    assert any(pattern.search(line) for pattern in (MARKERS, MACHINE_PATHS, INDEX_OPTIONS))


def test_every_folder_of_code_is_shipped() -> None:
    folders = {source.path.rpartition("/")[0] for source in shipped() if "/" in source.path}
    assert {folder.replace("/", ".") for folder in folders} == set(PACKAGES)


def test_every_source_file_has_its_test_file() -> None:
    missing = []
    for source in sources():
        folder, _, name = source.path.rpartition("/")
        if folder.startswith("tests") or name == "__init__.py" or source.path in COVERED_ELSEWHERE:
            continue
        expected = f"tests/unit/{folder}/test_{name}"
        if expected not in texts():
            missing.append(f"{source.path} has no {expected}")
    assert not missing, "\n" + "\n".join(missing)


def test_every_exception_to_a_rule_is_still_needed() -> None:
    paths = {source.path for source in sources()}
    assert sorted(COVERED_ELSEWHERE.keys() - paths) == []
    lengths = {source.path: source.text.count("\n") for source in sources()}
    assert [path for path in LONG_FILES if lengths.get(path, 0) <= MAX_FILE_LINES] == []
    used = {f"{source.path} {name}" for source in sources() for _, name in uses(source)}
    assert sorted(REAL_WORLD.keys() - used) == []
    needless = [
        path for path in COVERED_ELSEWHERE if f"tests/unit/{Path(path).parent}/test_{Path(path).name}" in texts()
    ]
    assert needless == []


def test_the_import_contracts_are_kept() -> None:
    # In a process of its own: it configures logging anew, which silences every logger that there was.
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache", "--no-logo"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("module", PURE_MODULES)
def test_a_decision_never_waits(module: str) -> None:
    prefix = module.replace(".", "/")
    waits = [
        f"{source.path}:{node.lineno}"
        for source in sources()
        if source.path == f"{prefix}.py" or source.path.startswith(f"{prefix}/")
        for node in source.nodes
        if isinstance(node, ast.AsyncFunctionDef | ast.Await)
    ]
    assert waits == []
