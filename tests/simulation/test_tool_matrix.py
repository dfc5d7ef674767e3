"""Each tool in each state of a cluster: its exit code, and words that its answer must and must not have.

One simulated cluster per state. What a tool has to answer was written down before the run: a row below is a claim about
the tool, and not a record of what it did. Cells of Spark are in `tests/spark/test_absent_broker.py`.

A swarm runs on the cluster in its state. It reads no trace and has a group of its own, so the states of a trace or of
another group are no states of a swarm.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import anyio
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from cli.testbed.swarm import summary_document
from cli.trace.events import read_topic
from client.admin.admin import Admin
from client.allocate.registry import strategy_named
from console.watcher import watching
from metrics.exporter import follow_trace, make_counts
from model.event_log import encode_events
from model.events import Event
from testbed.simulation.cluster.cluster import SimulatedCluster
from testbed.swarm.members import SwarmOptions, run_swarm
from testbed.swarm.observer import SwarmObserver
from tests.simulation.conftest import Simulate
from tests.simulation.terminal import Terminal, terminal_of
from tests.simulation.tool_states import (
    GROUP,
    all_well,
    broker_back,
    broker_clock_stepped,
    broker_gone_for_good,
    broker_killed,
    client_2_s_ahead,
    client_a_day_ahead,
    empty_group,
    group_that_pops,
    head_of_the_trace_gone,
    member_cut_off,
    member_killed,
    name_server_gone,
    topic_recreated,
)

pytestmark = pytest.mark.simulation


class Cell(NamedTuple):
    """What one tool answers in one state; a word that begins with `-` must not occur."""

    tool: str
    exit_code: int
    words: tuple[str, ...]


def cell(tool: str, exit_code: int, *words: str) -> Cell:
    return Cell(tool, exit_code, words)


# --- the tools --------------------------------------------------------------------------------------------------------

OF_THE_END = {
    "check of the end": ("check", "{}"),
    "history of the end": ("group", "history", GROUP, "--trace", "{}"),
    "why of the end": ("group", "why", "orders", "broker-b:0", "--trace", "{}"),
    "report of the end": ("report", "{}", "--out", "{}.report"),
}
"""Tools at the second half of a trace: its head is gone, as after retention."""
COMMANDS = {
    "check": ("check",),
    "why": ("group", "why", "orders", "broker-b:0"),
    "history": ("group", "history", GROUP),
    "group show": ("group", "show", GROUP),
    "group list": ("group", "list"),
    "doctor": ("doctor",),
    "topic show": ("topic", "show", "orders"),
}


async def answer_of(tool: str, cluster: SimulatedCluster, terminal: Terminal, folder: Path) -> tuple[int, str]:
    """Exit code and text of a tool."""
    if tool in COMMANDS:
        result = await terminal.type(*COMMANDS[tool])
        return result.exit_code, result.stdout + result.stderr
    servers = ",".join(cluster.addresses)
    if tool in OF_THE_END:
        reported: list[Event] = []
        with cluster.simulation.on_host("operator"):
            await read_topic(servers, reported.append)
        trace = folder / "end.jsonl"
        trace.write_bytes(encode_events(reported[len(reported) // 2 :]))
        result = await terminal.type(*(word.format(trace) for word in OF_THE_END[tool]))
        return result.exit_code, result.stdout + result.stderr
    with cluster.simulation.on_host("operator"):
        if tool == "report":
            read: list[Event] = []
            await read_topic(servers, read.append)
            (folder / "trace.jsonl").write_bytes(encode_events(read))
        elif tool == "exporter":
            return 0, await exported(servers, cluster)
        elif tool == "swarm":
            return 0, await swarm_summary(servers, cluster)
        else:
            return 0, await on_page(servers, cluster)
    result = await terminal.type("report", str(folder / "trace.jsonl"), "--out", str(folder / "report"))
    return result.exit_code, result.stdout + result.stderr


async def exported(servers: str, cluster: SimulatedCluster) -> str:
    registry = CollectorRegistry()
    with anyio.move_on_after(5):
        await follow_trace(servers, make_counts(registry), clock_ms=cluster.simulation.clock_ms)
    return generate_latest(registry).decode()


async def on_page(servers: str, cluster: SimulatedCluster) -> str:
    """The documents of the console's API about the cluster and the group."""
    async with (
        anyio.create_task_group() as tasks,
        watching(servers, "e", tasks, cluster.simulation.clock_ms) as watcher,
        watcher.watch(None) as whole,
        watcher.watch(GROUP) as group,
    ):
        await anyio.sleep(3)
        documents = [watcher.cluster_document(whole), watcher.group_document(GROUP, group)]
        tasks.cancel_scope.cancel()
    return "\n".join(json.dumps(document) for document in documents)


