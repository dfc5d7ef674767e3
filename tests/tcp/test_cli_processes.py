"""What only real processes can show: daemons, signals, pipes, children."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import subprocess
import termios
from array import array
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.tcp.rlab_process import (
    TIMEOUT_S,
    Daemon,
    children,
    command,
    daemon,
    environment,
    rlab,
    rlab_json,
    stopped_cleanly,
    wait_until,
)

pytestmark = [pytest.mark.process, pytest.mark.tcp]

ANY = ("--listen", "127.0.0.1:0")


def test_messages_go_in_and_out_and_survive_a_restart_of_the_broker(tmp_path: Path) -> None:
    with stopped_cleanly("namesrv", *ANY, cwd=tmp_path) as name_server:
        at = ("--namesrv", name_server.address)
        broker = ("broker", "--name", "broker-a", "--data", "data", "--trace", "trace.jsonl", *at, *ANY)
        with stopped_cleanly(*broker, cwd=tmp_path) as running:
            recovery = running.said.pop("recovery")
            assert (recovery["scanned_records"], recovery["cut_bytes"]) == (0, 0)
            assert recovery["seconds"] > 0
            assert running.said == {"kind": "broker", "name": "broker-a", "ready": True, "address": running.address}
            created = rlab_json("topic", "create", "orders", "--queues", "2", *at, cwd=tmp_path)
            assert created["read_queues"] == 2
            lines = "".join(f"order {n}\n" for n in range(300))
            sent = rlab_json("produce", "orders", *at, cwd=tmp_path, text=lines)
            assert (sent["sent"], sent["failed"]) == (300, 0)
        with stopped_cleanly(*broker, cwd=tmp_path, number=signal.SIGINT):
            got = rlab(
                *("consume", "orders", "--group", "g", "--from", "earliest", "--count", "300", "--timeout", "30", *at),
                cwd=tmp_path,
            )
            assert got.returncode == 0, got.stderr
            assert sorted(got.stdout.splitlines()) == sorted(lines.splitlines())
            group = rlab_json("group", "show", "g", *at, cwd=tmp_path)
            assert (group["lag"], group["members"]) == (0, [])
        assert (tmp_path / "trace.jsonl").read_text().count("BROKER_UP") == 2


def test_consumers_that_are_stopped_commit_and_leave(cluster: Daemon, tmp_path: Path) -> None:
    at = ("--namesrv", cluster.address)
    rlab_json("topic", "create", "stopped", *at, cwd=tmp_path)
    consume = command(["consume", "stopped", "--group", "stopped", *at])
    files = [tmp_path / name for name in ("first", "second", "errors")]
    with ExitStack() as stack:
        first, second, errors = (stack.enter_context(path.open("w")) for path in files)
        consumers = [
            stack.enter_context(subprocess.Popen(consume, stdout=out, stderr=errors, env=environment()))
            for out in (first, second)
        ]
        wait_until(lambda: members_of_balanced("stopped", *at, cwd=tmp_path) == 2)
        rlab_json("produce", "stopped", "--count", "50", *at, cwd=tmp_path)
        wait_until(lambda: len(lines_of(files)) == 50)
        for consumer, number in zip(consumers, (signal.SIGINT, signal.SIGTERM), strict=True):
            consumer.send_signal(number)
            assert consumer.wait(TIMEOUT_S) == 0
    assert sorted(lines_of(files)) == sorted(f"message {n}" for n in range(1, 51))
    group = rlab_json("group", "show", "stopped", *at, cwd=tmp_path)
    assert (group["members"], group["lag"]) == ([], 0)


def members_of_balanced(group: str, *arguments: str, cwd: Path) -> int:
    shown = rlab("group", "show", group, *arguments, "--json", cwd=cwd)
    if shown.returncode != 0:
        return 0
    document = json.loads(shown.stdout)
    return len(document["members"]) if document["balanced"] else 0


def lines_of(files: Iterable[Path]) -> list[str]:
    return [line for path in files for line in path.read_text().splitlines()]


def test_anyone_who_has_read_enough_may_close_the_pipe(cluster: Daemon, tmp_path: Path) -> None:
    at = ("--namesrv", cluster.address)
    rlab_json("topic", "create", "piped", *at, cwd=tmp_path)
    rlab_json("produce", "piped", "--count", "50", *at, cwd=tmp_path)
    reading, writing = os.pipe()
    os.close(reading)
    consume = command(["consume", "piped", "--group", "piped", "--from", "earliest", *at])
    done = subprocess.run(
        consume, check=False, stdout=writing, stderr=subprocess.PIPE, env=environment(), text=True, timeout=TIMEOUT_S
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_consumer_whose_reader_is_stuck_can_be_stopped(cluster: Daemon, tmp_path: Path) -> None:
    at = ("--namesrv", cluster.address)
    rlab_json("topic", "create", "stuck", *at, cwd=tmp_path)
    rlab_json("produce", "stuck", "--count", "300", "--size", "1000", *at, cwd=tmp_path)
    reading, writing = os.pipe()
    consume = command(["consume", "stuck", "--group", "stuck", "--from", "earliest", *at])
    with subprocess.Popen(consume, stdout=writing, stderr=subprocess.PIPE, env=environment(), text=True) as consumer:
        wait_until(lambda: bytes_in(reading) > 60_000)
        consumer.send_signal(signal.SIGINT)
        assert consumer.wait(TIMEOUT_S) == 0
        assert consumer.stderr is not None
        assert consumer.stderr.read() == ""
    os.close(reading)
    os.close(writing)


def bytes_in(pipe: int) -> int:
    n = array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, n)
    return n[0]


def test_a_producer_that_is_stopped_says_how_far_it_came(cluster: Daemon, tmp_path: Path) -> None:
    at = ("--namesrv", cluster.address)
    rlab_json("topic", "create", "cut-short", *at, cwd=tmp_path)
    with subprocess.Popen(
        command(["produce", "cut-short", "--json", *at]),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as producer:
        assert producer.stdin is not None
        producer.stdin.write("one\ntwo\n")
        producer.stdin.flush()
        consume = ("consume", "cut-short", "--group", "g", "--from", "earliest")
        assert rlab(*consume, "--count", "2", "--timeout", "30", *at, cwd=tmp_path).returncode == 0
        producer.send_signal(signal.SIGINT)
        out, err = producer.communicate(timeout=TIMEOUT_S)
    assert producer.returncode == 1
    assert out.startswith('{"sent": 2, "failed": 0, ')
    assert err == "error: stopped before it was finished\n"


def test_a_cluster_keeps_its_messages_where_it_is_reported_and_leaves_nothing_else(tmp_path: Path) -> None:
    keep = ("cluster", "--port", "0", "--brokers", "2", "--data", "kept")
    with stopped_cleanly(*keep, "--topic", "t", "--queues", "3", cwd=tmp_path) as cluster:
        assert list(cluster.said["brokers"]) == ["broker-a", "broker-b"]
        at = ("--namesrv", cluster.address)
        assert rlab_json("topic", "list", *at, cwd=tmp_path)["topics"][0]["read_queues"] == 6
        rlab_json("produce", "t", "--count", "10", *at, cwd=tmp_path)
    with stopped_cleanly(*keep, cwd=tmp_path, number=signal.SIGINT) as cluster:
        shown = rlab_json("topic", "show", "t", "--namesrv", cluster.address, cwd=tmp_path)
        assert sum(queue["messages"] for queue in shown["queues"]) == 10
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == ["broker-a", "broker-b"]


def test_a_child_that_dies_ends_its_cluster_with_an_error(tmp_path: Path) -> None:
    with daemon("cluster", "--port", "0", "--brokers", "2", cwd=tmp_path) as cluster:
        victim = next(pid for pid, arguments in children(cluster.process.pid) if "broker-b" in arguments)
        os.kill(victim, signal.SIGKILL)
        assert cluster.process.wait(TIMEOUT_S) == 1
        assert "error: broker-b ended by itself (exit code -9)" in cluster.stderr
        assert "Traceback" not in cluster.stderr
        assert children(cluster.process.pid) == []
        assert list(tmp_path.glob("rlab-*")) == []


def test_a_child_that_cannot_start_ends_its_cluster_with_its_own_words(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = rlab("cluster", "--port", str(taken.getsockname()[1]), cwd=tmp_path)
    assert done.returncode == 1
    complaint, consequence = done.stderr.splitlines()
    assert complaint.startswith("error: cannot listen on 127.0.0.1:")
    assert consequence == "error: namesrv did not start (exit code 2)"


def test_the_children_of_a_cluster_that_is_killed_stop_by_themselves(tmp_path: Path) -> None:
    with daemon("cluster", "--port", "0", "--brokers", "1", cwd=tmp_path) as cluster:
        pids = [pid for pid, _ in children(cluster.process.pid)]
        assert len(pids) == 2
        assert cluster.signal(signal.SIGKILL) == -signal.SIGKILL
        for pid in pids:
            wait_gone(pid)


def test_a_second_broker_on_one_directory_or_port_is_reported_so_and_the_first_goes_on(tmp_path: Path) -> None:
    first = ("broker", "--data", "data", "--namesrv", "127.0.0.1:1")
    with stopped_cleanly(*first, *ANY, cwd=tmp_path) as running:
        second = rlab(*first, *ANY, cwd=tmp_path)
        assert second.returncode == 2
        assert f"is in use by process {running.process.pid}: stop it, or give this broker its own" in second.stderr
        third = rlab("broker", "--data", "other", "--listen", running.address, cwd=tmp_path)
        assert third.returncode == 2
        assert f"error: cannot listen on {running.address}" in third.stderr
        with socket.create_connection(parse(running.address)) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            connection.settimeout(TIMEOUT_S)
            while connection.recv(4096):
                pass
        refused = rlab("topic", "list", "--namesrv", running.address, cwd=tmp_path)
        assert refused.returncode == 2
        assert f"error: {running.address} is broker 'broker-a', not a name server" in refused.stderr


def parse(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


def wait_gone(pid: int) -> None:
    """Wait until a process that is not our child has ended."""
    wait_until(lambda: subprocess.run(["ps", "-p", str(pid)], stdout=subprocess.DEVNULL, check=False).returncode != 0)
