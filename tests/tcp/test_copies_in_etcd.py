"""A set whose register is in a real etcd, as real processes: etcd and the master are killed, the register is lost."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.tcp.etcd_server import etcd_server
from tests.tcp.rlab_process import daemon, rlab, rlab_json, stopped_cleanly, wait_until
from tests.tcp.test_copies import ANY, in_sync

pytestmark = [pytest.mark.process, pytest.mark.tcp]


def test_a_set_with_its_register_in_etcd_survives_etcd_and_its_master(tmp_path: Path) -> None:
    with (
        etcd_server(tmp_path / "etcd") as etcd,
        stopped_cleanly("namesrv", *ANY, cwd=tmp_path) as name_server,
    ):
        at, place = ("--namesrv", name_server.address), f"etcd://127.0.0.1:1,{etcd.address}/set"
        register = ("--register", place)
        start = (*at, *register, *ANY, "--elect", "operator")
        with (
            daemon("broker", "--copies", "2", "--data", "one", *start, cwd=tmp_path) as first,
            stopped_cleanly("broker", "--replica-of", "broker-a", "--data", "two", *start, cwd=tmp_path) as second,
        ):
            wait_until(lambda: in_sync(at, tmp_path) == [1, 2])
            rlab_json("topic", "create", "orders", "--queues", "2", *at, cwd=tmp_path)
            lines = [f"order {n}" for n in range(100)]
            assert rlab_json("produce", "orders", *at, cwd=tmp_path, text="\n".join(lines[:50]))["failed"] == 0

            etcd.kill()
            assert rlab_json("produce", "orders", *at, cwd=tmp_path, text="\n".join(lines[50:]))["failed"] == 0
            away = rlab("elections", "show", *register, cwd=tmp_path)
            assert (away.returncode, away.stderr.count("no member of etcd answers for the register")) == (1, 1)
            assert etcd.start(), etcd.log

            refused = rlab("elections", "remove", "broker-a", *register, cwd=tmp_path)
            assert (refused.returncode, refused.stderr.count("of set broker-a answer: stop them")) == (1, 1)
            first.signal(signal.SIGKILL)
            elected = rlab_json("broker", "elect", "broker-a", "--replica", "2", *register, cwd=tmp_path)
            assert (elected["master"], elected["epoch"]) == (2, 2)
            forgotten = rlab_json("broker", "forget", "broker-a", "--replica", "1", *register, cwd=tmp_path)
            assert forgotten["left"] == [2]
            got = rlab(
                *("consume", "orders", "--group", "g", "--from", "earliest", "--count", "100", "--timeout", "30", *at),
                cwd=tmp_path,
            )
            assert sorted(got.stdout.splitlines()) == sorted(lines)
            assert second.process.poll() is None

        copy = rlab("elections", "show", *register, "--json", cwd=tmp_path).stdout
        (tmp_path / "copy.json").write_text(copy)
        [row] = json.loads(copy)["sets"]
        assert (row["master"], [each["replica_id"] for each in row["members"]]) == (2, [2])

        elsewhere = ("--register", f"etcd://{etcd.address}/again")
        restored = rlab_json("elections", "restore", "copy.json", *elsewhere, cwd=tmp_path)
        assert restored["register_id"] == row["register_id"]
        twice = rlab("elections", "restore", "copy.json", *elsewhere, cwd=tmp_path)
        assert (twice.returncode, twice.stderr.count("has a register already: name another prefix")) == (2, 1)
        again = ("broker", "--replica-of", "broker-a", "--data", "two", *at, *elsewhere, *ANY)
        with stopped_cleanly(*again, cwd=tmp_path) as serving:
            assert (serving.said["role"], serving.said["replica_id"]) == ("master", 2)
        rlab_json("elections", "remove", "broker-a", *elsewhere, cwd=tmp_path)
        orphan = rlab(*again, cwd=tmp_path)
        assert (orphan.returncode, orphan.stderr.count("which this register does not have")) == (2, 1)


def test_options_that_do_not_fit_are_named(tmp_path: Path) -> None:
    (tmp_path / "copy.json").write_text("{}")
    for arguments, reason in (
        (("elections", "show", "--register", "10.0.0.1:2379"), "write etcd://HOST:PORT"),
        (("elections", "show", "--register", "etcd://127.0.0.1:1"), "127.0.0.1:1: cannot connect"),
        (("broker", "--register", "etcd://127.0.0.1:1", *ANY), "--register has the master of a set: add --copies"),
        (("broker", "--copies", "2", "--register", "etcd://nowhere", *ANY), "'nowhere' is not an address"),
        (("broker", "--quirk", "ACK_WITHOUT_IDENTITY", *ANY), "belongs to brokers with copies: add --copies N"),
        (("elections", "restore", "copy.json"), "--into DIR, or --register"),
        (("elections", "restore", "copy.json", "--into", "d", "--register", "etcd://a:1"), "--into DIR, or --register"),
    ):
        refused = rlab(*arguments, cwd=tmp_path)
        assert refused.returncode in (1, 2)
        assert reason in " ".join(refused.stderr.split()), refused.stderr
        assert "Traceback" not in refused.stderr