async def swarm_summary(servers: str, cluster: SimulatedCluster) -> str:
    """The summary of a swarm on the host whose clock is wrong, if that of a client is."""
    observer = SwarmObserver("swarm", "orders", strategy_named("AVG"))
    clock_ms = cluster.clock_of("c1")
    async with Admin(servers) as admin:
        route = await admin.route("orders")
    observer.set_queues(route.subscribe_queues(), clock_ms())
    options = SwarmOptions(
        name_servers=servers,
        topic="orders",
        group="swarm",
        prefix="s",
        run=1,
        consumers=3,
        rate=50.0,
        clock_ms=clock_ms,
    )
    async with run_swarm(options, observer) as swarm:
        swarm.start_producing()
        await anyio.sleep(5)
        await swarm.fall_quiet()
        await anyio.sleep(1)
        before = observer.summary()
    return json.dumps(summary_document(observer.final(before)))


# --- the matrix -------------------------------------------------------------------------------------------------------

GONE = "broker broker-a at broker-a:10911 closed its connection"
MISSING = "the part of the trace that is on broker-a is missing"

SWARM_PASSED = ('"verdict": "passed"', '"lost": 0', '"unread": 0', '"double_owner_ms": 0.0', '"broken": []')
COUNTED = tuple(
    f'rlab_cluster_group_{figure}{{group="{GROUP}"}} {n}'
    for figure, n in (
        ("moves_total", 4.0 + 2.0 + 1.0 + 1.0),  # the first member gets four queues; a second, and a third that leaves
        ("messages_handed_out_total", 40.0),
        ("double_owner_seconds_total", 0.0),
    )
)
"""What happens in `some_life`, as counted by an exporter that has all events."""

