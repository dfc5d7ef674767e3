"""Brokers with copies as real processes: a master is lost with its disk, and another one is elected."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from tests.tcp.rlab_process import children, daemon, rlab, rlab_json, stopped_cleanly, wait_until

pytestmark = [pytest.mark.process, pytest.mark.tcp]

ANY = ("--listen", "127.0.0.1:0")


def in_sync(at: tuple[str, str], cwd: Path) -> list[int]:
    """Ids of the replicas of broker-a that are in sync; none while nobody answers."""
    shown = rlab("broker", "replicas", "broker-a", *at, "--json", cwd=cwd)
    if shown.returncode != 0:
        return []
    document: Any = json.loads(shown.stdout)
    return [each["replica_id"] for each in document["replicas"] if each["in_sync"]]


def test_messages_outlive_the_disk_of_their_master(tmp_path: Path) -> None:
    with stopped_cleanly("namesrv", *ANY, "--elections", "elections", cwd=tmp_path) as name_server:
        at = ("--namesrv", name_server.address)
        lines = [f"order {n}" for n in range(600)]
        with daemon("broker", "--copies", "2", "--data", "one", *at, *ANY, cwd=tmp_path) as first:
            assert (first.said["name"], first.said["role"], first.said["replica_id"]) == ("broker-a", "master", 1)
            joins = ("broker", "--replica-of", "broker-a", "--elect", "operator", *at, *ANY)
            with stopped_cleanly(*joins, "--data", "two", "--metrics", "127.0.0.1:0", cwd=tmp_path) as second:
                assert second.said["role"] == "following"
                wait_until(lambda: in_sync(at, tmp_path) == [1, 2])
                rlab_json("topic", "create", "orders", "--queues", "2", *at, cwd=tmp_path)
                assert rlab_json("produce", "orders", *at, cwd=tmp_path, text="\n".join(lines))["failed"] == 0
                refused = rlab("broker", "elect", "broker-a", "--replica", "2", *at, cwd=tmp_path)
                assert (refused.returncode, refused.stderr.count("answers: hand over")) == (1, 1)
                first.signal(signal.SIGKILL)
                shutil.rmtree(tmp_path / "one")
                elected = rlab_json("broker", "elect", "broker-a", "--replica", "2", *at, cwd=tmp_path)
                assert (elected["master"], elected["epoch"]) == (2, 2)
                got = rlab(
                    *("consume", "orders", "--group", "g", "--from", "earliest", "--count", "600", "--timeout", "30"),
                    *at,
                    cwd=tmp_path,
                )
                assert sorted(got.stdout.splitlines()) == sorted(lines)
                with urlopen(f"http://{second.said['metrics']}/metrics", timeout=10) as page:
                    metrics = page.read().decode()
                assert 'rlab_replica_role{role="master"} 1.0' in metrics
                assert "rlab_replicas_in_sync 1.0" in metrics
                with stopped_cleanly(*joins, "--data", "three", cwd=tmp_path) as third:
                    assert third.said["replica_id"] == 3
                    wait_until(lambda: in_sync(at, tmp_path) == [2, 3])
                    forgotten = rlab_json("broker", "forget", "broker-a", "--replica", "1", *at, cwd=tmp_path)
                    assert forgotten["left"] == [2, 3]
                    handed = rlab_json("broker", "handover", "broker-a", "--to", "3", *at, cwd=tmp_path)
                    assert (handed["master"], handed["epoch"]) == (3, 3)
                    assert rlab_json("produce", "orders", "--count", "5", *at, cwd=tmp_path)["failed"] == 0


def test_a_set_whose_master_is_killed_serves_on_without_an_operator(tmp_path: Path) -> None:
    with stopped_cleanly("namesrv", *ANY, "--elections", "elections", cwd=tmp_path) as name_server:
        at = ("--namesrv", name_server.address)
        lines = [f"order {n}" for n in range(20)]
        start = ("--replica-lease", "1.5", "--elect", "fast", *at, *ANY)
        with daemon("broker", "--copies", "2", "--data", "one", *start, cwd=tmp_path) as first:
            joins = ("broker", "--replica-of", "broker-a", "--elect", "fast", "--data", "two", *at, *ANY)
            with stopped_cleanly(*joins, cwd=tmp_path):
                wait_until(lambda: in_sync(at, tmp_path) == [1, 2])
                rlab_json("topic", "create", "orders", "--queues", "2", *at, cwd=tmp_path)
                assert rlab_json("produce", "orders", *at, cwd=tmp_path, text="\n".join(lines))["failed"] == 0
                first.signal(signal.SIGKILL)
                assert rlab_json("produce", "orders", "--count", "5", *at, cwd=tmp_path)["failed"] == 0
                got = rlab(
                    *("consume", "orders", "--group", "g", "--from", "earliest", "--count", "25", "--timeout", "30"),
                    *at,
                    cwd=tmp_path,
                )
                assert set(got.stdout.splitlines()) >= set(lines)
                [row] = rlab_json("elections", "show", *at, cwd=tmp_path)["sets"]
                assert (row["master"], row["in_sync"], row["lease_ms"]) == (2, [2], 1_500)


def test_a_directory_that_does_not_belong_to_the_set_is_refused(tmp_path: Path) -> None:
    with stopped_cleanly("namesrv", *ANY, cwd=tmp_path) as plain:
        without = rlab("broker", "--copies", "2", "--namesrv", plain.address, *ANY, cwd=tmp_path)
        assert (without.returncode, without.stderr.count("--elections DIR")) == (2, 1)
    with stopped_cleanly("namesrv", *ANY, "--elections", "elections", cwd=tmp_path) as name_server:
        at = ("--namesrv", name_server.address)
        first = ("broker", "--copies", "2", "--data", "one", *at, *ANY)
        with stopped_cleanly(*first, cwd=tmp_path):
            twice = rlab(*first, cwd=tmp_path)
            assert (twice.returncode, twice.stderr.count("is in use by")) == (2, 1)
            other = rlab("broker", "--copies", "2", "--data", "other", *at, *ANY, cwd=tmp_path)
            assert (other.returncode, other.stderr.count("has a set broker-a already")) == (2, 1)
            unknown = rlab("broker", "--replica-of", "broker-z", "--data", "z", *at, *ANY, cwd=tmp_path)
            assert (unknown.returncode, unknown.stderr.count("has no set broker-z")) == (2, 1)
        shutil.copytree(tmp_path / "one", tmp_path / "old")
        with stopped_cleanly(*first, cwd=tmp_path):
            pass
        old = rlab("broker", "--copies", "2", "--data", "old", *at, *ANY, cwd=tmp_path)
        assert (old.returncode, old.stderr.count("it is an old copy")) == (2, 1)


def test_a_cluster_with_copies_goes_on_when_a_broker_is_killed_and_shows_how_to_start_it_again(tmp_path: Path) -> None:
    with daemon("cluster", "--port", "0", "--brokers", "1", "--copies", "2", cwd=tmp_path) as cluster:
        at = ("--namesrv", cluster.address)
        wait_until(lambda: in_sync(at, tmp_path) == [1, 2])
        rlab_json("topic", "create", "orders", *at, cwd=tmp_path)
        victim = next(pid for pid, arguments in children(cluster.process.pid) if "broker-a-1" in arguments)
        os.kill(victim, signal.SIGKILL)
        text = r"broker-a-1 ended by itself \(exit code -9\); the others go on. To start it again: rlab (.*)"
        wait_until(lambda: re.search(text, cluster.stderr) is not None)
        wait_until(lambda: in_sync(at, tmp_path) == [2])
        assert rlab_json("produce", "orders", "--count", "10", *at, cwd=tmp_path)["sent"] == 10
        command = re.search(text, cluster.stderr)
        assert command is not None
        with stopped_cleanly(*shlex.split(command[1]), cwd=tmp_path) as again:
            assert (again.said["role"], again.said["replica_id"]) == ("following", 1)
            wait_until(lambda: in_sync(at, tmp_path) == [1, 2])
        assert cluster.process.poll() is None
        victim = next(pid for pid, arguments in children(cluster.process.pid) if "broker-a-2" in arguments)
        os.kill(victim, signal.SIGKILL)
        assert cluster.process.wait(30) == 1
        assert "error: broker-a-2 ended by itself (exit code -9); the rest of the cluster was stopped" in cluster.stderr