MATRIX: dict[Callable[[SimulatedCluster], Awaitable[None]], tuple[Cell, ...]] = {
    all_well: (
        cell("check", 0, "Yes: ", "-missing", "-unknown"),
        cell("why", 0, "first pull", "-incomplete"),
        cell("history", 0, "c4@4 started", "c4@4 stopped", "-incomplete"),
        cell("group show", 0, "converged", "-away", "-not converged"),
        cell("group list", 0, GROUP, "-missing"),
        cell("doctor", 0, "no problems", "-note:"),
        cell("topic show", 0, "40 messages in 4 queues", "-away"),
        cell("report", 0, f"group {GROUP}", "-incomplete"),
        cell("exporter", 0, "rlab_exporter_brokers_missing 0.0", f'rlab_cluster_group_members{{group="{GROUP}"}} 2.0'),
        cell("console", 0, '"balanced": true', '"away": []', '"problems": []', "-is away"),
        cell("swarm", 0, *SWARM_PASSED),
    ),
    head_of_the_trace_gone: (
        cell("check of the end", 0, "Yes: ", "-double-owner:", "-orphan:", "-uncaused-move:", "-poll-skip:"),
        cell("history of the end", 0, "c4@4 stopped", "-c1@1 started"),
        cell("why of the end", 1, "the trace has no move of orders@broker-b:0: it may be older"),
        cell("report of the end", 0, f"group {GROUP}"),
    ),
    broker_killed: (
        cell("check", 3, "Unknown: ", MISSING, GONE, "-Yes"),
        # Clients send their events to the first broker, so what moved the queue is not in the rest.
        cell("why", 1, "the trace has no move of orders@broker-b:0", f"but {MISSING}", GONE),
        cell("history", 0, f"incomplete: {MISSING}", GONE),
        cell("group show", 0, "orders@broker-a:0", "away", f"3 queues are away: {GONE}", "but for the queues"),
        cell("group list", 0, GROUP, f"groups that only an absent broker knows are missing: {GONE}"),
        cell("doctor", 1, "broker-away: broker broker-a", "its part of the trace is missing", "rlab broker forget"),
        cell("topic show", 0, f"2 queues are away: {GONE}"),
        cell("exporter", 0, "rlab_exporter_brokers_missing 1.0"),
        cell("console", 0, "orders@broker-a:0", f"{GONE} without unregistering", '"away": true', '-"problems": []'),
        cell("swarm", 0, *SWARM_PASSED),
    ),
    broker_gone_for_good: (
        cell("check", 3, "Unknown: ", MISSING, GONE, "-Yes"),
        cell("group show", 0, "converged, but for the queues that are away", f"3 queues are away: {GONE}"),
        cell("doctor", 1, "broker-away: broker broker-a", "-queues-without-owner", "1 problem;"),
        cell("console", 0, "orders@broker-a:0", f"{GONE} without unregistering"),
    ),
    broker_back: (
        cell("check", 0, "Yes: ", "-missing:"),
        cell("why", 0, "-incomplete"),
        cell("history", 0, "-incomplete"),
        cell("group show", 0, "converged", "-away"),
        cell("group list", 0, GROUP, "-missing"),
        cell("doctor", 0, "no problems"),
        cell("topic show", 0, "40 messages in 4 queues", "-away"),
        cell("exporter", 0, "rlab_exporter_brokers_missing 0.0"),
        cell("console", 0, '"balanced": true', '"away": []', '"problems": []'),
        cell("swarm", 0, *SWARM_PASSED),
    ),
    name_server_gone: (
        cell("check", 0, "Yes: ", "-missing"),
        cell("why", 0, "-incomplete"),
        cell("group show", 0, "converged", "-away"),
        cell("doctor", 1, "name-server-away: name server namesrv-2:9876", "-broker-away", "1 problem;"),
        cell("exporter", 0, "rlab_exporter_brokers_missing 0.0"),
        cell("console", 0, '"balanced": true', '"away": []'),
        cell("swarm", 0, *SWARM_PASSED),
    ),
    client_2_s_ahead: (
        cell("check", 0, "Yes: ", "-double-owner:", "-poll-skip:", "-lost-write:"),
        cell("group show", 0, "converged", "-not converged"),
        cell("report", 0, f"group {GROUP}"),
        cell("doctor", 1, "clocks-apart: client c1@1", "2 s ahead", "-group-restless", "1 problem;"),
        cell("exporter", 0, *COUNTED),
        cell("console", 0, '"balanced": true', "The clock of c1@1 is 2 s ahead: its times are corrected."),
        cell("swarm", 0, *SWARM_PASSED),
    ),
    client_a_day_ahead: (
        cell("check", 0, "Yes: ", "-double-owner:", "-poll-skip:", "-lost-write:"),
        cell("group show", 0, "converged", "-not converged"),
        cell("report", 0, f"group {GROUP}"),
        cell("doctor", 1, "clocks-apart: client c1@1", "-group-restless", "1 problem;"),
        cell("exporter", 0, *COUNTED),
        cell("console", 0, '"balanced": true', "The clock of c1@1 is 24 h ahead: its times are corrected."),
        cell("swarm", 0, *SWARM_PASSED),
    ),
    broker_clock_stepped: (
        cell("check", 0, "Yes: ", "-double-owner:", "-poll-skip:", "-lost-write:"),
        cell("group show", 0, "converged"),
        cell("doctor", 1, "clocks-apart: broker broker-a", "5.0 s ahead"),
        cell("swarm", 0, *SWARM_PASSED),
    ),
    member_killed: (
        cell("check", 0, "Yes: ", "-double-owner:"),
        cell("why", 0, "-incomplete"),
        cell("history", 0, "-incomplete"),
        cell("group show", 0, "converged"),
        cell("doctor", 0, "no problems"),
        cell("exporter", 0, f'rlab_cluster_group_members{{group="{GROUP}"}} 1.0'),
        cell("console", 0, '"balanced": true', '"members": 1'),
    ),
    member_cut_off: (
        cell(
            "group show",
            0,
            "3 queues are owned by members that do not answer",
            "c1@1 does not answer (",
            "-; converged",
        ),
        cell("console", 0, '"balanced": false', "c1@1 does not answer", "c1@1 does not answer: no heartbeat for "),
    ),
    group_that_pops: (
        # Nobody owns a queue, so no rule has anything to judge: that is no yes.
        cell("check", 3, "nothing in the history to judge", "-Yes", "-No:"),
        cell("group show", 0, "members pop messages, so queues have no owners"),
        cell("group list", 0, GROUP),
        cell("doctor", 0, "no problems"),
        cell(
            "report", 0, "No member owned a queue, as in a group that pops", "2 members joined", "-no member of a group"
        ),
        cell("console", 0, '"balanced": true', '"mode": "pop"'),
    ),
    empty_group: (
        cell("check", 0, "Yes: ", "-orphan:"),
        cell("group show", 0, f"group {GROUP} has no members", "no members"),
        cell("group list", 0, GROUP),
        cell("doctor", 0, "no problems"),
        cell("exporter", 0, f'rlab_cluster_group_members{{group="{GROUP}"}} 0.0'),
        cell("console", 0, '"members": 0'),
    ),
    topic_recreated: (
        cell("check", 0, "Yes: ", "-nonmonotonic-commit:", "-poll-skip:", "-lost-write:"),
        cell("group show", 0, "lag 0; converged"),
        cell("doctor", 0, "no problems"),
        cell("topic show", 0, "20 messages in 4 queues"),
        cell("swarm", 0, *SWARM_PASSED),
    ),
}


@pytest.mark.parametrize("state", MATRIX, ids=lambda state: str(state.__name__))
def test_every_tool_is_right_in_this_state(
    state: Callable[[SimulatedCluster], Awaitable[None]], simulate: Simulate, tmp_path: Path
) -> None:
    async def scenario(cluster: SimulatedCluster) -> list[str]:
        await state(cluster)
        wrong = []
        with terminal_of(cluster) as terminal:
            for tool, exit_code, words in MATRIX[state]:
                code, text = await answer_of(tool, cluster, terminal, tmp_path)
                faults = [] if code == exit_code else [f"exit code {code} and not {exit_code}"]
                faults += [f"lacks {word!r}" for word in words if not word.startswith("-") and word not in text]
                faults += [f"has {word[1:]!r}" for word in words if word.startswith("-") and word[1:] in text]
                if faults:
                    wrong.append(f"{tool}: {'; '.join(faults)}, in\n{text}")
        return wrong

    wrong = simulate(scenario, trace=True, name_servers=2)
    assert not wrong, "\n".join(wrong)
